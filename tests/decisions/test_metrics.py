"""Every metric name of the contract has a kind, a key and a target, or says that it has none."""

import pytest

from decisions.metrics import METRICS, MetricKind, metric_key, percentile_of, target_of
from records.enums import MetricName
from tests.decisions.ticks import policy_of

KINDS = {
    MetricKind.TOTAL: {"inflight_requests", "throughput_per_replica", "queue_depth", "active_sessions"},
    MetricKind.UTILISATION: {
        "gpu_utilization",
        "token_utilization",
        "model_unit_utilization",
        "cpu_utilization",
        "gpu_memory",
        "cache_hit_rate",
    },
    MetricKind.VALUE: {"ttft", "decoding_speed", "e2e_latency"},
}


def test_each_name_has_the_kind_of_the_contract() -> None:
    assert set(METRICS) == set(MetricName)
    for kind, names in KINDS.items():
        assert {name.value for name, spec in METRICS.items() if spec.kind is kind} == names
    assert [name for name, spec in METRICS.items() if not spec.scales] == [MetricName.CACHE_HIT_RATE]


@pytest.mark.parametrize(
    ("metric", "key", "percentile"),
    [
        ({"name": "ttft"}, "ttft", "p95"),
        ({"name": "ttft", "percentile": "p95"}, "ttft", "p95"),
        ({"name": "ttft", "percentile": "p50"}, "ttft:p50", "p50"),
        ({"name": "e2e_latency", "percentile": "p99"}, "e2e_latency:p99", "p99"),
        ({"name": "inflight_requests", "percentile": "p50"}, "inflight_requests", None),
        ({"name": "gpu_utilization"}, "gpu_utilization", None),
    ],
)
def test_a_key_names_the_percentile_where_it_is_not_p95(
    metric: dict[str, str], key: str, percentile: str | None
) -> None:
    configured = policy_of(metrics=[metric]).metrics[0]
    assert metric_key(configured) == key
    assert percentile_of(configured) == percentile


@pytest.mark.parametrize(
    ("metric", "keys", "target"),
    [
        ({"name": "inflight_requests"}, {}, 8.0),
        ({"name": "inflight_requests"}, {"concurrency": {"target": 3}}, 3.0),
        ({"name": "inflight_requests", "target": 5}, {"concurrency": {"target": 3}}, 5.0),
        ({"name": "model_unit_utilization"}, {}, 0.75),
        ({"name": "ttft"}, {}, 500.0),
        ({"name": "ttft"}, {"slo": {"ttftP95Ms": 300}}, 300.0),
        ({"name": "ttft", "percentile": "p50"}, {"slo": {"ttftP95Ms": 300}}, 500.0),
        ({"name": "ttft", "target": 200}, {"slo": {"ttftP95Ms": 300}}, 200.0),
        ({"name": "decoding_speed"}, {"slo": {"tpotP95Ms": 40}}, 40.0),
        ({"name": "throughput_per_replica"}, {}, None),
    ],
)
def test_a_target_comes_from_the_policy_before_the_default(
    metric: dict[str, object], keys: dict[str, object], target: float | None
) -> None:
    policy = policy_of(metrics=[metric], **keys)
    assert target_of(policy, policy.metrics[0]) == target
