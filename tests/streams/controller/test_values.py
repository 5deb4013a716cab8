"""What a value may be: numbers, states and coverage."""

from typing import Any

import pytest

from records.enums import ReplicaState, ValueState
from records.histogram import Histogram
from records.signals import EndpointSignal, SignalValue
from records.telemetry import GpuSample, ReplicaChanged
from tests.streams.controller.line import REQUESTS, Line, policy, run, sample

S = ValueState
ALL = [
    "inflight_requests",
    "queue_depth",
    "model_unit_utilization",
    "ttft",
    "decoding_speed",
    "e2e_latency",
    "throughput_per_replica",
    "token_utilization",
    "cache_hit_rate",
    "active_sessions",
    "cpu_utilization",
    "gpu_utilization",
    "gpu_memory",
]
COEFFICIENTS = {"name": "m", "hardware": "h", "a": 0.01, "b": 0.1, "f": 1.0}
EVERY = policy(
    metrics=[{"name": name} for name in ALL],
    model={"name": "m", "hardware": "h", "coefficients": COEFFICIENTS},
    scaleDown={"windowSeconds": 60},
)


def histogram(*counts: int) -> Histogram:
    return Histogram(explicit_bounds=(100.0, 200.0, 400.0), bucket_counts=counts, sum=float(sum(counts)) * 150)


def ready(at_s: int, replica: str = "r1") -> ReplicaChanged:
    return ReplicaChanged(endpoint="chat", replica=replica, epoch="e1", at_s=at_s, state=ReplicaState.READY)


def last_signal(line: Line, **keys: Any) -> EndpointSignal:
    chosen = policy(**keys) if keys else EVERY
    return run(line, chosen)[-1].signal


def value(line: Line, name: str, window: int = 20) -> SignalValue:
    return last_signal(line).windows[str(window)][name]


def busy(seconds: range, replicas: tuple[str, ...] = ("r1", "r2"), **fields: Any) -> Line:
    line = Line()
    line.samples(sample(at_s, replica, **fields) for at_s in seconds for replica in replicas)
    return line


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("inflight_requests", {"running": 3.0, "waiting": 2.0}, 10.0),
        ("queue_depth", {"waiting": 2.0}, 4.0),
        ("throughput_per_replica", {"output_tokens": 50}, 100.0),
        ("active_sessions", {"active_sessions": 7.0}, 14.0),
        ("token_utilization", {"kv_cache_usage": 0.25}, 0.25),
        ("cpu_utilization", {"cpu": 0.5}, 0.5),
        ("cache_hit_rate", {"input_tokens": 100, "cached_tokens": 30}, 0.3),
        ("ttft", {"ttft_ms": histogram(0, 1, 0, 0)}, 195.0),
        ("decoding_speed", {"tpot_ms": histogram(2, 0, 0, 0)}, 95.0),
        ("e2e_latency", {"e2e_ms": histogram(0, 0, 1, 0)}, 390.0),
        # 2 arrivals a second of 0.01*100 + 0.1*20 + 1 = 4 units: 480 a minute, and two waiting: 8; two replicas do 200.
        (
            "model_unit_utilization",
            {
                "arrived_input_tokens": 100,
                "arrived_output_tokens_estimate": 20.0,
                "waiting": 1.0,
                "input_tokens": 100,
                "output_tokens": 20,
            },
            (480 + 8) / 200,
        ),
        # Without an estimate the sizes are those of the requests that were completed.
        ("model_unit_utilization", {"input_tokens": 100, "output_tokens": 20}, 480 / 200),
    ],
)
def test_each_metric_has_its_number(name: str, fields: dict[str, Any], expected: float) -> None:
    found = value(busy(range(1000, 1100), **fields), name)
    assert found.state is S.FRESH
    assert found.value == pytest.approx(expected)
    assert found.measured == 2


def test_gpus_are_averaged_over_a_replica_and_then_over_replicas() -> None:
    line = Line()
    for at_s in range(1000, 1060):
        for replica, gpus in (("r1", (0.2, 0.4)), ("r2", (0.9,))):
            line.samples([sample(at_s, replica)])
            for index, share in enumerate(gpus):
                line.add(
                    "telemetry.gpus",
                    GpuSample(
                        endpoint="chat",
                        replica=replica,
                        epoch="e1",
                        at_s=at_s,
                        gpu=f"gpu{index}",
                        gpu_utilization=share,
                        memory_used_bytes=30,
                        memory_total_bytes=40,
                    ),
                )
    assert value(line, "gpu_utilization").value == pytest.approx((0.3 + 0.9) / 2)
    assert value(line, "gpu_memory").value == pytest.approx(0.75)


def test_what_was_turned_away_counts_as_in_flight_for_as_long_as_a_request_lasts() -> None:
    known = busy(range(1000, 1100), running=4.0, rejections=3, e2e_ms=histogram(0, 1, 0, 0))
    unknown = busy(range(1000, 1100), running=4.0, rejections=3)
    assert value(known, "inflight_requests").value == pytest.approx(8 + 6 * 0.150)
    assert value(unknown, "inflight_requests").value == pytest.approx(8 + 6 * 5)


def test_percentiles_come_from_merged_histograms_with_different_bounds() -> None:
    other = Histogram(explicit_bounds=(150.0, 200.0), bucket_counts=(0, 10, 0), sum=1750.0)
    line = Line()
    for at_s in range(1000, 1060):
        line.samples([sample(at_s, "r1", ttft_ms=histogram(10, 0, 0, 0)), sample(at_s, "r2", ttft_ms=other)])
    found = last_signal(
        line, metrics=[{"name": "ttft", "percentile": "p50"}, {"name": "ttft", "percentile": "p99"}]
    ).windows["20"]
    assert found["ttft:p50"].value == pytest.approx(100.0)
    assert found["ttft:p99"].value == pytest.approx(199.0)


def test_router_and_engine_are_never_added() -> None:
    line = Line()
    for at_s in range(1000, 1060):
        line.samples([sample(at_s, running=4.0), sample(at_s, source="router", reporter="a", running=3.0)])
        line.samples([sample(at_s, source="router", reporter="b", running=3.0, epoch="e1")])
    assert value(line, "inflight_requests").value == 4.0
    line = Line()
    for at_s in range(1000, 1060):
        line.samples(sample(at_s, source="router", reporter=name, running=3.0) for name in ("a", "b"))
    assert value(line, "inflight_requests").value == 6.0


def test_a_gateways_queue_is_demand_when_no_replica_exists() -> None:
    """scenarios.md A12: at zero replicas the engines' series do not exist."""
    line = Line()
    line.samples(
        sample(
            at_s, "", source="router", reporter="gw", epoch="g", running=None, waiting=9.0, completions=0, arrivals=3
        )
        for at_s in range(1000, 1060)
    )
    found = value(line, "inflight_requests")
    assert (found.value, found.state) == (9.0, S.FRESH)


def test_a_gateway_that_falls_silent_with_a_queue_makes_the_demand_partial() -> None:
    line = Line()
    for at_s in range(1000, 1100):
        line.samples([sample(at_s)])
        if at_s < 1070:
            line.samples([sample(at_s, "", source="router", reporter="gw", epoch="g", waiting=9.0, completions=0)])
    assert value(line, "inflight_requests").state is S.PARTIAL
    line = Line()
    for at_s in range(1000, 1100):
        line.samples([sample(at_s)])
        if at_s < 1070:
            fields = {"waiting": 0.0, "running": None, "completions": 0, "arrivals": 0}
            line.samples([sample(at_s, "", source="router", reporter="gw", epoch="g", **fields)])
    assert value(line, "inflight_requests").state is S.FRESH


@pytest.mark.parametrize("waiting", [0.0, 9.0])
def test_where_replicas_and_gateway_fell_silent_nothing_is_known(waiting: float) -> None:
    """The gateway's last word, that it holds nothing, is no word on the replicas."""
    line = Line()
    for at_s in range(1000, 1070):
        fields = {"waiting": waiting, "running": None, "completions": 0, "arrivals": 0}
        line.samples([sample(at_s), sample(at_s, "", source="router", reporter="gw", epoch="g", **fields)])
    for at_s in range(1070, 1110):
        line.add("telemetry.replicas", ready(at_s, "replica-of-another-node"))
    found = value(line, "inflight_requests")
    assert (found.value, found.state) == (None, S.STALE)


def test_one_silent_replica_of_ten_leaves_the_others_values() -> None:
    """scenarios.md A8."""
    line = Line()
    for number in range(10):
        line.add("telemetry.replicas", ready(1000, f"r{number}"))
    line.samples(sample(at_s, f"r{number}", kv_cache_usage=0.95) for at_s in range(1000, 1100) for number in range(9))
    found = value(line, "token_utilization")
    assert (found.measured, found.state) == (9, S.FRESH)
    assert found.value == pytest.approx(0.95)
    seen = last_signal(line)
    assert [one.replica for one in seen.down_blockers if one.kind == "coverage"] == ["r9"]


def test_an_unready_replica_without_samples_costs_no_coverage() -> None:
    """scenarios.md A9."""
    line = Line()
    line.add("telemetry.replicas", ready(1000, "r1"))
    starting = ReplicaChanged(endpoint="chat", replica="r2", epoch="e1", at_s=1000, state=ReplicaState.STARTING)
    line.add("telemetry.replicas", starting)
    line.samples(sample(at_s, "r1") for at_s in range(1000, 1100))
    seen = last_signal(line)
    assert seen.windows["20"]["inflight_requests"].coverage == 1.0
    assert not [one for one in seen.down_blockers if one.kind == "coverage"]


def test_a_replica_that_was_just_added_is_covered_by_its_own_seconds() -> None:
    line = Line()
    line.add("telemetry.replicas", ready(1000, "r1"))
    for at_s in range(1000, 1100):
        if at_s == 1090:
            line.add("telemetry.replicas", ready(1090, "r2"))
        line.samples([sample(at_s, "r1")] + [sample(at_s, "r2")] * (at_s >= 1090))
    seen = last_signal(line)
    assert seen.windows["60"]["inflight_requests"].coverage == 1.0
    # Ten seconds of four requests in a window of sixty.
    assert seen.windows["60"]["inflight_requests"].value == pytest.approx(4 + 4 / 6)


def test_before_the_first_record_nothing_is_known() -> None:
    """scenarios.md B12: a first window that is half empty is no low load."""
    line = busy(range(1000, 1010), replicas=("r1",), running=8.0)
    seen = last_signal(line)
    found = seen.windows["20"]["inflight_requests"]
    assert (found.value, found.state) == (8.0, S.PARTIAL)
    assert found.coverage == pytest.approx(0.5)
    assert [one.until_s for one in seen.down_blockers if one.kind == "rebuild"] == [1060]


def test_the_drain_order_and_the_deadlines_percentile() -> None:
    line = Line()
    for at_s in range(1000, 1060):
        line.samples(
            [
                sample(at_s, "r1", running=5.0, e2e_ms=histogram(0, 0, 10, 0)),
                sample(at_s, "r2", running=1.0, input_tokens=10, cached_tokens=9),
                sample(at_s, "r3", running=1.0, input_tokens=10, cached_tokens=1),
                sample(at_s, "r4", running=None),
            ]
        )
    seen = last_signal(line)
    assert [one.replica for one in seen.drain_order] == ["r3", "r2", "r1", "r4"]
    assert seen.drain_order[0].cache_hit_rate == pytest.approx(0.1)
    assert seen.drain_p99_ms == pytest.approx(398.0)


def test_a_longer_window_than_300_s_is_kept() -> None:
    line = busy(range(1000, 2000), replicas=("r1",), running=8.0, completions=None)
    line.samples(sample(at_s, running=2.0, completions=None) for at_s in range(2000, 2400))
    seen = last_signal(line, scaleDown={"windowSeconds": 900}, metrics=[{"name": "inflight_requests"}])
    found = seen.windows["900"]["inflight_requests"]
    assert found.state is S.FRESH
    assert found.value == pytest.approx((500 * 8 + 400 * 2) / 900)


def test_topics_of_one_name_are_not_needed() -> None:
    """A line with nothing but samples has no offsets of other topics."""
    assert last_signal(busy(range(1000, 1010))).offsets == {REQUESTS: 20}
