"""What workers decided comes out of Kafka again: exported, replayed, the same ids."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from headrace.export import Exporter, NothingToExportError, find_recording
from headrace.export_logs import EndpointLogs
from headrace.replay import Replay
from records.decisions import ScalingDecision
from records.fields import SECOND_MAX
from records.memory import ControllerMemory
from records.policy import EndpointPolicy
from records.signals import EndpointSignal
from streams.controller.controller import PartitionController
from streams.endpoints.effects import PolicyDeleted, TickEffects
from tests.conftest import Kafka
from tests.headrace.test_main import headrace
from tests.seeds import seeds
from tests.streams.controller.line import REQUESTS, Arrival, Line, feed_all, policy, read_again, sample, started
from tests.streams.controller.random_line import ENDPOINTS, POLICIES, random_line
from tests.streams.controller.skips import Gap
from wire.admin import TopicSettings, create_topics
from wire.codec import encode
from wire.frames import ARROW_CONTENT_TYPE, CONTENT_TYPE_HEADER, EncodedFrame, encode_frames
from wire.kafka import KafkaAccess, open_consumer, open_producer, partition_of
from wire.topics import TopicNames

PARTITIONS = 2

pytestmark = pytest.mark.kafka


class Cluster:
    """The topics of one test, and workers that a test may kill."""

    def __init__(self, kafka: Kafka, seed: int) -> None:
        self.access = KafkaAccess(bootstrap=kafka.bootstrap)
        self.names = TopicNames(kafka.prefix())
        self.rng = random.Random(seed)

    async def create(self) -> None:
        await create_topics(self.access, self.names, TopicSettings(partitions=PARTITIONS, producer_timestamps=True))

    async def send(self, topic: str, records: list[Any]) -> None:
        async with open_producer(self.access) as producer:
            futures = [
                await producer.send(
                    self.names.real(topic),
                    encode(record),
                    record.endpoint.encode(),
                    partition_of(record.endpoint, PARTITIONS),
                )
                for record in records
            ]
            await asyncio.gather(*futures)

    async def send_frames(self, frames: list[EncodedFrame], partition: int) -> None:
        async with open_producer(self.access) as producer:
            for frame in frames:
                headers = [(CONTENT_TYPE_HEADER, ARROW_CONTENT_TYPE)]
                await producer.send_and_wait(self.names.real(REQUESTS), frame.value, b"any", partition, headers=headers)

    def logs(self, endpoint: str) -> EndpointLogs:
        return EndpointLogs(endpoint, self.names, lambda: open_consumer(self.access))


def _partition_line(line: Line, partition: int) -> Line:
    """The arrivals of one partition, with the offsets that Kafka gives them."""
    found = Line()
    for arrival in line.arrivals:
        if partition_of(arrival.record.endpoint, PARTITIONS) == partition:
            found.add(arrival.topic, arrival.record, arrival.received_s)
    return found


Reading = Callable[[PartitionController, Sequence[Arrival], random.Random], list[TickEffects]]


def _all_of(line: Line, rng: random.Random) -> Reading:
    return feed_all


def _with_a_gap(line: Line, rng: random.Random) -> Reading:
    return Gap.anywhere(line.arrivals, rng).feed if line.arrivals else feed_all


def _work(line: Line, policies: list[EndpointPolicy], rng: random.Random, feed: Reading) -> list[TickEffects]:
    """A partition's ticks by several owners, each killed somewhere, with what was not committed lost."""
    committed: list[TickEffects] = []
    memories: dict[str, ControllerMemory] = {}
    stops = sorted(rng.randint(0, len(line.arrivals)) for _ in range(3))
    for stop in [*stops, len(line.arrivals)]:
        controller = PartitionController(0, lambda endpoint: True)
        plan = controller.restore(memories.values(), policies, len(policies))
        made = feed(controller, read_again(plan, line.arrivals[:stop]), rng)
        kept = made if stop == len(line.arrivals) else made[: rng.randint(0, len(made))]
        committed += kept
        memories.update({one.endpoint: one.memory for one in kept})
    return committed


async def _record(
    cluster: Cluster, seed: int, reading: Callable[[Line, random.Random], Reading] = _all_of
) -> dict[str, list[TickEffects]]:
    """Send a random line to Kafka, let workers work on it, and write what they made."""
    await cluster.create()
    line = random_line(seed, 500)
    received = Line()
    for arrival in line.arrivals:
        # Kafka's timestamps are whole milliseconds; a record may say more exactly when it was received.
        record = msgspec.structs.replace(arrival.record, received_s=arrival.received_s)
        received.add(arrival.topic, record, arrival.received_s)
    by_topic = defaultdict(list)
    for arrival in received.arrivals:
        by_topic[arrival.topic].append(arrival.record)
    await cluster.send("policies", list(POLICIES))
    for topic, records in by_topic.items():
        await cluster.send(topic, records)
    made: dict[str, list[TickEffects]] = defaultdict(list)
    for partition in range(PARTITIONS):
        own = [policy for policy in POLICIES if partition_of(policy.endpoint, PARTITIONS) == partition]
        of_partition = _partition_line(received, partition)
        feed = reading(of_partition, cluster.rng)
        for effects in _work(of_partition, own, cluster.rng, feed):
            made[effects.endpoint].append(effects)
    for effects_of in made.values():
        for topic, records in _outputs(effects_of):
            await cluster.send(topic, records)
    return made


def _outputs(effects: list[TickEffects]) -> list[tuple[str, list[Any]]]:
    return [
        ("signals", [one.signal for one in effects]),
        ("controllers", [one.memory for one in effects]),
        ("decisions.scaling", [decision for one in effects for decision in one.decisions]),
    ]


async def _export(cluster: Cluster, endpoint: str, from_s: int, to_s: int) -> list[bytes]:
    logs = cluster.logs(endpoint)
    try:
        recording = await find_recording(logs, from_s, to_s)
        return [line async for line in Exporter(logs, recording).lines()]
    finally:
        await logs.close()


def _replay(lines: list[bytes]) -> tuple[list[ScalingDecision], list[EndpointSignal]]:
    decisions: list[ScalingDecision] = []
    signals: list[EndpointSignal] = []

    def write(topic: str, record: msgspec.Struct) -> None:
        match record:
            case ScalingDecision():
                decisions.append(record)
            case EndpointSignal():
                signals.append(record)
            case _:
                raise AssertionError(f"{topic}: {record}")

    replay = Replay((), write, source="file:export")
    for line in lines:
        replay.take(line.rstrip(b"\n"))
    replay.finish()
    return decisions, signals


@pytest.mark.parametrize("seed", seeds(6, quick=1))
async def test_a_replayed_export_gives_the_workers_own_decisions(kafka: Kafka, seed: int) -> None:
    """Of all there is, and of a part that may begin and end anywhere."""
    cluster = Cluster(kafka, seed)
    made = await _record(cluster, seed)
    for endpoint in ENDPOINTS:
        decisions, signals = _replay(await _export(cluster, endpoint, 0, 2**40))
        assert decisions == [decision for one in made[endpoint] for decision in one.decisions]
        unnumbered = [msgspec.structs.replace(signal, offsets={}) for signal in signals]
        assert unnumbered == [msgspec.structs.replace(one.signal, offsets={}) for one in made[endpoint]]
        first, last = sorted(cluster.rng.sample([one.at_s for one in made[endpoint]], 2))
        decisions, _ = _replay(await _export(cluster, endpoint, first, last))
        wanted = [decision for one in made[endpoint] for decision in one.decisions if first <= one.at_s <= last]
        assert decisions[: len(wanted)] == wanted
        assert len(decisions) - len(wanted) <= 1


@pytest.mark.parametrize("seed", seeds(12, quick=1))
async def test_what_workers_left_unread_is_left_out_of_an_export(kafka: Kafka, seed: int) -> None:
    cluster = Cluster(kafka, seed)
    made = await _record(cluster, seed, _with_a_gap)
    for endpoint in ENDPOINTS:
        told = [one.at_s for one in made[endpoint] if one.signal.skipped_records]
        assert told
        for first in (0, told[0] + 20):
            decisions, _ = _replay(await _export(cluster, endpoint, first, 2**40))
            assert decisions == [one for tick in made[endpoint] for one in tick.decisions if one.at_s >= first]


async def test_rows_of_a_frame_are_read_together_again(kafka: Kafka) -> None:
    """Frames of several endpoints and seconds: a tick falls due with a message, not in the middle of one."""
    cluster = Cluster(kafka, 7)
    await cluster.create()
    policies = [policy(name) for name in ENDPOINTS]
    await cluster.send("policies", policies)
    rows = [
        sample(at_s, replica, endpoint=endpoint, received_s=at_s // 4 * 4 + 4.5, running=float(at_s % 7))
        for at_s in range(1000, 1120)
        for endpoint in ENDPOINTS
        for replica in ("r1", "r2")
    ]
    made: dict[str, list[TickEffects]] = defaultdict(list)
    for partition in range(PARTITIONS):
        own = [row for row in rows if partition_of(row.endpoint, PARTITIONS) == partition]
        frames = encode_frames(own, rows_max=13)
        await cluster.send_frames(frames, partition)
        controller = started(*policies)
        for offset, frame in enumerate(frames):
            received_s = np.array([row.received_s for row in frame.samples])
            for effects in controller.feed(REQUESTS, frame.samples, np.full(len(received_s), offset), received_s):
                made[effects.endpoint].append(effects)
    for effects_of in made.values():
        for topic, records in _outputs(effects_of):
            await cluster.send(topic, records)
    for endpoint in ENDPOINTS:
        lines = await _export(cluster, endpoint, 0, 2**40)
        assert any(b'"continues":true' in line for line in lines)
        decisions, _ = _replay(lines)
        assert decisions == [decision for one in made[endpoint] for decision in one.decisions]


async def test_an_endpoint_without_ticks_is_told_with_the_one_that_was_meant(kafka: Kafka) -> None:
    cluster = Cluster(kafka, 13)
    await cluster.create()
    await cluster.send("policies", [policy("alpha")])
    env = {"HEADRACE_BOOTSTRAP": kafka.bootstrap, "HEADRACE_TOPIC_PREFIX": cluster.names.prefix}
    where = f"the topics on {kafka.bootstrap} hold no tick of"
    answers = {
        "alhpa": f"{where} alhpa (did you mean alpha?)\n",
        "alpha": f"{where} alpha: no worker has decided about it, or they are no longer kept\n",
    }
    for endpoint, message in answers.items():
        done = await asyncio.to_thread(headrace, "export", "--endpoint", endpoint, env=env)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


async def test_an_export_after_a_deletion_says_what_it_leaves_out(kafka: Kafka) -> None:
    """The policy is deleted and published again: each chain can be had, and none is mixed with the other."""
    cluster = Cluster(kafka, 11)
    await cluster.create()
    again = policy("alpha")
    samples = [
        sample(at_s, "r1", endpoint="alpha", received_s=at_s + 1.0, running=90.0 if at_s < 1060 else 4.0)
        for at_s in range(1000, 1090)
    ]
    controller = started()
    made: list[TickEffects] = []

    def feed(topic: str, records: list[Any], offset: int, received_s: list[float]) -> None:
        offsets = np.arange(offset, offset + len(records))
        made.extend(controller.feed(topic, records, offsets, np.array(received_s)))

    feed("policies", [again], 0, [1000.0])
    feed(REQUESTS, samples[:30], 0, [one.at_s + 1.0 for one in samples[:30]])
    first_ticks = [one.at_s for one in made]
    feed("policies", [PolicyDeleted("alpha")], 1, [1031.0])
    feed(REQUESTS, samples[30:60], 30, [one.at_s + 1.0 for one in samples[30:60]])
    feed("policies", [again], 2, [1060.0])
    feed(REQUESTS, samples[60:], 60, [one.at_s + 1.0 for one in samples[60:]])
    await cluster.send("policies", [again])
    async with open_producer(cluster.access) as producer:
        partition = partition_of("alpha", PARTITIONS)
        await producer.send_and_wait(cluster.names.real("policies"), None, b"alpha", partition)
    await cluster.send("policies", [again])
    await cluster.send(REQUESTS, samples)
    for topic, records in _outputs(made):
        await cluster.send(topic, records)
    chains = (
        [one for one in made if one.at_s in first_ticks],
        [one for one in made if one.at_s not in first_ticks],
    )
    assert all(len(chain) > 3 for chain in chains)
    wanted = ((chains[0], first_ticks[-1], 0, None), (chains[1], 2**40, len(first_ticks), 1))
    for chain, to_s, left_out, deleted_at in wanted:
        logs = cluster.logs("alpha")
        recording = await find_recording(logs, 0, to_s)
        await logs.close()
        assert (recording.left_out, recording.deleted_at) == (left_out, deleted_at)
        decisions, _ = _replay(await _export(cluster, "alpha", 0, to_s))
        assert decisions == [decision for one in chain for decision in one.decisions]
    late = chains[1][2:]
    decisions, _ = _replay(await _export(cluster, "alpha", late[0].at_s, late[-1].at_s))
    assert decisions == [decision for one in late for decision in one.decisions], "what was before is not read again"
    there = f"the first is {made[0].at_s}, the last {made[-1].at_s}"
    for from_s, to_s, bounds in ((5000, SECOND_MAX, "from 5000"), (0, 999, "to 999"), (10, 20, "from 10 to 20")):
        with pytest.raises(NothingToExportError, match=f"^no tick of alpha {bounds} is in the log; {there}$"):
            await _export(cluster, "alpha", from_s, to_s)
