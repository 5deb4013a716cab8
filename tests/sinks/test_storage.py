"""Full disks and missing folders: the command ends with its own status and a message, and goes on later."""

import asyncio
import contextlib
import random
import resource
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from headrace.exit_codes import ExitCode
from records.telemetry import RequestSample
from tests.sinks.deployment import Deployment, keep_everything, request_samples
from tests.sinks.readers import count, identities

REQUESTS = "telemetry_requests"
DISK_BYTES = 256 * 1024
FILE_BYTES = 64 * 1024


@dataclass(frozen=True)
class SmallDisk:
    """A folder that takes little. `before` runs in the sink's process, `grow` ends the shortage."""

    folder: Path
    says: str
    before: Callable[[], None]
    grow: Callable[[], None]


def _limited(folder: Path) -> SmallDisk:
    """No file of the sink's process may be larger than FILE_BYTES."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))

    return SmallDisk(folder, "File too large", limit, lambda: None)


def _mounted(folder: Path) -> SmallDisk:
    def grow() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)

    return SmallDisk(folder, "No space left on device", lambda: None, grow)


@pytest.fixture(params=["tmpfs", "rlimit"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A tmpfs; where this user may mount none, and for `rlimit`, a limit on the size of files, which fails alike."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if request.param == "rlimit" or subprocess.run(mount, capture_output=True).returncode:
        yield _limited(folder)
        return
    try:
        yield _mounted(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def incompressible(count: int, first: int) -> list[RequestSample]:
    """Samples of which each takes some 125 bytes in a file."""
    chance = random.Random(first)
    return [
        msgspec.structs.replace(sample, epoch=f"{chance.getrandbits(1000):x}")
        for sample in request_samples(count, first)
    ]


@contextlib.asynccontextmanager
async def command(deployment: Deployment, before: Callable[[], None] = lambda: None) -> AsyncIterator[Process]:
    """`headrace sink` of one topic; killed at the end if it is still there."""
    flags = {
        "bootstrap": deployment.access.bootstrap,
        "topic-prefix": deployment.names.prefix,
        "tables": deployment.folder,
        "topics": "telemetry.requests",
        "flush-seconds": 0.2,
    }
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace.main", "sink", *arguments, stderr=PIPE, preexec_fn=before
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def outcome(process: Process) -> tuple[int | None, str]:
    """Status and stderr of a command that ends by itself."""
    async with asyncio.timeout(60):
        _, told = await process.communicate()
    return process.returncode, told.decode()


async def until_rows(deployment: Deployment, wanted: int, process: Process) -> None:
    async with asyncio.timeout(90):
        while count(deployment.folder, REQUESTS) < wanted:
            assert process.returncode is None, await outcome(process)
            await asyncio.sleep(0.05)


async def assert_everything_once(deployment: Deployment) -> None:
    sent = await deployment.messages("telemetry.requests")
    kept = identities(deployment.folder, REQUESTS)
    assert set(kept.values()) == {1}
    assert set(kept) == {(message.partition, message.offset, 0) for message in sent}


async def test_a_full_disk_ends_the_sink_and_loses_nothing(deployment: Deployment, small_disk: SmallDisk) -> None:
    deployment = replace(deployment, folder=small_disk.folder)
    await deployment.send(request_samples(50))
    async with command(deployment, small_disk.before) as process:
        await until_rows(deployment, 50, process)
        await deployment.send(incompressible(4_000, first=50))
        status, told = await outcome(process)
    assert status == ExitCode.STORAGE
    assert f"table {small_disk.folder / REQUESTS} cannot be written" in told
    assert small_disk.says in told
    assert "Traceback" not in told
    assert identities(small_disk.folder, REQUESTS).most_common(1)[0][1] == 1
    small_disk.grow()
    await keep_everything(deployment.plan())
    await assert_everything_once(deployment)


async def test_a_folder_that_is_not_there(deployment: Deployment) -> None:
    deployment = replace(deployment, folder=deployment.folder / "nowhere")
    async with command(deployment) as process:
        status, told = await outcome(process)
    assert status == ExitCode.STORAGE
    assert f"the tables' folder {deployment.folder} is not there (hint: mkdir -p {deployment.folder}" in told
    assert not deployment.folder.exists()


async def test_a_folder_that_goes_away_and_comes_back(deployment: Deployment) -> None:
    """As a disk that is unmounted: nothing may be written in its place."""
    away = deployment.folder.with_name("away")
    await deployment.send(request_samples(50))
    async with command(deployment) as process:
        await until_rows(deployment, 50, process)
        deployment.folder.rename(away)
        await deployment.send(request_samples(50, first=50))
        status, told = await outcome(process)
    assert (status, deployment.folder.exists()) == (ExitCode.STORAGE, False)
    assert f"the tables' folder {deployment.folder} is not there" in told
    away.rename(deployment.folder)
    await keep_everything(deployment.plan())
    await assert_everything_once(deployment)
