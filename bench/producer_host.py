"""A process with nothing in it but the producer that pods and agents embed, and samples to hand it once a second."""

import asyncio
import json
import sys
import time
from pathlib import Path

import msgspec
import psutil

from records.telemetry import GpuSample, RequestSample
from wire.kafka import KafkaAccess
from wire.producer import ProducerSettings, TelemetryProducer

WARM_S = 3
AGENT = ProducerSettings(frames=True, linger_s=0.2)


class HostPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`samples` is a file of seconds, a JSON object each; they are sent in turns, `seconds` times after a warm-up, each
    with the time of its sending."""

    bootstrap: str
    samples: str
    seconds: int
    frames: bool


class SecondOfSamples(msgspec.Struct, frozen=True, kw_only=True):
    requests: list[RequestSample]
    gpus: list[GpuSample]


class HostReport(msgspec.Struct, frozen=True, kw_only=True):
    """`cpu_s` is of the whole process, in the `wall_s` after the warm-up, and `making_cpu_s` the part of it that gave
    the samples their times; `sent` and `dropped` are of the producer's whole life."""

    cpu_s: float
    making_cpu_s: float
    wall_s: float
    resident_mb: float
    sent: int
    dropped: int


async def host(plan: HostPlan) -> HostReport:
    seconds = _read(plan.samples)
    access = KafkaAccess(bootstrap=plan.bootstrap, client_id="bench-producer")
    producer = TelemetryProducer(access, settings=AGENT if plan.frames else None)
    await producer.start()
    begun_s = begun_cpu_s = making_cpu_s = 0.0
    for number in range(WARM_S + plan.seconds):
        await asyncio.sleep(1 - time.time() % 1)
        if number == WARM_S:
            begun_s, begun_cpu_s, making_cpu_s = time.perf_counter(), time.process_time(), 0.0
        making_s = time.process_time()
        found = _now(seconds[number % len(seconds)])
        making_cpu_s += time.process_time() - making_s
        for each in found:
            producer.send(each)
    await asyncio.sleep(1 - time.time() % 1)
    cpu_s, wall_s = time.process_time() - begun_cpu_s, time.perf_counter() - begun_s
    resident_mb = psutil.Process().memory_info().rss / 2**20
    await producer.stop()
    return HostReport(
        cpu_s=cpu_s,
        making_cpu_s=making_cpu_s,
        wall_s=wall_s,
        resident_mb=resident_mb,
        sent=producer.counts.sent,
        dropped=producer.counts.dropped,
    )


def _read(samples: str) -> list[SecondOfSamples]:
    with Path(samples).open("rb") as lines:
        return [msgspec.json.decode(line, type=SecondOfSamples) for line in lines]


def _now(second: SecondOfSamples) -> list[msgspec.Struct]:
    """The samples, as of the second that just ended."""
    at_s = int(time.time()) - 1
    return [msgspec.structs.replace(each, at_s=at_s, seq=at_s) for each in (*second.requests, *second.gpus)]


if __name__ == "__main__":
    report = asyncio.run(host(msgspec.convert(json.loads(sys.argv[1]), HostPlan)))
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
