"""What telemetry costs its sender: the producer embedded beside an engine, that of an agent, `headrace collect`."""

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path

import aiokafka
import msgspec
import psutil
import pyarrow as pa
from aiokafka import TopicPartition

from bench.engine_stub import BODY_BYTES, engine
from bench.producer_host import HostPlan, HostReport, SecondOfSamples
from bench.registry import Result
from bench.worker_line import ENDPOINTS, NAMES, PARTITIONS, SEED, Fleet, Line, line
from records.telemetry import GpuSample
from wire.kafka import open_consumer, partition_of

AGENT_REPLICAS = 1_000
SECONDS_OF_SAMPLES = 4
"""Made before; a frame's compression looks back no further than its message."""
COLLECTED = "chat"
COLLECT_WARM_S = 5.0


def run(*, short: bool) -> Result:
    """Each alone on a real broker: full samples and one GPU's, once a second, in real time."""
    return asyncio.run(_measure(8 if short else 60))


async def _measure(seconds: int) -> Result:
    async with line() as kafka:
        embedded = await _host(kafka, replicas=1, seconds=seconds)
        agent = await _host(kafka, replicas=AGENT_REPLICAS, seconds=seconds)
        collect = await _collect(kafka, seconds)
    return Result(
        figures={
            "embedded_core_fraction": _core_fraction(embedded),
            "agent_core_fraction": _core_fraction(agent),
            "agent_resident_mb": agent.resident_mb,
            "collect_core_fraction": collect,
        },
        context={
            "embedded": msgspec.to_builtins(embedded),
            "agent": msgspec.to_builtins(agent),
            "agent_replicas": AGENT_REPLICAS,
            "samples": "a full RequestSample and a GpuSample a replica and second; JSON embedded, frames of the agent",
            "core_fraction": "the process's user and system time, less that of making the samples",
            "collect": f"one engine, /metrics of {BODY_BYTES} bytes and /health once a second",
            "partitions": PARTITIONS,
            "endpoints_of_agent": len(ENDPOINTS),
            "seconds": seconds,
            "seed": SEED,
            "aiokafka": aiokafka.__version__,
            "pyarrow": pa.__version__,
        },
    )


def _core_fraction(report: HostReport) -> float:
    return (report.cpu_s - report.making_cpu_s) / report.wall_s


async def _host(kafka: Line, replicas: int, seconds: int) -> HostReport:
    """One process with the producer. Raises RuntimeError where it loses a sample."""
    samples = kafka.folder / f"samples-{replicas}"
    await asyncio.to_thread(_write_samples, samples, replicas)
    plan = HostPlan(
        bootstrap=kafka.access.bootstrap, samples=str(samples), seconds=seconds, frames=replicas == AGENT_REPLICAS
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.producer_host", msgspec.json.encode(plan).decode()),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the producer's host ended with status {process.returncode}")
    report = msgspec.json.decode(output, type=HostReport)
    if report.dropped:
        raise RuntimeError(f"the producer dropped {report.dropped} of {report.dropped + report.sent} samples")
    return report


def _write_samples(file: Path, replicas: int) -> None:
    fleet, chance = Fleet(), random.Random(SEED)
    with file.open("wb") as output:
        for at_s in range(SECONDS_OF_SAMPLES):
            names = [(ENDPOINTS[number % len(ENDPOINTS)], f"replica-{number:04d}") for number in range(replicas)]
            second = SecondOfSamples(
                requests=[fleet.sample(endpoint, replica, at_s, full=True) for endpoint, replica in names],
                gpus=[_gpu(endpoint, replica, at_s, chance) for endpoint, replica in names],
            )
            output.write(msgspec.json.encode(second) + b"\n")


def _gpu(endpoint: str, replica: str, at_s: int, chance: random.Random) -> GpuSample:
    return GpuSample(
        endpoint=endpoint,
        replica=replica,
        epoch="6f1c2b34-9d5e-4a70-8f21/0",
        at_s=at_s,
        seq=at_s,
        gpu=f"GPU-{replica}",
        node="node-17",
        gpu_utilization=round(chance.random(), 3),
        sm_active=round(chance.random(), 3),
        tensor_active=round(chance.random(), 3),
        dram_active=round(chance.random(), 3),
        memory_used_bytes=chance.randrange(80 * 2**30),
        memory_total_bytes=80 * 2**30,
        power_w=round(700 * chance.random(), 1),
        temperature_c=round(30 + 45 * chance.random(), 1),
        xid=0,
    )


async def _collect(kafka: Line, seconds: int) -> float:
    """The share of a core that `headrace collect` needs beside one engine, its producer with it. Raises RuntimeError
    where it does not send a sample a second."""
    arguments = ["collect", "--endpoint", COLLECTED, "--bootstrap", kafka.access.bootstrap]
    async with engine() as url:
        with (kafka.folder / "collect.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headrace.main", *arguments, "--replica", f"{COLLECTED}-0={url}"),
                stdout=log,
                stderr=log,
            )
        try:
            await asyncio.sleep(COLLECT_WARM_S)
            before_s, before = _cpu_s(process.pid), await _samples_collected(kafka)
            await asyncio.sleep(seconds)
            core_fraction = (_cpu_s(process.pid) - before_s) / seconds
            sent = await _samples_collected(kafka) - before
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    if sent < seconds - 2:
        raise RuntimeError(f"headrace collect sent {sent} samples in {seconds} s")
    return core_fraction


async def _samples_collected(kafka: Line) -> int:
    """How many there are in the endpoint's partition, to which nothing else is sent meanwhile."""
    partition = TopicPartition(NAMES.real("telemetry.requests"), partition_of(COLLECTED, PARTITIONS))
    async with open_consumer(kafka.access) as consumer:
        ends = await consumer.end_offsets([partition])
    return int(ends[partition])


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
