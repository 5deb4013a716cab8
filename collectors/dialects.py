"""Which series of which engine hold what: names, old names, labels. Bucket bounds are never here: they are read.

vLLM's names are those of 0.32 with the older ones behind them; where an engine exposes both, the first counts alone.
`vllm:time_per_output_token_seconds` is missing on purpose: it was the inter-token latency, and
`vllm:request_time_per_output_token_seconds` is a request's own mean, which `tpot_ms` wants.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

FINISHED_AS_COMPLETION = frozenset({"stop", "length", "repetition"})
FINISHED_AS_ABORTED = frozenset({"abort"})
FINISHED_AS_ERROR = frozenset({"error"})


@dataclass(frozen=True)
class Term:
    """All series of `name`; with `label`, those whose label has one of `values`."""

    name: str
    label: str | None = None
    values: frozenset[str] = frozenset()


Alternatives = tuple[tuple[Term, ...], ...]
"""The first alternative whose terms are all exposed gives the value: their sum over all their series."""


def _named(*names: str) -> Alternatives:
    """One term an alternative."""
    return tuple((Term(name),) for name in names)


def _finished(reasons: frozenset[str]) -> Alternatives:
    return ((Term("vllm:request_success_total", "finished_reason", reasons),),)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One engine's series, by the field of RequestSample that they fill.

    Series of several data-parallel ranks (label `engine`) are added; the fields of `means` are averaged.
    `histograms` are in seconds, by base name. `known_labels` has, for series whose label has a closed set of values,
    that label and the set: another value is a new version's, and belongs to no field.
    """

    name: str
    prefix: str
    counters: Mapping[str, Alternatives]
    gauges: Mapping[str, Alternatives]
    means: frozenset[str] = frozenset({"kv_cache_usage"})
    histograms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known_labels: Mapping[str, tuple[str, frozenset[str]]] = field(default_factory=dict)


VLLM = Dialect(
    name="vllm",
    prefix="vllm:",
    counters={
        "completions": _finished(FINISHED_AS_COMPLETION),
        "aborted": _finished(FINISHED_AS_ABORTED),
        "errors": _finished(FINISHED_AS_ERROR),
        "rejections": _named("vllm:admission_rejections_total"),
        "input_tokens": _named("vllm:prompt_tokens_total"),
        "cached_tokens": _named(
            "vllm:prompt_tokens_cached_total", "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"
        ),
        "output_tokens": _named("vllm:generation_tokens_total"),
        "preemptions": _named("vllm:num_preemptions_total"),
        "steps": _named("vllm:iteration_tokens_total_count"),
    },
    gauges={
        "running": _named("vllm:num_requests_running"),
        "waiting": _named("vllm:num_requests_waiting"),
        "deferred": ((Term("vllm:num_requests_waiting_by_reason", "reason", frozenset({"deferred"})),),),
        "kv_cache_usage": _named("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    },
    histograms={
        "ttft_ms": ("vllm:time_to_first_token_seconds",),
        "tpot_ms": ("vllm:request_time_per_output_token_seconds",),
        "e2e_ms": ("vllm:e2e_request_latency_seconds",),
        "queue_ms": ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests"),
    },
    known_labels={
        "vllm:request_success_total": (
            "finished_reason",
            FINISHED_AS_COMPLETION | FINISHED_AS_ABORTED | FINISHED_AS_ERROR,
        ),
    },
)

LLAMA_CPP = Dialect(
    name="llama.cpp",
    prefix="llamacpp:",
    counters={
        # its prompt tokens leave out what the cache served
        "input_tokens": ((Term("llamacpp:prompt_tokens_total"), Term("llamacpp:prompt_tokens_cached_total")),),
        "cached_tokens": _named("llamacpp:prompt_tokens_cached_total"),
        "output_tokens": _named("llamacpp:tokens_predicted_total"),
        "steps": _named("llamacpp:n_decode_total"),
    },
    gauges={
        "running": _named("llamacpp:requests_processing"),
        "waiting": _named("llamacpp:requests_deferred"),
        "kv_cache_usage": _named("llamacpp:kv_cache_usage_ratio"),
    },
)

DIALECTS: tuple[Dialect, ...] = (VLLM, LLAMA_CPP)

PROCESS_START = "process_start_time_seconds"
