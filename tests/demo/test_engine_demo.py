"""A short demo with real engines: what it says, counted again by readers that share no code with it."""

import asyncio
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from rich.console import Console

from headrace.broker import EmbeddedBroker
from headrace.demo.audit import audit, read_sent
from headrace.demo.engine.screen import Standing, open_screen
from headrace.demo.engine.script import ENDPOINTS
from headrace.demo.feed import Feed, Tick
from headrace.exit_codes import ExitCode
from headrace.load import LoadCounts
from sinks.root import TableRoot
from tests.demo.runs import DemoRun
from tests.line.audit import ask, check_ticks, count_everything, read_decisions
from wire.kafka import KafkaAccess
from wire.topics import TOPICS, TopicNames

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(420)]

COUNTED = "Rows in Kafka (committed) and in the Delta tables"
TOKENS = "Tokens: what the engines told their clients, and what the samples add up to"


@dataclass(frozen=True)
class Finished:
    """A demo that ran to its end, and its broker, started again on its folder."""

    run: DemoRun
    status: int
    bootstrap: str

    @property
    def tables(self) -> Path:
        return self.run.data / "tables"

    @property
    def access(self) -> KafkaAccess:
        return KafkaAccess(bootstrap=self.bootstrap)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    run = DemoRun(tmp_path_factory.mktemp("demo"), "engine", "--seconds", "12")
    try:
        status = run.end()
        assert run.left_over() == []
        broker = EmbeddedBroker(run.data / "broker", quick_start=True)
        broker.start()
        yield Finished(run, status, broker.bootstrap)
        broker.stop()
    finally:
        run.kill()


async def test_each_row_in_kafka_is_in_the_tables_or_dead_once(finished: Finished) -> None:
    assert finished.status == ExitCode.OK, f"{finished.run.text}\n{finished.run.errors}"
    counts = await count_everything(finished.bootstrap, "", finished.tables, list(TOPICS))
    told = {row["topic"]: row for row in finished.run.table(COUNTED)}
    assert told.keys() == {topic for topic, count in counts.items() if count.sent}
    for topic, row in told.items():
        count = counts[topic]
        assert row["each once"] == "yes"
        numbers = tuple(int(row[name]) for name in ("sent", "decoded", "in the table", "dead letters"))
        assert numbers == (count.sent, count.sent - count.dead, count.kept, count.dead)
    replicas = sum(len(endpoint.replicas) for endpoint in ENDPOINTS)
    assert counts["telemetry.requests"].sent >= 12 * replicas
    assert counts["signals"].sent == counts["decisions.scaling"].sent == counts["controllers"].sent


async def test_every_tick_of_the_load_is_decided(finished: Finished) -> None:
    decisions = await read_decisions(finished.bootstrap, "")
    spans = check_ticks(decisions)
    samples = f"delta_scan('{finished.tables / 'telemetry_requests'}')"
    for endpoint in ENDPOINTS:
        first, last = spans[endpoint.name]
        of_endpoint = f"FROM {samples} WHERE endpoint = '{endpoint.name}'"
        (begin_s,) = ask(f"SELECT min(at_s) {of_endpoint}")[0]
        (end_s,) = ask(f"SELECT max(at_s) {of_endpoint} AND output_tokens > 0")[0]
        assert begin_s < first < end_s < last, "from before the load until after its last answer"
    assert any(decision["action"] == "scale_up" for decision in decisions["chat"]), "60 users on 16 slots"
    assert {decision["desired"] for decision in decisions["search"]} == {1}


def test_tokens_are_those_that_the_clients_were_told(finished: Finished) -> None:
    table = f"delta_scan('{finished.tables / 'telemetry_requests'}')"
    sums = ask(f"SELECT endpoint, sum(input_tokens), sum(output_tokens) FROM {table} GROUP BY endpoint ORDER BY 1")
    begin = finished.run.lines.index(TOKENS)
    printed = {
        line.split()[0]: [int(cell) for cell in line.split()[1:]] for line in finished.run.lines[begin + 2 :][:2]
    }
    assert printed.keys() == {"chat", "search"}
    for endpoint, prompt, output in sums:
        answered, failed, prompt_told, prompt_kept, output_told, output_kept = printed[endpoint]
        assert answered > 10
        assert failed == 0
        assert (prompt_told, output_told) == (prompt_kept, output_kept) == (prompt, output)


def test_the_folder_is_named_at_both_ends(finished: Finished) -> None:
    data = finished.run.data
    assert finished.run.lines[0].startswith(f"data: {data} ")
    assert finished.run.lines[-3:] == [f"data: {data}", f"logs: {data / 'logs'}", f"tables: {data / 'tables'}"]


async def test_the_commands_to_go_on_with_work(finished: Finished) -> None:
    """As they are printed, with the broker running again; the replay gives the workers' own decisions."""
    lines = finished.run.lines[finished.run.lines.index("How to go on") + 1 : -4]
    commands = [line for line in lines if line.startswith("    ") and " broker " not in line]
    assert len(commands) == 5
    outputs = {}
    for command in commands:
        done = await asyncio.to_thread(
            subprocess.run, ["sh", "-c", command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        outputs[shlex.split(command)[3]] = done.stdout
    replayed = [json.loads(line)["decision_id"] for line in outputs["replay"].splitlines()]
    decided = (await read_decisions(finished.bootstrap, ""))["chat"]
    assert replayed == [decision["decision_id"] for decision in decided]


async def test_a_lost_and_a_doubled_row_are_seen(finished: Finished, tmp_path: Path) -> None:
    """In a copy of the tables: the count must not say yes to everything."""
    copy = tmp_path / "tables"
    shutil.copytree(finished.tables, copy)
    names, root = TopicNames(), TableRoot(address=str(copy))
    sent = await read_sent(finished.access, names)
    assert all(one.is_exact for one in audit(sent, names, root))
    signals = DeltaTable(str(copy / "signals"))
    first = signals.to_pyarrow_table().slice(0, 1)
    partition, offset = (first[name][0].as_py() for name in ("kafka_partition", "kafka_offset"))
    signals.delete(f"kafka_partition = {partition} AND kafka_offset = {offset}")
    policies = DeltaTable(str(copy / "policies")).to_pyarrow_table()
    write_deltalake(str(copy / "policies"), policies.slice(0, 1), mode="append")
    found = {one.topic: (one.missing, one.extra) for one in audit(sent, names, root) if not one.is_exact}
    assert found == {"signals": (1, 0), "policies": (0, 1)}


async def test_a_terminal_shows_the_newest_ticks_and_how_far_it_is(finished: Finished) -> None:
    ticks: list[Tick] = []
    feed = Feed(finished.access, TopicNames(), ticks.append)
    reading = asyncio.create_task(feed.run())
    newest = max(decision["at_s"] for decision in (await read_decisions(finished.bootstrap, ""))["chat"])
    async with asyncio.timeout(60):
        await feed.until_ticked(["chat"], newest)
    reading.cancel()
    await asyncio.wait([reading])
    wide, narrow = _shown(ticks, 150), _shown(ticks, 80)
    last = next(tick for tick in reversed(ticks) if tick.endpoint == "chat")
    for shown in (wide, narrow):
        assert "overload" in shown
        assert "chat 7 sent, 3 in flight" in shown
        assert f"{last.decision.action.value} {last.decision.current}" in shown
        assert last.decision.reason.value in shown
        assert f"{datetime.fromtimestamp(last.at_s, UTC):%H:%M:%S} " in shown
    why = last.decision.detail.partition(";")[0]
    assert " ".join(why.split()) in " ".join(narrow.split())
    assert "…" not in narrow
    bar = narrow.splitlines()[-1]
    assert len(bar) <= 80 - len("^C")


def _shown(ticks: list[Tick], width: int) -> str:
    """The last picture on a terminal of this width, without colours."""
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=40)
    with open_screen(terminal) as screen:
        for tick in ticks:
            screen.show_tick(tick)
        counts = {"chat": LoadCounts(sent=7, completed=4)}
        screen.show_standing(Standing(done_s=6.0, seconds=12.0, phase="overload", counts=counts))
    assert isinstance(terminal.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", terminal.file.getvalue())
