"""What every test may ask for: a real Kafka, brokers to kill, the recordings."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.broker import EmbeddedBroker
from tests.oracle.summary import OracleSummary

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
"""Hundreds of processes start in the tests: with this set, as in many containers, each would compile all it imports."""

QUICK_GROUPS = {"group.min.session.timeout.ms": "1000", "group.max.session.timeout.ms": "240000"}
"""Consumer groups may miss a dead member after a second, not six: many die in tests. Long sessions are refused."""
REFUSED_SESSION_S = 300
SESSIONS_TOLD = f"--session-timeout-seconds: {REFUSED_SESSION_S}, allowed by Kafka: 1 to 240 (group.min.session.timeout"


@dataclass(frozen=True)
class Kafka:
    """The session's one broker (one for each xdist worker). Do not kill it: `broker_factory` makes brokers for that."""

    bootstrap: str

    def prefix(self) -> str:
        """A topic prefix that no other test has; use it for consumer groups and transactional ids too."""
        return f"t{uuid.uuid4().hex[:10]}."


class BrokerFactory:
    """Makes brokers that a test may kill; `broker_factory()` is started, and ended after the test."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._made: list[EmbeddedBroker] = []

    def __call__(
        self, folder: Path | None = None, port: int = 0, properties: Mapping[str, str] | None = None, start: bool = True
    ) -> EmbeddedBroker:
        broker = EmbeddedBroker(
            folder or self._folder(), port, {**QUICK_GROUPS, **(properties or {})}, quick_start=True
        )
        self._made.append(broker)
        if start:
            broker.start()
        return broker

    def end(self) -> None:
        for broker in self._made:
            broker.kill()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A real Kafka, started when the first test asks for it. `auto.create.topics.enable` is off, as in production."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("kafka"), properties=QUICK_GROUPS, quick_start=True)
    broker.start()
    yield Kafka(broker.bootstrap)
    broker.kill()


@pytest.fixture
def broker_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerFactory]:
    factory = BrokerFactory(lambda: tmp_path_factory.mktemp("broker"))
    yield factory
    factory.end()


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of recordings and traces: HEADRACE_DATA, or `shared/data` beside the repository."""
    repository = Path(__file__).parents[1]
    folder = Path(os.environ.get("HEADRACE_DATA", repository.parent / "shared" / "data"))
    assert folder.is_dir(), f"no recordings in {folder}: set HEADRACE_DATA"
    return folder


LONGEST_FIRST = ("demo", "line", "worker", "fleet", "actuators", "headrace", "replay", "streams", "sinks", "wire")
"""Folders of long files, which begin first: of two test processes none is left alone with one at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Kept by `make test` (--no-loadscope-reorder); within a folder, and of all others, the order stays."""
    ranks = {folder: rank for rank, folder in enumerate(LONGEST_FIRST)}
    here = Path(__file__).parent
    items.sort(key=lambda item: ranks.get(item.path.relative_to(here).parts[0], len(ranks)))


class _SkipsFail:
    """Under CI=true a test that was not run has failed: nobody looks at what was left out."""

    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.skipped.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid in self.skipped:
            terminalreporter.write_line(f"SKIPPED under CI, which counts as failed: {nodeid}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    config.pluginmanager.register(OracleSummary())
    if os.environ.get("CI") == "true":
        config.pluginmanager.register(_SkipsFail())
