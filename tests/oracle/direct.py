"""The windows alone under a case's samples, and the oracle's book beside them: what signals do not show."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isclose, isnan
from random import Random

import numpy as np

from streams.shell.sample_frames import SampleFrames
from streams.windows.columns import SampleColumns
from streams.windows.grid import Grid
from streams.windows.histograms import quantile
from streams.windows.windows import AddReport, Windows
from tests.oracle.engine import REQUESTS, deliveries
from tests.oracle.model.book import SPAN_S, Book, Verdict, View
from tests.oracle.model.histograms import mean
from tests.oracle.model.histograms import quantile as exact_quantile
from tests.oracle.model.log import HISTOGRAM_NAMES, SCALAR_NAMES, Histogram, Message, SourceName
from tests.oracle.plans import Case
from wire.batches import FrameRun, JsonRun, decode_messages

FRACTIONS = (Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
KINDS = (Verdict.ACCEPTED, Verdict.REPLACED, Verdict.DUPLICATE, Verdict.LATE, Verdict.UNATTRIBUTED)


def window_differences(case: Case) -> list[str]:
    """One line for each thing that the windows and the book do not say alike, of samples at their own seconds."""
    log = [entry for entry in case.entries if isinstance(entry, Message)]
    return list(_Pair(log, Random(case.cut_seed)).differences()) if log else []


class _Pair:
    """`floors`: from which second on the windows of the first endpoint are kept, before the message at each place."""

    def __init__(self, log: Sequence[Message], rng: Random) -> None:
        self._log, self._rng = log, rng
        seconds = [sample.at_s for message in log for sample in message.samples]
        self._first_s, self._end_s = max(min(seconds), max(seconds) - 90) - 1, max(seconds) + 2
        self._endpoint = log[0].samples[0].endpoint
        places = sorted(rng.sample(range(len(log)), min(len(log), rng.randrange(4))))
        begins = sorted(int(log[0].stamped_s) - rng.choice((305, 299, 60, 3)) for _ in places)
        self._floors = dict(zip(places, begins, strict=True))
        self._dies = rng.choice((None, rng.randrange(len(log))))

    def differences(self) -> Iterator[str]:
        books, expected = self._read()
        windows, counted = self._run()
        for kind in KINDS:
            if counted[kind] != expected[kind]:
                yield f"{kind.value}: {counted[kind]} samples, expected {expected[kind]}"
        for endpoint, book in books.items():
            names = sorted({sample.name for there in book.kept.values() for sample in there.values()})
            for quarantined in (frozenset[SourceName](), frozenset(self._rng.sample(names, min(len(names), 1)))):
                view = book.view(self._first_s, self._end_s, quarantined)
                grid = windows.grid(endpoint, self._first_s, self._end_s, quarantined)
                yield from (f"{endpoint} without {set(quarantined)}: {one}" for one in _grid_differences(view, grid))

    def _read(self) -> tuple[dict[str, Book], Counter[Verdict]]:
        books: dict[str, Book] = {}
        counts: Counter[Verdict] = Counter()
        for place, message in enumerate(self._log):
            if place in self._floors:
                books.setdefault(self._endpoint, Book(SPAN_S)).keep_from(self._floors[place])
            for sample in message.samples:
                counts[books.setdefault(sample.endpoint, Book(SPAN_S)).take(sample, sample.at_s)] += 1
        return books, counts

    def _run(self) -> tuple[Windows, Counter[Verdict]]:
        """Cut at random; after its death a worker has the epochs and the floor, and reads the log again."""
        counts: Counter[Verdict] = Counter()
        windows = Windows(SPAN_S)
        self._feed(windows, 0, len(self._log) if self._dies is None else self._dies, counts)
        if self._dies is not None:
            again = Windows(SPAN_S)
            for endpoint in windows.endpoints:
                again.restore_epochs(endpoint, windows.epochs(endpoint))
            self._feed(again, 0, self._dies, Counter())
            self._feed(again, self._dies, len(self._log), counts)
            windows = again
        return windows, counts

    def _feed(self, windows: Windows, start: int, end: int, counts: Counter[Verdict]) -> None:
        frames = SampleFrames()
        while start < end:
            if start in self._floors:
                windows.keep_from(self._endpoint, self._floors[start])
            cuts = [place for place in self._floors if start < place < end]
            stop = min(end, start + self._rng.choice((1, 3, 20)), *cuts)
            for columns in _columns(self._log[start:stop], frames):
                _count(windows.add(columns), counts)
            start = stop


def _columns(log: Sequence[Message], frames: SampleFrames) -> Iterator[SampleColumns]:
    messages = [one.message for one in deliveries(log) if one.message is not None]
    for run in decode_messages(REQUESTS, REQUESTS, 0, messages, frames.read).runs:
        if isinstance(run, JsonRun):
            yield SampleColumns.from_records(run.records, run.received_s)
        elif isinstance(run, FrameRun):
            yield frames.columns(run.frame, run.received_s)


def _count(report: AddReport, counts: Counter[Verdict]) -> None:
    for kind in KINDS:
        counts[kind] += getattr(report, kind.value)


def _grid_differences(view: View, grid: Grid) -> Iterator[str]:
    if list(grid.replicas) != view.replicas:
        yield f"replicas {grid.replicas}, expected {view.replicas}"
        return
    seconds = range(view.first_s, view.end_s)
    reads = {name: lambda replica, at_s, name=name: view.value(replica, name, at_s) for name in SCALAR_NAMES}
    found = {name: grid.field(name) for name in SCALAR_NAMES} | {"arrivals": grid.arrivals, "inflight": grid.inflight}
    for name, read in {**reads, "arrivals": view.arrivals, "inflight": view.inflight}.items():
        for row, replica in enumerate(view.replicas):
            expected = [read(replica, at_s) for at_s in seconds]
            yield from _row_differences(f"{name} of {replica}", found[name][row].tolist(), expected)
    for name in SCALAR_NAMES:
        expected = [view.value("", name, at_s) for at_s in seconds]
        yield from _row_differences(f"{name} of the gateway", grid.gateway(name).tolist(), expected)
    if set(grid.restarts) != view.restarts(view.first_s):
        yield f"restarts {grid.restarts}, expected {view.restarts(view.first_s)}"
    if set(grid.two_processes) != view.two_processes(view.first_s):
        yield f"two processes {grid.two_processes}, expected {view.two_processes(view.first_s)}"
    for name in HISTOGRAM_NAMES:
        histograms = [
            one
            for replica in ("", *view.replicas)
            for at_s in view.heard(replica, view.first_s)
            for one in view.histograms(replica, name, at_s)
        ]
        yield from (f"{name}: {one}" for one in _histogram_differences(grid, name, histograms))


def _row_differences(what: str, found: Sequence[float], expected: Sequence[Fraction | None]) -> Iterator[str]:
    """Each second's value, to the last bit; and the sum and the largest of all."""
    known = [value for value in expected if value is not None]
    for place, (value, wanted) in enumerate(zip(found, expected, strict=True)):
        if not (isnan(value) if wanted is None else value == float(wanted)):
            yield f"{what} in second {place}: {value}, expected {wanted}"
            return
    if not known:
        return
    # Eighths add up exactly; thirds, which three reporters' means are, do not.
    total, is_exact = float(sum(known)), all(8 % value.denominator == 0 for value in known)
    if not (np.nansum(found) == total if is_exact else isclose(np.nansum(found), total, rel_tol=1e-12)):
        yield f"{what}: sum {np.nansum(found)}, expected {total}"
    if np.nanmax(found) != float(max(known)):
        yield f"{what}: largest {np.nanmax(found)}, expected {max(known)}"


def _histogram_differences(grid: Grid, name: str, histograms: Sequence[Histogram]) -> Iterator[str]:
    """How many, their mean, and quantiles: as exact ones say, and no further from the true ones than they promise."""
    merged = grid.histogram(name)
    counted = sum(sum(one.counts) for one in histograms)
    if not isclose(merged.total, counted, rel_tol=1e-12):
        yield f"{merged.total} values, expected {counted}"
    expected_mean = mean(histograms)
    if not (merged.mean is None if expected_mean is None else merged.mean == float(expected_mean)):
        yield f"mean {merged.mean}, expected {expected_mean}"
    raw = sorted(value for one in histograms for value in one.raw)
    for fraction in FRACTIONS:
        found, exact = quantile(merged, float(fraction)), exact_quantile(histograms, fraction)
        if found is None or exact is None or exact.value is None:
            if found is not None or (exact is not None and exact.value is not None):
                yield f"quantile {fraction}: {found}, expected {exact}"
            continue
        width = float("inf") if exact.width is None else float(exact.width)
        if not (isclose(found.value, exact.value, rel_tol=1e-9) and isclose(found.width, width, rel_tol=1e-9)):
            yield f"quantile {fraction}: {found}, expected {float(exact.value)} within {width}"
        true = raw[max(0, -int(-fraction * len(raw) // 1) - 1)]
        if abs(found.value - float(true)) > found.width + 1e-6:
            yield f"quantile {fraction}: {found} of {float(true)}: further off than it says"
