"""One run in real Kafka and in real tables: the same explanations, wherever they are read."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.explain.selector import DecisionSelector
from headrace.explain.sources import decision_log
from headrace.explain.sources.find import Found, Places, find_case
from headrace.export_logs import EndpointLogs
from headrace.local_stack import headrace_command
from records.decisions import ScalingDecision
from records.enums import ScalingAction
from records.policy import EndpointPolicy
from sinks.root import TableRoot
from tests.conftest import Kafka
from tests.explain.cases import told
from tests.explain.checker.check import check_object
from tests.explain.closed_loop import ClosedLoop, write_tables
from tests.explain.run_check import check_run
from tests.sinks.deployment import PARTITIONS, Deployment, keep_everything
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames

KEPT_S = 150
"""Seconds of the run that are in the tables too."""
OUTPUTS = ("signals", "controllers", "decisions.scaling")
KEPT = (*OUTPUTS, "policies", "outcomes", "telemetry.targets")
"""Topics that an explanation needs."""


class Line(msgspec.Struct, kw_only=True):
    """A run, its topics, and the tables that hold its beginning."""

    loop: ClosedLoop
    deployment: Deployment

    @property
    def access(self) -> KafkaAccess:
        return self.deployment.access

    @property
    def root(self) -> TableRoot:
        return TableRoot(address=str(self.deployment.folder))

    def places(self, *, tables: bool = False, kafka: bool = False) -> Places:
        return Places(
            root=self.root if tables else None,
            access=self.access if kafka else None,
            names=self.deployment.names,
        )

    async def find(self, wanted: DecisionSelector, **which: bool) -> Found:
        return await asyncio.to_thread(find_case, wanted, self.places(**which))

    async def send(self, first_s: int, end_s: int) -> None:
        """What travelled in a span of event time, stamped with it; outputs in a transaction; one aborted, and junk."""
        own = {
            topic: [record for record in records if first_s <= _time(record, self.loop) < end_s]
            for topic, records in self.loop.records.items()
        }
        async with open_producer(self.access) as producer:
            await self._send_all(producer, {topic: own[topic] for topic in own if topic not in OUTPUTS})
        async with open_producer(self.access, transactional_id=f"{self.deployment.names.prefix}worker") as producer:
            async with producer.transaction():
                await self._send_all(producer, {topic: own[topic] for topic in OUTPUTS})
            await producer.begin_transaction()
            await self._send_all(producer, {topic: [_moved(own[topic][-1], 1)] for topic in OUTPUTS})
            await producer.abort_transaction()
        async with open_producer(self.access) as producer:
            for topic in OUTPUTS:
                for value in (None, b"", b"{", b"null", b"\xff"):
                    await self._put(producer, topic, value, (first_s + 2) * 1000)

    async def _send_all(self, producer: Any, records: Mapping[str, Sequence[Any]]) -> None:
        for topic, of_topic in records.items():
            for record in of_topic:
                await self._put(producer, topic, encode(record), (_time(record, self.loop) + 2) * 1000)
        await producer.flush()

    async def _put(self, producer: Any, topic: str, value: bytes | None, stamp_ms: int) -> None:
        key = self.loop.endpoint
        real, partition = self.deployment.names.real(topic), partition_of(key, PARTITIONS)
        await producer.send(real, value, key.encode(), partition, timestamp_ms=stamp_ms)


def _time(record: Any, loop: ClosedLoop) -> int:
    return loop.start_s if isinstance(record, EndpointPolicy) else int(record.at_s)


def _moved(record: Any, by_s: int) -> Any:
    return msgspec.structs.replace(record, at_s=record.at_s + by_s)


@pytest.fixture
async def line(kafka: Kafka, tmp_path: Path) -> Line:
    """Ten minutes ago; the tables have KEPT_S seconds of it, Kafka all."""
    loop = ClosedLoop(start_s=int(time.time()) // 300 * 300 - 600, answers=lambda second: second > 60).run(260)
    folder = tmp_path / "tables"
    folder.mkdir()
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    await create_topics(access, names, TopicSettings(partitions=PARTITIONS, producer_timestamps=True))
    made = Line(loop=loop, deployment=Deployment(access, names, folder))
    await made.send(loop.start_s - 1, loop.start_s + KEPT_S)
    await keep_everything(made.deployment.plan(topics=KEPT))
    await made.send(loop.start_s + KEPT_S, loop.start_s + 300)
    return made


@pytest.mark.kafka
async def test_tables_and_kafka_tell_the_same_and_together_more(line: Line) -> None:
    loop = line.loop
    moves = [it for it in loop.moves if it.at_s < loop.start_s + KEPT_S]
    holds = [it for it in loop.decisions if it.action is ScalingAction.HOLD and it.at_s < loop.start_s + KEPT_S]
    for decision in (moves[1], moves[-1], holds[-1]):
        wanted = DecisionSelector(endpoint="chat", at_s=decision.at_s + 4)
        kept, logged = await line.find(wanted, tables=True), await line.find(wanted, kafka=True)
        assert kept.case.decision == logged.case.decision == decision
        assert told(kept.case) == told(logged.case)
        assert check_object(told(kept.case), UTC) == []
        assert {it["computed"] for it in told(kept.case)["counterfactuals"]} == {"again"}
    both = await line.find(wanted, tables=True, kafka=True)
    assert (both.from_tables, both.from_kafka) == (True, False)
    assert told(both.case) == told(kept.case)
    await check_the_end_of_the_tables(line, moves[-1])
    await check_newest(line)
    await check_ids(line, moves[-1])
    await check_errors(line)
    await check_commands(line, moves[0])
    checked = check_run(line.root, UTC)
    assert checked.disagreements == ()
    assert checked.explained == checked.decided_again == len(moves)


async def check_the_end_of_the_tables(line: Line, decision: ScalingDecision) -> None:
    """Something newer may be on Kafka: it is asked, and what came of the last decision is taken from there."""
    wanted = DecisionSelector(endpoint="chat", at_s=decision.at_s)
    found = await line.find(wanted, tables=True, kafka=True)
    assert (found.from_tables, found.from_kafka) == (True, True)
    assert told(found.case) == told((await line.find(wanted, kafka=True)).case)


async def check_newest(line: Line) -> None:
    """The newest is what the place has; with both it is Kafka's, in the tables' words where they know it."""
    ends = {}
    for which in ({"tables": True}, {"kafka": True}, {"tables": True, "kafka": True}):
        found = await line.find(DecisionSelector(endpoint="chat"), **which)
        ends[tuple(which)] = found.case.decision
        assert check_object(told(found.case), UTC) == []
    assert ends[("tables",)].at_s < line.loop.start_s + KEPT_S
    assert ends[("kafka",)] == ends[("tables", "kafka")] == line.loop.decisions[-1]


async def check_ids(line: Line, decision: ScalingDecision) -> None:
    for which in ({"tables": True}, {"kafka": True}):
        for at_s in (None, decision.at_s + 600):
            wanted = DecisionSelector(endpoint="chat", decision_id=decision.decision_id[:12], at_s=at_s)
            assert (await line.find(wanted, **which)).case.decision == decision


async def check_errors(line: Line) -> None:
    first_s, start_s = line.loop.decisions[0].at_s, line.loop.start_s
    for which in ({"tables": True}, {"kafka": True}):
        for wanted, words in (
            (DecisionSelector(endpoint="chta"), "did you mean chat?"),
            (DecisionSelector(endpoint="chat", at_s=start_s), f"the first is of {first_s} ("),
            (DecisionSelector(endpoint="chat", decision_id="0" * 12), "id begins with 000000000000"),
        ):
            with pytest.raises(CannotRunError) as raised:
                await line.find(wanted, **which)
            assert words in raised.value.message
            assert raised.value.code is ExitCode.USAGE
    away = line.places(tables=True)
    away = msgspec.structs.replace(away, access=replace(line.access, bootstrap="127.0.0.1:1"))
    found = await asyncio.to_thread(find_case, DecisionSelector(endpoint="chat"), away)
    assert found.from_tables
    assert "No Kafka answers at 127.0.0.1:1" in (found.problem or "")
    with pytest.raises(CannotRunError, match="No Kafka answers") as raised:
        await asyncio.to_thread(find_case, DecisionSelector(endpoint="chat"), msgspec.structs.replace(away, root=None))
    assert raised.value.code is ExitCode.UNAVAILABLE
    unknown = msgspec.structs.replace(line.places(kafka=True), names=TopicNames("none."))
    with pytest.raises(CannotRunError, match="does not exist") as raised:
        await asyncio.to_thread(find_case, DecisionSelector(endpoint="chat"), unknown)
    assert raised.value.code is ExitCode.PARTITIONS


async def check_commands(line: Line, decision: ScalingDecision) -> None:
    """As a user runs it: text, and the object."""
    where = [f"--tables={line.deployment.folder}", f"--bootstrap={line.access.bootstrap}"]
    where += [f"--topic-prefix={line.deployment.names.prefix}", "--at", str(decision.at_s)]
    printed, status = await run("explain", "chat", *where)
    assert status == ExitCode.OK
    assert printed.startswith(f"chat: decision {decision.decision_id[:12]} of ")
    assert printed.rstrip().endswith(f"From the tables in {line.deployment.folder}.")
    printed, status = await run("explain", "chat", *where[1:], "--json")
    assert status == ExitCode.OK
    told_object = json.loads(printed)
    assert {"decision", "signal", "outcome", "sentences", "counterfactuals", "source"} <= set(told_object)
    assert told_object["source"]["used"] == ["kafka"]
    assert set(told_object["sentences"][0]) == {"kind", "text", "numbers"}
    assert msgspec.convert(told_object["decision"], ScalingDecision) == decision
    assert check_object(told_object) == []


async def run(*arguments: str) -> tuple[str, int]:
    process = await asyncio.create_subprocess_exec(
        *headrace_command(*arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert b"Traceback" not in errors
    assert process.returncode is not None
    return output.decode(), process.returncode


@pytest.mark.kafka
@pytest.mark.parametrize("stamped_after_s", [2, 300_000_000], ids=["by event time", "on another clock"])
async def test_a_long_log_is_not_read_to_find_one_decision(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, stamped_after_s: int
) -> None:
    """3,000 decisions of two endpoints in one partition; stretches of 100."""
    access, names = KafkaAccess(bootstrap=kafka.bootstrap), TopicNames(kafka.prefix())
    await create_topics(access, names, TopicSettings(partitions=1, producer_timestamps=True))
    start_s = int(time.time()) // 300 * 300 - 100_000 - (stamped_after_s if stamped_after_s > 10 else 0)
    loop = ClosedLoop(start_s=start_s).run(20)
    async with open_producer(access) as producer:
        for number in range(1500):
            for endpoint in ("other", "chat"):
                decision = msgspec.structs.replace(
                    loop.decisions[0], endpoint=endpoint, at_s=start_s + 5 * number, decision_id=f"{number:064x}"
                )
                stamp_ms = (decision.at_s + stamped_after_s) * 1000
                real = names.real("decisions.scaling")
                await producer.send(real, encode(decision), endpoint.encode(), 0, timestamp_ms=stamp_ms)
    monkeypatch.setattr(decision_log, "STRETCH", 100)
    logs = CountedLogs("chat", names, access)
    log = decision_log.DecisionLog(logs)
    for number in (0, 700, 1400, 1499):
        logs.read = 0
        found = await log.up_to(start_s + 5 * number + 3)
        assert found is not None
        assert found.decision.at_s == start_s + 5 * number
        assert logs.read < 700
    assert await log.up_to(start_s - 1) is None
    newest = await log.newest()
    assert newest is not None
    assert newest.decision.at_s == start_s + 5 * 1499
    await logs.close()


class CountedLogs(EndpointLogs):
    """Counts the offsets that are asked for; each probe for a place asks for one message."""

    def __init__(self, endpoint: str, names: TopicNames, access: KafkaAccess) -> None:
        super().__init__(endpoint, names, lambda: open_consumer(access, fetch_max_wait_ms=20, max_poll_records=50))
        self.read = 0

    async def messages(self, topic: str, first: int, end: int | None = None) -> Any:
        async for polled in super().messages(topic, first, end):
            for message in polled:
                self.read += 1
                yield [message]


def test_tables_that_are_not_there_have_a_status(tmp_path: Path) -> None:
    nowhere = Places(root=TableRoot(address=str(tmp_path / "nowhere")))
    with pytest.raises(CannotRunError, match="nowhere") as raised:
        find_case(DecisionSelector(endpoint="chat"), nowhere)
    assert raised.value.code is ExitCode.STORAGE
    with pytest.raises(CannotRunError, match="no table decisions_scaling"):
        find_case(DecisionSelector(endpoint="chat"), Places(root=TableRoot(address=str(tmp_path))))


def test_what_the_tables_lack_is_left_out(tmp_path: Path) -> None:
    """Only decisions: no signal, no policy, no outcomes, and nothing decided again."""
    loop = ClosedLoop().run(80)
    write_tables(tmp_path, {"decisions.scaling": loop.records["decisions.scaling"]})
    found = find_case(
        DecisionSelector(endpoint="chat", at_s=loop.moves[0].at_s), Places(root=TableRoot(address=str(tmp_path)))
    )
    assert found.case.decision == loop.moves[0]
    assert found.case.signal is None
    assert found.case.policy is None
    assert check_object(told(found.case), UTC) == []
