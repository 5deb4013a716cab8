"""Sinks killed, doubled and frozen: every row is there once all the same."""

import asyncio
import contextlib
import random
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator

import msgspec
import psutil
import pytest

from sinks.faults import Point
from tests.sinks.deployment import Deployment, Running, keep_everything, request_samples, running
from tests.sinks.readers import count, identities
from tests.sinks.sink_process import SinkSpec, plan_of

REQUESTS = "telemetry_requests"


def spec_of(deployment: Deployment) -> SinkSpec:
    return SinkSpec(
        bootstrap=deployment.access.bootstrap,
        prefix=deployment.names.prefix,
        folder=str(deployment.folder),
        group=f"{deployment.names.prefix}sink",
    )


@contextlib.asynccontextmanager
async def started(spec: SinkSpec) -> AsyncIterator[Process]:
    """A sink process; killed at the end if it is still there."""
    text = msgspec.json.encode(spec).decode()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sinks.sink_process", text, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            await process.wait()


async def send_good_and_bad(deployment: Deployment, count: int, first: int = 0) -> None:
    """`count` samples, in JSON and in frames, and a message that is no record after every tenth."""
    samples = request_samples(count, first)
    async with deployment.producer() as sender:
        for start in range(0, count, 10):
            chunk = samples[start : start + 10]
            if start % 20:
                await sender.send_frames(chunk, partition=start // 20 % 3)
            else:
                await sender.send_all(chunk)
            await sender.raw("telemetry.requests", b"{", b"k", start // 10 % 3)
        await sender.kafka.flush()


async def assert_everything_once(deployment: Deployment, good: int) -> None:
    """Rows and dead letters are those of the messages in Kafka, each once."""
    kept = identities(deployment.folder, REQUESTS)
    letters = identities(deployment.folder, "deadletters")
    assert set(kept.values()) | set(letters.values()) <= {1}
    assert len(kept) == good
    sent = await deployment.messages("telemetry.requests")
    bad = {(message.partition, message.offset, 0) for message in sent if message.value == b"{"}
    assert set(letters) == bad
    offsets = {(message.partition, message.offset) for message in sent if message.value != b"{"}
    assert {(partition, offset) for partition, offset, _ in kept} == offsets


@pytest.mark.parametrize(
    ("point", "passing", "delay_s"),
    [
        (Point.AFTER_DEAD_LETTERS, 1, 0.0),
        (Point.BEFORE_COMMIT, 1, 0.004),
        (Point.AFTER_COMMIT, 1, 0.0),
        (Point.AFTER_COMMIT, 2, 0.0),
        pytest.param(Point.BEFORE_DEAD_LETTERS, 1, 0.0, marks=pytest.mark.slow),
        pytest.param(Point.AFTER_DEAD_LETTERS, 2, 0.0, marks=pytest.mark.slow),
        pytest.param(Point.BEFORE_COMMIT, 1, 0.0, marks=pytest.mark.slow),
        pytest.param(Point.BEFORE_COMMIT, 2, 0.008, marks=pytest.mark.slow),
        pytest.param(Point.AFTER_OFFSETS, 1, 0.0, marks=pytest.mark.slow),
    ],
)
async def test_killed_at_a_point(deployment: Deployment, point: Point, passing: int, delay_s: float) -> None:
    await send_good_and_bad(deployment, 600)
    spec = spec_of(deployment)
    dying = msgspec.structs.replace(spec, signal_at=point, passing=passing, delay_s=delay_s)
    async with started(dying) as process:
        async with asyncio.timeout(60):
            # The second passing may need another flush.
            if passing > 1:
                await process.stdout.readline()  # type: ignore[union-attr]  # a pipe, as asked for
                await send_good_and_bad(deployment, 200, first=600)
            assert await process.wait() == -signal.SIGKILL
    await keep_everything(plan_of(spec))
    await assert_everything_once(deployment, 800 if passing > 1 else 600)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
async def test_killed_again_and_again(deployment: Deployment, seed: int) -> None:
    """Five kills at any moment while records keep coming."""
    chance = random.Random(seed)
    spec = spec_of(deployment)
    for life in range(5):
        async with started(spec) as process:
            await send_good_and_bad(deployment, 100, first=100 * life)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), chance.uniform(0.8, 3.0))
            assert process.returncode is None
            process.kill()
            await process.wait()
    await keep_everything(plan_of(spec))
    await assert_everything_once(deployment, 500)


async def test_a_frozen_sink_that_wakes_up_doubles_nothing(deployment: Deployment) -> None:
    """It froze between reading the table's progress and writing; others have done its work when it goes on."""
    await send_good_and_bad(deployment, 300)
    spec = spec_of(deployment)
    freezing = msgspec.structs.replace(spec, signal_at=Point.BEFORE_COMMIT, signal="SIGSTOP")
    async with started(freezing) as zombie:
        await _until_stopped(zombie.pid)
        await keep_everything(plan_of(spec))
        await assert_everything_once(deployment, 300)
        zombie.send_signal(signal.SIGCONT)
        await asyncio.wait_for(zombie.stdout.readline(), 60)  # type: ignore[union-attr]  # a pipe, as asked for
        await send_good_and_bad(deployment, 100, first=300)
        zombie.stdin.close()  # type: ignore[union-attr]  # a pipe, as asked for
        assert await asyncio.wait_for(zombie.wait(), 60) == 0
    await keep_everything(plan_of(spec))
    await assert_everything_once(deployment, 400)


async def _until_stopped(pid: int) -> None:
    process = psutil.Process(pid)
    async with asyncio.timeout(60):
        while process.status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110  # the kernel has no event for it
            await asyncio.sleep(0.02)


async def test_two_sinks_share_and_take_over(deployment: Deployment) -> None:
    """One joins, one leaves, while records keep coming."""
    plan = plan_of(spec_of(deployment))
    async with running(plan) as first:
        await send_good_and_bad(deployment, 200)
        await first.caught_up()
        async with running(plan) as second:
            await second.caught_up()
            await _send_while_both_run(deployment, first, second)
        await send_good_and_bad(deployment, 100, first=400)
        await first.until(lambda: count(deployment.folder, REQUESTS) == 500)
    await assert_everything_once(deployment, 500)


async def _send_while_both_run(deployment: Deployment, first: Running, second: Running) -> None:
    await send_good_and_bad(deployment, 200, first=200)
    await first.until(lambda: count(deployment.folder, REQUESTS) == 400)
    assert {first.sink.lag, second.sink.lag} == {0}


async def test_two_groups_on_the_same_tables(deployment: Deployment) -> None:
    """Both read everything and write at the same time: the tables let each row in once."""
    spec = spec_of(deployment)
    other = msgspec.structs.replace(spec, group=f"{spec.group}-other")
    await send_good_and_bad(deployment, 1_000)
    async with running(plan_of(spec)) as first, running(plan_of(other)) as second:
        await send_good_and_bad(deployment, 300, first=1_000)
        await first.caught_up()
        await second.caught_up()
    await assert_everything_once(deployment, 1_300)
