"""Any valid record of any topic, drawn from its own types, so that a new field is tested without a word here."""

from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect
from msgspec.structs import replace

from decisions.metrics import metric_key
from records.histogram import Histogram
from records.policy import EndpointPolicy, Metric

Strategy = st.SearchStrategy[Any]

BOUNDS = ((10.0, 20.0, 50.0), (0.5,), (1.0, 2.0, 4.0, 8.0))


@cache
def records(kind: type[msgspec.Struct]) -> Strategy:
    """Records of one type."""
    if kind is Histogram:
        return histograms()
    fields = {field.name: _values(inspect.type_info(field.type)) for field in msgspec.structs.fields(kind)}
    built: Strategy = st.builds(kind, **fields)
    return built.map(_consistent) if kind is EndpointPolicy else built


def _consistent(policy: EndpointPolicy) -> EndpointPolicy:
    """The policy with what may not be together mended, everything else as drawn."""
    low, high = sorted((policy.min_replicas, policy.max_replicas))
    bounds = sorted((policy.concurrency.min, policy.concurrency.target, policy.concurrency.max))
    metrics = {metric_key(metric): _bounded(metric) for metric in policy.metrics}
    return replace(
        policy,
        min_replicas=low,
        max_replicas=high,
        concurrency=replace(policy.concurrency, min=bounds[0], target=bounds[1], max=bounds[2]),
        metrics=tuple(metrics.values()),
        scale_up=replace(policy.scale_up, every_seconds=5),
        scale_down=replace(policy.scale_down, every_seconds=5),
    )


def _bounded(metric: Metric) -> Metric:
    return metric if metric.target is None else replace(metric, target=min(metric.target, 1.0))


def histograms(bounds: tuple[tuple[float, ...], ...] = BOUNDS) -> Strategy:
    counts = st.integers(0, 2**32 - 2)

    def with_bounds(edges: tuple[float, ...]) -> Strategy:
        return st.builds(
            Histogram,
            explicit_bounds=st.just(edges),
            bucket_counts=st.lists(counts, min_size=len(edges) + 1, max_size=len(edges) + 1).map(tuple),
            sum=st.none() | st.floats(0, 1e15),
        )

    return st.sampled_from(bounds).flatmap(with_bounds)


def _values(kind: inspect.Type) -> Strategy:
    match kind:
        case inspect.UnionType(types=types):
            return st.one_of(*(_values(member) for member in types))
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=low, le=high):
            return st.integers(-(2**63) if low is None else low, 2**63 - 1 if high is None else high)
        case inspect.FloatType(ge=low, le=high, gt=above):
            lowest = above if low is None else low
            return st.floats(lowest, high, exclude_min=above is not None, allow_nan=False, allow_infinity=False)
        case inspect.StrType(pattern=pattern) if pattern is not None:
            return st.from_regex(pattern, fullmatch=True)
        case inspect.StrType(min_length=shortest, max_length=longest):
            return st.text(min_size=shortest or 0, max_size=min(longest or 30, 30))
        case inspect.EnumType(cls=members):
            return st.sampled_from(list(members))
        case inspect.LiteralType(values=values):
            return st.sampled_from(list(values))
        case inspect.VarTupleType(item_type=item, min_length=shortest):
            return st.lists(_values(item), min_size=shortest or 0, max_size=3).map(tuple)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=3)
        case inspect.StructType(cls=cls):
            return records(cls)
    raise TypeError(f"no strategy for {kind}")
