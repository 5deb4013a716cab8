"""Lines of input as bad as they come: late, doubled, skewed, restarted, out of order, of several endpoints."""

import random
from typing import Any

from records.enums import ReplicaState
from records.histogram import Histogram
from records.telemetry import GpuSample, ReplicaChanged, TargetObserved
from tests.streams.controller.line import REQUESTS, Line, policy, sample

START_S = 1_000
ENDPOINTS = ("alpha", "beta", "gamma")
METRICS = [
    {"name": "inflight_requests", "target": 8},
    {"name": "ttft", "target": 400},
    {"name": "queue_depth", "target": 3},
    {"name": "token_utilization", "target": 0.8},
    {"name": "cache_hit_rate"},
    {"name": "gpu_utilization", "target": 0.7},
]
POLICIES = (
    policy("alpha", metrics=METRICS, patienceSeconds=30),
    policy("beta", metrics=METRICS[:3], scaleDown={"windowSeconds": 60}),
    policy("gamma"),
)


Arrivals = list[tuple[float, str, Any]]


def random_line(seed: int, seconds: int) -> Line:
    """`seconds` of three endpoints from START_S on, in the order of receipt."""
    rng = random.Random(seed)
    arrivals: Arrivals = []
    for endpoint in ENDPOINTS:
        _endpoint(rng, endpoint, seconds, arrivals)
    arrivals.sort(key=lambda arrival: arrival[0])
    line = Line()
    for received_s, topic, record in arrivals:
        line.add(topic, record, received_s)
    return line


def bursting_line(seed: int, seconds: int) -> Line:
    """A random line whose samples of an endpoint are held back now and then, and come all at once: nobody can tell the
    clocks of their sources then."""
    rng = random.Random(seed)
    arrivals = [
        (one.received_s, number, one.topic, one.record)
        for number, one in enumerate(random_line(seed, seconds).arrivals)
    ]
    for _ in range(rng.randint(1, 4)):
        endpoint, begin_s = rng.choice(ENDPOINTS), START_S + rng.randint(0, seconds)
        end_s = begin_s + rng.randint(10, 50)
        arrivals = [
            (end_s + number / 1e6, number, topic, record)
            if topic == REQUESTS and record.endpoint == endpoint and begin_s <= received_s < end_s
            else (received_s, number, topic, record)
            for received_s, number, topic, record in arrivals
        ]
    line = Line()
    for received_s, _, topic, record in sorted(arrivals, key=lambda arrival: arrival[:2]):
        line.add(topic, record, received_s)
    return line


def _endpoint(rng: random.Random, endpoint: str, seconds: int, arrivals: Arrivals) -> None:
    for index in range(rng.randint(1, 3)):
        _replica(rng, endpoint, f"{endpoint}-{index}", seconds, arrivals)
    for second in range(rng.randint(0, 20), seconds, 30):
        at_s = START_S + second
        observed = TargetObserved(
            endpoint=endpoint, at_s=at_s, spec_replicas=rng.randint(1, 4), rollout=rng.random() < 0.1
        )
        arrivals.append((at_s + rng.random(), "telemetry.targets", observed))
    if rng.random() < 0.5:
        for second in range(0, seconds, 1):
            gateway = sample(
                START_S + second,
                "",
                endpoint=endpoint,
                source="router",
                reporter="gw",
                epoch="g",
                waiting=float(rng.randint(0, 3)),
                running=None,
                rejections=rng.randint(0, 2),
            )
            arrivals.append((START_S + second + 1 + rng.random(), REQUESTS, gateway))


def _replica(
    rng: random.Random, endpoint: str, replica: str, seconds: int, arrivals: list[tuple[float, str, Any]]
) -> None:
    first, last = rng.choice((0, 0, rng.randint(0, seconds))), rng.choice((seconds, rng.randint(0, seconds)))
    skew_s = rng.choice((0.0, 0.0, 0.0, -20.0, 12.4))
    restart = rng.choice((None, rng.randint(0, seconds)))
    if rng.random() < 0.7:
        _states(rng, endpoint, replica, (first, last), arrivals)
    for second in range(first, last):
        if rng.random() < 0.05:
            continue
        late_s = rng.choice((0.0, rng.random() * 2, rng.random() * 2, 0.0 if rng.random() < 0.98 else 30.0))
        at_s = START_S + second
        epoch = "e1" if restart is None or second < restart else "e2"
        record = sample(
            at_s + int(skew_s),
            replica,
            endpoint=endpoint,
            epoch=epoch,
            seq=rng.randint(0, 2),
            waiting=rng.choice((0.0, 1.5, None)),
            running=rng.choice((4.0, 0.1, 7.3)),
            kv_cache_usage=rng.random(),
            input_tokens=rng.randint(0, 900),
            cached_tokens=rng.randint(0, 300),
            ttft_ms=_histogram(rng),
            e2e_ms=_histogram(rng),
        )
        arrivals.append((at_s + 1 + late_s, REQUESTS, record))
        if rng.random() < 0.05:
            arrivals.append((at_s + 1 + late_s + rng.random() * 4, REQUESTS, record))
        if rng.random() < 0.5:
            gpu = GpuSample(
                endpoint=endpoint, replica=replica, epoch=epoch, at_s=at_s, gpu="g0", gpu_utilization=rng.random()
            )
            arrivals.append((at_s + 1.2, "telemetry.gpus", gpu))


def _histogram(rng: random.Random) -> Histogram | None:
    if rng.random() < 0.3:
        return None
    counts = tuple(rng.randint(0, 3) for _ in range(4))
    return Histogram(explicit_bounds=(50.0, 200.0, 800.0), bucket_counts=counts, sum=float(sum(counts)) * 77.7)


def _states(
    rng: random.Random, endpoint: str, replica: str, life: tuple[int, int], arrivals: list[tuple[float, str, Any]]
) -> None:
    states = [
        (life[0] - 3, ReplicaState.REQUESTED),
        (life[0] - 1, ReplicaState.STARTING),
        (life[0], ReplicaState.READY),
    ]
    states += [(second, ReplicaState.READY) for second in range(life[0] + 30, life[1], 30)]
    states += [(life[1], rng.choice((ReplicaState.GONE, ReplicaState.FAILED, ReplicaState.DRAINING)))]
    for second, state in states:
        at_s = max(START_S, START_S + second)
        changed = ReplicaChanged(endpoint=endpoint, replica=replica, epoch="e1", at_s=at_s, state=state)
        arrivals.append((at_s + rng.random(), "telemetry.replicas", changed))
