"""The windows of a partition's endpoints, long enough for each policy, and its GPUs' where a policy asks for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from records.enums import MetricName
from records.epoch_memory import EpochSeen
from records.policy import EndpointPolicy
from records.telemetry import GpuSample
from streams.endpoints.block_store import BlockStore
from streams.endpoints.blocks import BlockBook
from streams.endpoints.effects import Count, Counts
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.gpus import GpuWindows
from streams.endpoints.intake import OFF_SOURCES_MAX
from streams.endpoints.skew import SourceState, source_key
from streams.endpoints.ticks import LATENESS_S, TICK_S
from streams.windows.columns import SampleColumns
from streams.windows.identities import Identities
from streams.windows.windows import AddReport, Windows

SPANS_S = (302, 902, 1802, 3602)
"""The kinds of windows there are: an endpoint's is the shortest that holds its longest window and the lateness."""

_GPU_METRICS = frozenset({MetricName.GPU_UTILIZATION, MetricName.GPU_MEMORY})


def span_for(longest_s: int) -> int:
    """The shortest of SPANS_S that holds a window of `longest_s`, at most 3,600 s."""
    return next(span for span in SPANS_S if span >= longest_s + LATENESS_S)


def reads_gpus(policy: EndpointPolicy) -> bool:
    """Whether any of its metrics is measured on GPUs."""
    return any(metric.name in _GPU_METRICS for metric in policy.metrics)


@dataclass(frozen=True, slots=True)
class EndpointWindow:
    """Where one endpoint's samples are; `gpus` is null where the policy reads none."""

    requests: Windows
    gpus: GpuWindows | None


@dataclass(frozen=True, slots=True, eq=False)
class _SpanPart:
    """The samples of a batch that go into the windows of one span."""

    span_s: int
    rows: NDArray[np.int64]
    identities: Identities


class EndpointWindows:
    """See the module's text."""

    def __init__(self) -> None:
        self._split: WeakKeyDictionary[Identities, tuple[tuple[int, ...], list[_SpanPart]]] = WeakKeyDictionary()
        self._by_span: dict[int, Windows] = {}
        self._blocks: dict[int, BlockStore] = {}
        self._of: dict[str, EndpointWindow] = {}

    @property
    def series(self) -> int:
        return sum(windows.series for windows in list(self._by_span.values()))

    @property
    def nbytes(self) -> int:
        gpus = sum(window.gpus.nbytes for window in list(self._of.values()) if window.gpus is not None)
        blocks = sum(store.nbytes for store in list(self._blocks.values()))
        return gpus + blocks + sum(windows.nbytes for windows in list(self._by_span.values()))

    def of(self, endpoint: str) -> EndpointWindow:
        return self._of[endpoint]

    def gpus_of(self, endpoint: str) -> GpuWindows | None:
        """Null where nothing is kept of an endpoint, or no GPUs."""
        known = self._of.get(endpoint)
        return None if known is None else known.gpus

    def open(self, state: EndpointState, epochs: Sequence[EpochSeen] = ()) -> bool:
        """Keep an endpoint's windows from now on, as its policy needs them; True if it starts with empty ones.

        A policy that asks for longer windows than the one before starts anew.
        """
        span_s = span_for(state.span_s)
        known = self._of.get(state.endpoint)
        requests = self._by_span.setdefault(span_s, Windows(span_s))
        is_new = known is None or known.requests is not requests
        if known is not None and is_new:
            epochs = known.requests.epochs(state.endpoint)
            known.requests.forget(state.endpoint)
            self._release_unused(known.requests, state.endpoint)
        if is_new:
            state.blocks.release()
            state.blocks = BlockBook(self._blocks.setdefault(span_s, BlockStore(span_s // TICK_S)))
        gpus = known.gpus if known is not None else None
        if not reads_gpus(state.policy):
            gpus = None
        elif gpus is None or gpus.span_s < span_s:
            gpus = GpuWindows(span_s)
        self._of[state.endpoint] = EndpointWindow(requests, gpus)
        if is_new and epochs:
            requests.restore_epochs(state.endpoint, epochs)
        self.keep(state)
        return is_new

    def keep(self, state: EndpointState) -> None:
        """Give up what no tick from the next one on reads, and what is from before the windows began anew: a mean is
        taken over the observed seconds alone, so seconds before them may not add to it.

        Where samples from the future moved the floor beyond that before the first tick, it is remembered: what was left
        out then is left out by the next owner too.
        """
        if state.needed_from_s is not None:
            first_s = max(state.needed_from_s, state.kept_from_s)
            floor_s = self._of[state.endpoint].requests.keep_from(state.endpoint, first_s)
            state.kept_from_s = floor_s if floor_s > first_s else state.kept_from_s

    def keep_standing(self, states: Sequence[EndpointState]) -> None:
        """As `keep`, of endpoints that stand and were heard in their last second."""
        by_windows: dict[Windows, list[EndpointState]] = {}
        for state in states:
            by_windows.setdefault(self._of[state.endpoint].requests, []).append(state)
        for windows, found in by_windows.items():
            needed = [max(state.needed_from_s or 0, state.kept_from_s) for state in found]
            series = [state.standing.series for state in found if state.standing is not None]
            if not windows.plain_reader.keep_from(series, np.array(needed, np.int64)):
                for state in found:
                    self.keep(state)

    def close(self, state: EndpointState) -> None:
        """Free what is kept of an endpoint."""
        known = self._of.pop(state.endpoint, None)
        if known is not None:
            known.requests.forget(state.endpoint)
            self._release_unused(known.requests, state.endpoint)
        state.blocks.release()

    def _release_unused(self, windows: Windows, endpoint: str) -> None:
        """Let go of windows that no other endpoint has: samples are not asked any more whether they belong there."""
        if not any(other.requests is windows for name, other in self._of.items() if name != endpoint):
            del self._by_span[windows.span_s]
            self._blocks.pop(windows.span_s, None)

    def add(
        self,
        columns: SampleColumns,
        rows: NDArray[np.int64],
        code: NDArray[np.int64],
        states: Sequence[EndpointState | None],
    ) -> list[AddReport]:
        """Add samples, `code` (m,) being the place of each row's endpoint in `states`."""
        if len(self._by_span) == 1:
            (windows,) = self._by_span.values()
            return [windows.add(columns, rows)]
        spans = [0 if state is None else self._of[state.endpoint].requests.span_s for state in states]
        if len({*spans}) == 1 and spans[0]:
            return [self._by_span[spans[0]].add(columns, rows)]
        if rows is columns.identities.all_rows:
            return [
                self._by_span[part.span_s].add(columns.take(part.rows, part.identities)).at(part.rows)
                for part in self._parts(columns.identities, tuple(spans))
            ]
        span_of = np.array(spans)[code]
        return [self._by_span[span].add(columns, rows[span_of == span]) for span in np.unique(span_of).tolist() if span]

    def add_again(
        self,
        columns: SampleColumns,
        rows: NDArray[np.int64],
        code: NDArray[np.int64],
        states: Sequence[EndpointState | None],
    ) -> None:
        """As `add`, of samples read before; many are from before all windows, and are not looked for there."""
        kept = [
            max(state.needed_from_s, state.kept_from_s)
            for state in states
            if state is not None and state.needed_from_s is not None
        ]
        if len(columns) and int(columns.at_s.max()) >= min(kept, default=0):
            self.add(columns, rows, code, states)

    def _parts(self, identities: Identities, spans: tuple[int, ...]) -> list[_SpanPart]:
        """The samples of each span, found once for batches of the same series and policies."""
        known = self._split.get(identities)
        if known is None or known[0] != spans:
            span_of = np.array(spans)[identities.endpoint_code]
            parts = [
                _SpanPart(span, rows, identities.take(rows))
                for span in sorted({*spans} - {0})
                if len(rows := np.flatnonzero(span_of == span))
            ]
            known = self._split[identities] = spans, parts
        return known[1]

    def add_gpu(self, sample: GpuSample) -> bool:
        """False where the endpoint has too many GPUs."""
        gpus = self._of[sample.endpoint].gpus
        return gpus is None or gpus.add(sample)


def count_report(
    report: AddReport, columns: SampleColumns, states: Sequence[EndpointState | None], counts: Counts
) -> None:
    """Count what became of samples; late ones also with their source, which the signal names."""
    counts.add(Count.DUPLICATE, report.duplicate)
    counts.add(Count.REPLACED, report.replaced)
    counts.add(Count.LATE, report.late)
    counts.add(Count.UNATTRIBUTED, report.unattributed)
    for row in report.late_rows.tolist():
        state = states[int(columns.endpoint_code[row])]
        if state is None:
            continue
        key = source_key(columns.series[int(columns.series_code[row])])
        if key not in state.sources.states and len(state.sources.states) >= OFF_SOURCES_MAX:
            continue
        source = state.sources.states.setdefault(key, SourceState())
        source.late += 1
        source.late_s = int(columns.received_s[row])
