"""A process of its own that sends samples at a set pace, so that whoever measures is not kept busy by them.

`python -m bench.sample_sender BOOTSTRAP REPLICAS SECONDS` prints what it did as one JSON object.
"""

import asyncio
import sys

import msgspec
import psutil

from bench.worker_line import ENDPOINTS, PARTITIONS, Fleet
from headrace.clock import Clock, monotonic_s
from streams.endpoints.ticks import LATENESS_S, TICK_S
from wire.codec import encode
from wire.kafka import KafkaAccess, open_producer, partition_of

SPREAD_S = 0.5
"""Samples of a second are sent within this time after its end, in an order that differs each time."""
TOGETHER = 20
"""Samples that are sent at once: 10,000 a second are some 40 µs apart."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """`completed`: endpoint, tick and the monotonic second at which the sample that completes it was sent; the machine
    has one such clock for all processes. An endpoint's ticks begin after its first second.

    `late_s` is how far each second's last sample was behind its plan: the machine was too busy where it is large.
    """

    completed: list[tuple[str, int, float]]
    late_s: list[float]
    cpu_s: float


async def send(access: KafkaAccess, replicas: int, seconds: int) -> Sent:
    """Send in real time, from the next second on."""
    fleet, clock = Fleet(), Clock()
    completed: dict[tuple[str, int], float] = {}
    late_s = []
    pairs = [(endpoint, f"{endpoint}-{number:03d}") for endpoint in ENDPOINTS for number in range(replicas)]
    first_s = int(clock.now_s()) + 2
    async with open_producer(access) as producer:
        for at_s in range(first_s, first_s + seconds):
            # Made before they are due: making one takes longer than sending it.
            fleet.chance.shuffle(pairs)
            values = [encode(fleet.sample(endpoint, replica, at_s, full=False)) for endpoint, replica in pairs]
            for number, ((endpoint, _), value) in enumerate(zip(pairs, values, strict=True)):
                due_s = at_s + 1 + SPREAD_S * number / len(pairs)
                if number % TOGETHER == 0:
                    await clock.sleep(due_s - clock.now_s())
                tick_s = at_s + 1 - LATENESS_S
                if tick_s % TICK_S == 0 and tick_s > first_s:
                    completed.setdefault((endpoint, tick_s), monotonic_s())
                partition = partition_of(endpoint, PARTITIONS)
                await producer.send("telemetry.requests", value, endpoint.encode(), partition)
            late_s.append(clock.now_s() - due_s)
    return Sent(
        completed=[(endpoint, tick_s, sent_s) for (endpoint, tick_s), sent_s in completed.items()],
        late_s=late_s,
        cpu_s=sum(psutil.Process().cpu_times()[:2]),
    )


def main() -> None:
    bootstrap, replicas, seconds = sys.argv[1:]
    sent = asyncio.run(send(KafkaAccess(bootstrap=bootstrap), int(replicas), int(seconds)))
    sys.stdout.buffer.write(msgspec.json.encode(sent))


if __name__ == "__main__":
    main()
