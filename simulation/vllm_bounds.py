"""Upper bounds of vLLM's latency histograms, as its /metrics has them (vllm/v1/metrics/loggers.py, 0.32), in ms."""

from itertools import chain

_FIRST_TOKEN = (1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000, 20_000, 40_000, 80_000)
_EACH_TOKEN = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2500, 5000, 7500, 10_000)
_REQUEST = (300, 500, 800, 1000, 1500, 2000, 2500, 5000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 60_000)


def _floats(*groups: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(map(float, chain(*groups)))


_REQUEST_MS = _floats(_REQUEST, (120_000, 240_000, 480_000, 960_000, 1_920_000, 7_680_000))

VLLM_BOUNDS_MS = {
    "ttft_ms": _floats(_FIRST_TOKEN, (160_000, 640_000, 2_560_000)),
    "tpot_ms": _floats(_EACH_TOKEN, (20_000, 40_000, 80_000)),
    "e2e_ms": _REQUEST_MS,
    "queue_ms": _REQUEST_MS,
}
"""By field of RequestSample: time_to_first_token, request_time_per_output_token, e2e_request_latency,
request_queue_time; 22, 19, 21 and 21 bounds."""
