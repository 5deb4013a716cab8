"""`headrace worker` as its users run it: a process with flags, health, metrics and exit statuses."""

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest
from aiokafka.admin import NewPartitions

from headrace.clock import Clock
from headrace.exit_codes import ExitCode
from records.enums import ScalingAction
from tests.conftest import REFUSED_SESSION_S, SESSIONS_TOLD, BrokerFactory, Kafka
from tests.worker.pipeline import Pipeline, samples
from tests.worker.test_worker import policy
from wire.kafka import open_admin

pytestmark = pytest.mark.kafka

HEAVY = ("deltalake", "scipy")
IDLE_MB_MAX = 250.0
REAL = Clock()
WORKING_METRICS = {
    "headrace_messages_read_total",
    "headrace_samples_read_total",
    "headrace_partition_lag_seconds",
    "headrace_partition_unread",
    "headrace_window_series",
    "headrace_window_memory_bytes",
    "headrace_sources_off",
    "headrace_tick_delay_seconds_bucket",
    "headrace_tick_duration_seconds_bucket",
    "headrace_transaction_seconds_bucket",
    "headrace_rebuild_duration_seconds_bucket",
}

COUNTED_FROM_ZERO = (
    'headrace_messages_skipped_total{topic="telemetry.requests"} 0.0',
    'headrace_undecodable_total{reason="malformed",topic="telemetry.requests"} 0.0',
    'headrace_rows_left_out_total{kind="late"} 0.0',
    "headrace_ticks_written_total 0.0",
    "headrace_partitions_fenced_total 0.0",
    "headrace_partitions_failed_total 0.0",
    "headrace_offset_commit_failures_total 0.0",
)
"""A counter that comes with its first event hides that event from `increase()`."""
TICKED = re.compile(r"^headrace_ticks_written_total [1-9]", re.MULTILINE)


class Command:
    """`headrace worker` on a pipeline's topics."""

    def __init__(self, pipeline: Pipeline, folder: Path, *flags: str, clock: Clock = REAL) -> None:
        self._health_file = folder / "health"
        self._log = folder / "log"
        arguments = ["worker", "--bootstrap", pipeline.access.bootstrap, "--topic-prefix", pipeline.prefix]
        arguments += ["--session-timeout-seconds", "2", "--health-file", str(self._health_file), *flags]
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace.main", *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, **clock.to_environment()},
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def ended(self) -> int:
        return await asyncio.to_thread(self.process.wait, 90)

    async def until(self, what: str, holds: Callable[[str], bool], within_s: float = 90.0) -> str:
        """Ask /WHAT until the answer's text is as wanted; that text."""
        async with asyncio.timeout(within_s):
            while True:
                assert self.process.poll() is None, self.said
                text = await asyncio.to_thread(self._ask, what) if self._health_file.exists() else ""
                if holds(text):
                    return text
                await asyncio.sleep(0.1)

    def _ask(self, what: str) -> str:
        address = self._health_file.read_text().strip()
        try:
            with urllib.request.urlopen(f"http://{address}/{what}", timeout=5) as answer:
                return str(answer.read().decode())
        except HTTPError as refused:
            return refused.read().decode()


async def test_live_worker_decides_is_ready_and_small(pipeline: Pipeline, tmp_path: Path) -> None:
    clock = Clock(shown_s=REAL.now_s(), real_s=REAL.now_s(), speed=3.0)
    command = Command(pipeline, tmp_path, clock=clock)
    try:
        await command.until("readyz", lambda text: text != "" and json.loads(text)["ok"])
        mapped = {Path(mapping.path).parts for mapping in psutil.Process(command.process.pid).memory_maps()}
        assert not [parts for parts in mapped if set(HEAVY) & set(parts)]
        assert psutil.Process(command.process.pid).memory_info().rss / 2**20 < IDLE_MB_MAX
        at_first = (await command.until("metrics", bool)).splitlines()
        assert [line for line in COUNTED_FROM_ZERO if line not in at_first] == []

        now_s = int(clock.now_s())
        await pipeline.send([policy("live")], stamped_s=now_s - 20)
        await pipeline.send(samples(["live"], now_s - 20, 18))
        # The samples end here: from now on the clock alone lets ticks fall due.
        await pipeline.until_decided(["live"], now_s + 5)
        decisions = (await pipeline.decisions())["live"]
        ticks = [decision.at_s for decision in decisions]
        assert ticks == list(range(ticks[0], ticks[-1] + 1, 5))
        assert decisions[0].candidates[0].observed is not None
        assert decisions[-1].action is ScalingAction.HOLD
        text = await command.until("metrics", lambda text: re.search(TICKED, text) is not None)
        assert "headrace_partitions_by_state{" in text
        # Each metric that a worker in good health has something to tell of; one sample of each, with its labels.
        told = {line.split(" ")[0].split("{")[0] for line in text.splitlines() if not line.startswith("#")}
        assert WORKING_METRICS - told == set()
        command.process.terminate()
        assert await command.ended() == ExitCode.OK, command.said
    finally:
        command.process.kill()


async def test_unequal_partition_counts_end_the_worker(pipeline: Pipeline, tmp_path: Path) -> None:
    topic = pipeline.names.real("telemetry.gpus")
    async with open_admin(pipeline.access) as admin:
        await admin.create_partitions({topic: NewPartitions(total_count=pipeline.partitions + 2)})
    command = Command(pipeline, tmp_path)
    try:
        assert await command.ended() == ExitCode.PARTITIONS
    finally:
        command.process.kill()
    assert f"{topic}: 6 partitions, allowed 4" in command.said


async def test_a_session_timeout_that_kafka_refuses_is_told_with_its_range(pipeline: Pipeline, tmp_path: Path) -> None:
    command = Command(pipeline, tmp_path, "--session-timeout-seconds", str(REFUSED_SESSION_S))
    try:
        assert await command.ended() == ExitCode.USAGE
    finally:
        command.process.kill()
    assert SESSIONS_TOLD in command.said
    assert "Traceback" not in command.said


async def test_a_worker_without_progress_ends_itself_to_be_started_again(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    # The group's coordinator waits for more members, and assigns nothing meanwhile.
    properties = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "300000"}
    pipeline = Pipeline.unique(broker_factory(properties=properties).bootstrap)
    await pipeline.create()
    command = Command(pipeline, tmp_path, "--stall-seconds", "2")
    try:
        answer = await command.until("healthz", bool)
        assert json.loads(answer) == {"process": "worker", "ok": True, "problems": {}}
        assert await command.ended() == ExitCode.STUCK
    finally:
        command.process.kill()
    assert "the consumer group assigned nothing in" in command.said
    assert "Traceback" not in command.said


async def test_missing_topics_end_the_worker(kafka: Kafka, tmp_path: Path) -> None:
    pipeline = Pipeline.unique(kafka.bootstrap)
    command = Command(pipeline, tmp_path)
    try:
        assert await command.ended() == ExitCode.PARTITIONS
    finally:
        command.process.kill()
    assert f"{pipeline.names.real('controllers')}: missing" in command.said
    assert "Traceback" not in command.said


async def test_no_kafka_ends_the_worker(tmp_path: Path) -> None:
    command = Command(Pipeline.unique("127.0.0.1:9"), tmp_path)
    try:
        assert await command.ended() == ExitCode.UNAVAILABLE
    finally:
        command.process.kill()
    assert "127.0.0.1:9" in command.said
    assert "Traceback" not in command.said


def test_worker_imports_nothing_heavy() -> None:
    program = f"import sys, headrace.commands.worker; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
