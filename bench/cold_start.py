"""Seconds from starting `headrace up` to the first decision that can be read, read committed."""

import asyncio
import os
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiokafka
import faust

from bench.registry import Result
from bench.worker_line import SEED, Fleet, decisions_from_the_start, read_decisions
from headrace.broker_jars import fetch_jars
from headrace.clock import Clock, monotonic_s
from wire.kafka import KafkaAccess
from wire.producer import TelemetryProducer

ENDPOINT = "chat"
REPLICAS = 4
WITHIN_S = 120.0
STOP_S = 30.0
POLICY = f"""\
endpoint: {ENDPOINT}
scaleTargetRef: {{kind: Deployment, name: {ENDPOINT}}}
minReplicas: 1
maxReplicas: 8
metrics: [{{name: inflight_requests}}, {{name: queue_depth, target: 4}}]
"""


def run(*, short: bool) -> Result:
    """Each run on a new data folder; a first one, which is not counted, warms the caches."""
    fetch_jars()
    asyncio.run(_start_once())
    runs = [asyncio.run(_start_once()) for _ in range(1 if short else 3)]
    return Result(
        figures={"seconds": median(found.decided_s for found in runs)},
        context={
            "runs_s": [round(found.decided_s, 2) for found in runs],
            "steps_s": runs[-1].steps_s,
            "telemetry": "from the start on, once a second; pods keep it until Kafka answers",
            "replicas": REPLICAS,
            "seed": SEED,
            "faust": faust.__version__,
            "aiokafka": aiokafka.__version__,
        },
    )


@dataclass(frozen=True, kw_only=True)
class Started:
    """Seconds since the start of the command: of the first decision, and when `up` said what."""

    decided_s: float
    steps_s: dict[str, float]


async def _start_once() -> Started:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        policies = Path(folder) / "policies"
        policies.mkdir()
        (policies / f"{ENDPOINT}.yaml").write_text(POLICY)
        arguments = ["up", "--policies", str(policies), "--data", str(Path(folder) / "data")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        environment |= {name: os.environ[name] for name in ("HEADRACE_CACHE",) if name in os.environ}
        started_s, first_s = monotonic_s(), int(Clock().now_s())
        log_path = Path(folder) / "up.log"
        with log_path.open("wb") as log:
            up = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "headrace.main", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        try:
            async with asyncio.timeout(WITHIN_S):
                return await _follow(up, started_s, first_s)
        except Exception as error:
            error.add_note(log_path.read_text()[-2000:])
            raise
        finally:
            await _end(up)


async def _follow(up: asyncio.subprocess.Process, started_s: float, first_s: int) -> Started:
    """Read what `up` says: it tells Kafka's address first, and the pods and a reader of decisions then connect."""
    assert up.stdout is not None
    steps_s: dict[str, float] = {}
    address = ""
    while not address:
        name, _, value = (await up.stdout.readline()).decode().strip().partition(": ")
        if not name:
            raise RuntimeError(f"headrace up ended with status {await up.wait()}")
        steps_s[name] = round(monotonic_s() - started_s, 2)
        address = value if name == "kafka" else ""
    access = KafkaAccess(bootstrap=address)
    others = [
        asyncio.create_task(_note_steps(up.stdout, started_s, steps_s)),
        asyncio.create_task(_send_telemetry(access, first_s)),
    ]
    try:
        return Started(decided_s=await _first_decision_s(access) - started_s, steps_s=steps_s)
    finally:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


async def _note_steps(output: asyncio.StreamReader, started_s: float, steps_s: dict[str, float]) -> None:
    while said := (await output.readline()).decode():
        steps_s[said.split(":")[0].split(";")[0].strip()] = round(monotonic_s() - started_s, 2)


async def _send_telemetry(access: KafkaAccess, first_s: int) -> None:
    """Every second of each replica, from `first_s` on: at once those that pods kept, then each when it is over."""
    fleet, clock = Fleet(), Clock()
    producer = TelemetryProducer(access)
    await producer.start()
    try:
        at_s = first_s
        while True:
            await clock.sleep(at_s + 1 - clock.now_s())
            for replica in range(REPLICAS):
                producer.send(fleet.sample(ENDPOINT, f"{ENDPOINT}-{replica}", at_s, full=True))
            at_s += 1
    finally:
        await producer.stop(timeout_s=0)


async def _first_decision_s(access: KafkaAccess) -> float:
    async with decisions_from_the_start(access) as consumer:
        while True:
            if found := await read_decisions(consumer):
                return found[0][1]


async def _end(up: asyncio.subprocess.Process) -> None:
    """Ctrl-C, as a user would; the folder is removed only when everything has ended."""
    with suppress(ProcessLookupError):
        up.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(STOP_S):
            await up.communicate()
    except TimeoutError:
        up.kill()
        await up.wait()
