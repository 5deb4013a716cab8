"""What each metric of a policy is over one window: a value with its state, or a state alone."""

from decisions.metrics import metric_key, percentile_of
from records.enums import MetricName, ValueState
from records.policy import Metric
from records.signals import SignalValue
from streams.endpoints.ready import is_covered
from streams.signals.measures import Measured, cache_hit_rate, gpu_mean, inflight, latency, mean, throughput, total
from streams.signals.model_unit_values import model_unit_utilization
from streams.signals.readings import WindowReading

_HISTOGRAMS = {
    MetricName.TTFT: "ttft_ms",
    MetricName.DECODING_SPEED: "tpot_ms",
    MetricName.E2E_LATENCY: "e2e_ms",
}
MEANS = {MetricName.TOKEN_UTILIZATION: "kv_cache_usage", MetricName.CPU_UTILIZATION: "cpu"}
TOTALS = {MetricName.QUEUE_DEPTH: "waiting", MetricName.ACTIVE_SESSIONS: "active_sessions"}
_GPU_MEANS = {MetricName.GPU_UTILIZATION: 0, MetricName.GPU_MEMORY: 1}


def read_values(reading: WindowReading) -> dict[str, SignalValue]:
    """All metrics of the policy over one window, by metric_key."""
    return {metric_key(metric): _judged(reading, metric) for metric in reading.tick.policy.metrics}


def _judged(reading: WindowReading, metric: Metric) -> SignalValue:
    """Nothing is computed with what a cross-check doubts; what is unknown now may have been known a moment ago."""
    measured = measure(reading, metric)
    coverage = min(1.0, measured.coverage) * reading.observed_share
    check = reading.failed_check
    value: float | None = None
    if check is not None:
        state = ValueState.SUSPECT
    elif measured.is_undefined:
        state = ValueState.UNDEFINED
    elif measured.value is None:
        recent = reading.tick.recent
        was_known = reading.length_s < recent.length_s and measure(recent, metric).value is not None
        state = ValueState.STALE if was_known else ValueState.UNKNOWN
    else:
        state = ValueState.FRESH if is_covered(coverage) else ValueState.PARTIAL
        value = measured.value
    return SignalValue(
        value=value,
        state=state,
        coverage=coverage,
        measured=measured.replicas,
        check=None if check is None else check.value,
    )


def measure(reading: WindowReading, metric: Metric) -> Measured:
    """One metric over one window, its state not yet judged."""
    name = metric.name
    if name is MetricName.INFLIGHT_REQUESTS:
        return inflight(reading)
    if name in TOTALS:
        return total(reading, reading.tally(TOTALS[name]), TOTALS[name])
    if name in MEANS:
        return mean(reading, reading.tally(MEANS[name]))
    if name in _GPU_MEANS:
        return gpu_mean(reading, _GPU_MEANS[name])
    if name is MetricName.THROUGHPUT_PER_REPLICA:
        return throughput(reading)
    if name is MetricName.CACHE_HIT_RATE:
        return cache_hit_rate(reading)
    if name is MetricName.MODEL_UNIT_UTILIZATION:
        return model_unit_utilization(reading)
    percentile = percentile_of(metric)
    if percentile is None:
        raise ValueError(f"no such metric: {name}")
    return latency(reading, _HISTOGRAMS[name], percentile)
