"""Lines of input as they nearly always are: many endpoints whose replicas all speak, and now and then some quirk."""

import random
from typing import Any

from records.enums import ReplicaState
from records.histogram import Histogram
from records.policy import EndpointPolicy
from records.telemetry import ReplicaChanged, TargetObserved
from tests.streams.controller.line import REQUESTS, Line, policy, sample

START_S = 1_000
METRICS = (
    [{"name": "inflight_requests", "target": 8}],
    [{"name": "inflight_requests", "target": 8}, {"name": "queue_depth"}, {"name": "token_utilization"}],
    [{"name": "throughput_per_replica", "target": 90}, {"name": "active_sessions", "target": 4}],
    [{"name": "cpu_utilization"}, {"name": "ttft"}],
)
WINDOWS: tuple[dict[str, Any], ...] = (
    {},
    {"scaleUp": {"windowSeconds": 10}, "scaleDown": {"windowSeconds": 60}},
    {"scaleUp": {"windowSeconds": 60}, "scaleDown": {"windowSeconds": 60}},
    {"scaleUp": {"windowSeconds": 22}},
)

Arrivals = list[tuple[float, str, Any]]


def steady_line(seed: int, endpoints: int, seconds: int) -> tuple[Line, list[EndpointPolicy]]:
    """`seconds` of so many endpoints from START_S on, in the order of receipt, and their policies."""
    rng = random.Random(seed)
    arrivals: Arrivals = []
    policies = []
    for number in range(endpoints):
        name = f"endpoint-{number}"
        windows = rng.choice((WINDOWS[0], rng.choice(WINDOWS)))
        policies.append(policy(name, metrics=rng.choice(METRICS), **windows))
        has_histograms = rng.random() < 0.4
        for index in range(rng.choice((1, 1, 2, 3, 5))):
            _replica(rng, name, f"{name}-{index}", seconds, has_histograms, arrivals)
        if rng.random() < 0.3:
            _targets(rng, name, seconds, arrivals)
    arrivals.sort(key=lambda arrival: arrival[0])
    line = Line()
    for received_s, topic, record in arrivals:
        line.add(topic, record, received_s)
    return line, policies


def _replica(
    rng: random.Random, endpoint: str, name: str, seconds: int, has_histograms: bool, arrivals: Arrivals
) -> None:
    first = rng.choice((0, 0, 0, rng.randint(0, seconds)))
    last = rng.choice((seconds, seconds, seconds, rng.randint(0, seconds)))
    quirk_s = rng.choice((None, None, None, rng.randint(0, seconds)))
    quirk = rng.choice(("silent", "late", "rejects", "unknown", "leaks", "stuck", "alternates", "restarts"))
    if rng.random() < 0.5:
        _states(rng, endpoint, name, (first + rng.choice((0, 0, 7)), last), arrivals)
    inside = 0.0
    for second in range(first, last):
        at_s = START_S + second
        arrivals_now, completions = rng.randint(0, 9), min(rng.randint(0, 9), int(inside))
        inside += arrivals_now - completions
        waiting = round(inside * rng.random() * 0.5, 2)
        fields: dict[str, Any] = {
            "arrivals": arrivals_now,
            "completions": completions,
            "waiting": waiting,
            "running": inside - waiting,
            "kv_cache_usage": rng.random(),
            "cpu": rng.random(),
            "active_sessions": rng.random() * 9,
            "input_tokens": rng.randint(0, 900),
            "cached_tokens": rng.randint(0, 300),
            "output_tokens": rng.randint(0, 900),
            "rejections": 0,
        }
        if has_histograms:
            fields["e2e_ms"] = fields["ttft_ms"] = _histogram(rng)
        delay_s = rng.random() / 2
        if quirk_s is not None and quirk_s <= second < quirk_s + 20:
            if quirk == "silent" and second < quirk_s + 12:
                continue
            delay_s += 8.0 if quirk == "late" and rng.random() < 0.2 else 0.0
            fields |= _quirk(quirk, second, fields)
        epoch = "e2" if quirk == "restarts" and quirk_s is not None and second >= quirk_s else "e1"
        record = sample(at_s, name, endpoint=endpoint, epoch=epoch, **fields)
        arrivals.append((at_s + 1 + delay_s, REQUESTS, record))


def _quirk(quirk: str, second: int, fields: dict[str, Any]) -> dict[str, Any]:
    match quirk:
        case "rejects":
            return {"rejections": second % 3}
        case "unknown":
            return {"kv_cache_usage": None, "arrivals": None, "input_tokens": None}
        case "leaks":
            return {"arrivals": fields["arrivals"] + 40}
        case "stuck":
            return {"waiting": 3.0, "running": 0.0, "arrivals": 0, "completions": 0}
        case "alternates":
            return {"output_tokens": 900 if second % 2 else 90}
        case _:
            return {}


def _histogram(rng: random.Random) -> Histogram:
    counts = tuple(rng.randint(0, 3) for _ in range(4))
    return Histogram(explicit_bounds=(50.0, 200.0, 800.0), bucket_counts=counts, sum=float(sum(counts)) * 77.7)


def _states(rng: random.Random, endpoint: str, name: str, life: tuple[int, int], arrivals: Arrivals) -> None:
    for second in range(life[0], life[1], 30):
        at_s = START_S + second
        changed = ReplicaChanged(endpoint=endpoint, replica=name, epoch="e1", at_s=at_s, state=ReplicaState.READY)
        arrivals.append((at_s + rng.random(), "telemetry.replicas", changed))


def _targets(rng: random.Random, endpoint: str, seconds: int, arrivals: Arrivals) -> None:
    for second in range(0, seconds, 30):
        at_s = START_S + second
        seen = TargetObserved(endpoint=endpoint, at_s=at_s, spec_replicas=rng.randint(1, 5), rollout=rng.random() < 0.2)
        arrivals.append((at_s + rng.random(), "telemetry.targets", seen))
