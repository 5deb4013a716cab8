"""Bodies of /metrics for the tests, written as engines write them, and answers around them."""

from collections.abc import Mapping, Sequence

from collectors.answers import Answer, Path

START_S = 1_700_000_000
BOUNDS = ("0.1", "0.5", "+Inf")


def vllm_body(
    counters: Mapping[str, float] | None = None,
    gauges: Mapping[str, float] | None = None,
    ttft: Sequence[int] | None = None,
    ttft_sum: float = 0.0,
    process_start: float | None = 1_699_999_000.25,
    engine: str = "0",
) -> str:
    """A small vLLM: `counters` by the name inside `request_success_total` (length, abort...) or of the series.

    `ttft` are counts per bucket of BOUNDS, not cumulative.
    """
    lines = []
    if process_start is not None:
        lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {process_start!r}"]
    labels = f'engine="{engine}",model_name="tiny"'
    for name, value in (gauges or {}).items():
        lines += [f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{labels}}} {float(value)!r}"]
    reasons = ("stop", "length", "abort", "error", "repetition")
    for name, value in (counters or {}).items():
        if name in reasons:
            lines.append(f'vllm:request_success_total{{{labels},finished_reason="{name}"}} {float(value)!r}')
        else:
            lines += [f"# TYPE vllm:{name} counter", f"vllm:{name}{{{labels}}} {float(value)!r}"]
    if ttft is not None:
        total = 0
        for le, count in zip(BOUNDS, ttft, strict=True):
            total += count
            lines.append(f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{le}"}} {float(total)!r}')
        lines.append(f"vllm:time_to_first_token_seconds_count{{{labels}}} {float(total)!r}")
        lines.append(f"vllm:time_to_first_token_seconds_sum{{{labels}}} {ttft_sum!r}")
    return "\n".join(lines) + "\n"


def scrape(t: float, body: str, mark: str | None = None) -> Answer:
    return Answer(at_s=START_S + t, path=Path.METRICS, code=200, body=body, process_mark=mark)


def failed_scrape(t: float) -> Answer:
    return Answer(at_s=START_S + t, path=Path.METRICS, failure="TimeoutError")


def health(t: float, code: int | None = 200) -> Answer:
    return Answer(
        at_s=START_S + t, path=Path.HEALTH, code=code, failure=None if code is not None else "ClientConnectorError"
    )
