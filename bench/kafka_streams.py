"""The peer of the `ingest` bench: Kafka Streams over the same topic, compiled once and run as a child process."""

import asyncio
import hashlib
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.broker_jars import cache_folder, fetch_jars, find_java

PROJECT = Path(__file__).with_name("kafka_streams")
POM = PROJECT / "pom.xml"
SIZES_S = (20, 300)
"""Lengths of its windows; they hop by 5 s."""
WARM_MESSAGES = 100_000
"""Messages until the cost of one falls no more: the JVM has compiled what it will."""
JVM_OPTIONS = ("-XX:+UseSerialGC", "-Xms512m", "-Xmx1g")
"""The collector that costs least CPU on one core, and a heap that it need not fight for."""
WITHIN_S = 200.0

SETTINGS: dict[str, Any] = {
    "windows": "hopping, 20 s and 300 s by 5 s, grace 2 s, sums of all scalars of a RequestSample by endpoint",
    "stores": "in memory, no changelog, no record cache: each made it faster",
    "threads": 1,
    "json": "each message parsed once, by Jackson's streaming parser; binding to a class was no faster",
    "guarantee": "at least once, offsets committed each second; nothing is written",
    "jvm": " ".join(JVM_OPTIONS),
    "warm_up_messages": WARM_MESSAGES,
    "cpu": "user and system time of the whole JVM from the first record to the last",
}


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """CPU seconds of the peer for `messages`, and the file with the sums of its windows."""

    messages: int
    cpu_s: float
    sums: Path

    @property
    def messages_per_cpu_s(self) -> float:
        return self.messages / self.cpu_s


async def run_peer(bootstrap: str, topic: str, messages: int, folder: Path) -> PeerRun:
    """Have Kafka Streams read all `messages` of the topic, warm. Raises CannotRunError without Java or Maven,
    RuntimeError where it fails, TimeoutError."""
    java, jars, classes = await asyncio.to_thread(lambda: (find_java(), fetch_jars(pom=POM), compile_peer()))
    sums = folder / "peer-sums.tsv"
    process = await asyncio.create_subprocess_exec(
        *(java, *JVM_OPTIONS, f"-Djava.io.tmpdir={folder}", "-cp", f"{classes}:{jars}/*", "HoppingWindows"),
        *(bootstrap, topic, str(messages), str(WARM_MESSAGES), str(sums)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError(f"Kafka Streams ended with status {process.returncode}:\n{errors.decode()[-4000:]}")
    found = json.loads(output)
    return PeerRun(messages=found["messages"], cpu_s=found["cpu_s"], sums=sums)


def compile_peer(cache: Path | None = None) -> Path:
    """The folder of the peer's classes, named by the hash of its sources; compiled when it is not there yet.

    Raises RuntimeError where there is no compiler beside `java`, or it refuses.
    """
    cache, jars = cache or cache_folder(), fetch_jars(cache, POM)
    sources = sorted(PROJECT.rglob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (POM, *sources))).hexdigest()[:16]
    classes = cache / f"kafka-streams-peer-{digest}"
    if classes.is_dir():
        return classes
    with tempfile.TemporaryDirectory(dir=cache, prefix="compiling-") as temporary:
        compiled = Path(temporary, "classes")
        compiler = find_java().resolve().with_name("javac")
        arguments = ["-Xlint:all", "-Werror", "-cp", f"{jars}/*", "-d", str(compiled), *map(str, sources)]
        done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} could not compile the peer:\n{done.stdout}{done.stderr}")
        if not classes.is_dir():
            compiled.rename(classes)
    return classes
