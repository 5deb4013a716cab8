"""What each metric of decisions.md is over one window, and what state its value has."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model.book import View
from tests.oracle.model.histograms import mean, quantile
from tests.oracle.model.log import Histogram, Metric

FRESH = Fraction(9, 10)
RECENT_S = 300
LASTING_S = Fraction(5)
"""How long a request lasts where no end-to-end time is known."""
ENDED = ("gone", "failed")
ACTIVITY = ("arrivals", "completions", "running", "waiting")
NOTHING = Fraction(0)

Read = Callable[[str, int], Fraction | None]


@dataclass(frozen=True)
class Member:
    """A replica at a tick: its state's name and since when; `counts` if it is ready and heard within the patience."""

    state: str
    since_s: int
    counts: bool


@dataclass(frozen=True)
class Scene:
    """What a tick sees: the seconds before it, the replicas, and since when the endpoint has been read."""

    view: View
    tick: int
    members: dict[str, Member]
    observed_from_s: int


class Value(NamedTuple):
    value: Fraction | None
    state: str
    coverage: Fraction
    check: str | None = None


class Measured(NamedTuple):
    """`is_undefined`: there was known to be nothing to measure."""

    value: Fraction | None
    coverage: Fraction
    is_undefined: bool = False


class Window:
    """The seconds `[tick - length_s, tick)` of a scene."""

    def __init__(self, scene: Scene, length_s: int) -> None:
        self.scene, self.view, self.length_s = scene, scene.view, length_s
        self.first_s = scene.tick - length_s
        self.observed_s = min(length_s, max(1, scene.tick - scene.observed_from_s))
        self.counted = {name: member.since_s for name, member in scene.members.items() if member.counts}
        self.expected = {
            name: max(0, scene.tick - max(since_s, self.first_s)) for name, since_s in self.counted.items()
        }
        self.ready_seconds = sum(self.expected.values())

    @property
    def recent(self) -> "Window":
        return Window(self.scene, RECENT_S)

    def known(self, read: Read, replica: str) -> dict[int, Fraction]:
        """A replica's known seconds, of those in which it had not ended."""
        found = {}
        member = self.scene.members.get(replica)
        ended_s = member.since_s if member is not None and member.state in ENDED else self.scene.tick
        for at_s in self.view.heard(replica, self.first_s):
            value = read(replica, at_s) if at_s < ended_s else None
            if value is not None:
                found[at_s] = value
        return found

    def ready(self, known: dict[int, Fraction], replica: str) -> list[Fraction]:
        """Of a replica's known seconds those in which it was ready; none, unless it counts."""
        since_s = self.counted.get(replica)
        return [] if since_s is None else [value for at_s, value in known.items() if at_s >= since_s]

    def all_known(self, read: Read) -> dict[str, dict[int, Fraction]]:
        return {replica: self.known(read, replica) for replica in self.view.replicas}

    def coverage(self, found: dict[str, dict[int, Fraction]]) -> Fraction:
        """The known share of the ready replicas' seconds."""
        if not self.ready_seconds:
            return NOTHING
        return Fraction(sum(len(self.ready(known, name)) for name, known in found.items()), self.ready_seconds)

    def field(self, name: str) -> Read:
        return lambda replica, at_s: self.view.value(replica, name, at_s)

    def gateway(self, name: str) -> dict[int, Fraction]:
        """The known seconds of a field of the requests that no replica has. None of them runs: what waits is all that
        is in flight where `running` is not told."""
        found = {}
        for at_s in self.view.heard("", self.first_s):
            value = self.view.value("", "waiting" if name == "inflight" else name, at_s)
            if value is not None:
                running = self.view.value("", "running", at_s) if name == "inflight" else None
                found[at_s] = value + (running or 0)
        return found

    def histograms(self, name: str) -> list[Histogram]:
        """All of them, those of requests that no replica has too."""
        return [
            histogram
            for replica in ("", *self.view.replicas)
            for at_s in self.view.heard(replica, self.first_s)
            for histogram in self.view.histograms(replica, name, at_s)
        ]

    def read_metric(self, metric: Metric, check: str | None) -> Value:
        measured = _measure(self, metric)
        coverage = min(Fraction(1), measured.coverage) * self.observed_s / self.length_s
        if check is not None:
            return Value(None, "suspect", coverage, check)
        if measured.is_undefined:
            return Value(None, "undefined", coverage)
        if measured.value is None:
            was_known = self.length_s < RECENT_S and _measure(self.recent, metric).value is not None
            return Value(None, "stale" if was_known else "unknown", coverage)
        return Value(measured.value, "fresh" if coverage >= FRESH else "partial", coverage)


def _measure(window: Window, metric: Metric) -> Measured:
    view, name = window.view, metric.name
    match name:
        case "inflight_requests":
            return _inflight(window)
        case "queue_depth" | "active_sessions":
            field = {"queue_depth": "waiting"}.get(name, name)
            return _total(window, window.all_known(window.field(field)), field)
        case "throughput_per_replica":
            return _total(window, window.all_known(_streamed_tokens(view)), None)
        case "token_utilization" | "cpu_utilization":
            field = {"token_utilization": "kv_cache_usage"}.get(name, "cpu")
            return _mean(window, window.all_known(window.field(field)))
        case "cache_hit_rate":
            return _cache_hit_rate(window)
        case "ttft" | "e2e_latency":
            assert metric.fraction is not None
            return _latency(window, "ttft_ms" if name == "ttft" else "e2e_ms", metric.fraction)
    raise ValueError(name)


def _streamed_tokens(view: View) -> Read:
    """Output tokens of the seconds of which it is not known that nothing was streamed."""
    return lambda replica, at_s: (
        None if view.value(replica, "streamed_fraction", at_s) == 0 else view.value(replica, "output_tokens", at_s)
    )


def _total(window: Window, found: dict[str, dict[int, Fraction]], gateway: str | None) -> Measured:
    """The mean over the window of the sum over all replicas; a ready replica's unknown seconds count with the mean of
    its known ones."""
    value, coverage = NOTHING, window.coverage(found)
    for replica, known in found.items():
        if known:
            seconds = max(len(known), min(window.expected.get(replica, 0), window.observed_s))
            value += sum(known.values(), NOTHING) / len(known) * seconds / window.observed_s
    nothing_known = not any(found.values())
    if gateway is None:
        return Measured(None if nothing_known else value, coverage)
    held = _gateway_share(window, gateway)
    if held is not None:
        value += held[0]
        coverage = min(coverage, held[1]) if window.ready_seconds else held[1]
    if nothing_known and not window.gateway(gateway):
        return Measured(None, coverage)
    return Measured(value, coverage)


def _gateway_share(window: Window, field: str) -> tuple[Fraction, Fraction] | None:
    """What waits at a gateway, and its coverage, from its first word in the last 300 s on; one whose last word was that
    it holds nothing may be silent."""
    recent = window.recent.gateway(field)
    if not recent:
        return None
    held = window.gateway(field)
    expected = max(1, min(window.length_s, window.scene.tick - min(recent)))
    value, count = sum(held.values(), NOTHING), len(held)
    if recent[max(recent)] == 0:
        return value / window.observed_s, Fraction(1) if window.ready_seconds else Fraction(count, expected)
    if not count:
        return NOTHING, NOTHING
    seconds = min(expected, window.observed_s)
    return value / count * seconds / window.observed_s, min(Fraction(1), Fraction(count, expected))


def _inflight(window: Window) -> Measured:
    """What runs and waits; and what was turned away would be in flight as long as a request lasts."""
    inside = _total(window, window.all_known(window.view.inflight), "inflight")
    if inside.value is None:
        return inside
    rejections = window.all_known(window.field("rejections"))
    turned_away = sum((sum(known.values(), NOTHING) for known in rejections.values()), NOTHING)
    turned_away += sum(window.gateway("rejections").values(), NOTHING)
    if not turned_away:
        return inside
    mean_ms = mean(window.recent.histograms("e2e_ms"))
    lasting_s = LASTING_S if mean_ms is None else mean_ms / 1000
    return Measured(inside.value + turned_away / window.observed_s * lasting_s, inside.coverage)


def _mean(window: Window, found: dict[str, dict[int, Fraction]]) -> Measured:
    """The mean over the ready replicas of each one's mean."""
    ready = [values for name, known in found.items() if (values := window.ready(known, name))]
    means = [sum(values, NOTHING) / len(values) for values in ready]
    return Measured(sum(means, NOTHING) / len(means) if means else None, window.coverage(found))


def _cache_hit_rate(window: Window) -> Measured:
    """The mean over the ready replicas of cached over all input tokens, of seconds in which both are known."""
    hits = window.all_known(_both(window.view, "cached_tokens"))
    reads = window.all_known(_both(window.view, "input_tokens"))
    rates = []
    for replica, known in reads.items():
        read = sum(window.ready(known, replica), NOTHING)
        if read > 0:
            rates.append(min(Fraction(1), sum(window.ready(hits[replica], replica), NOTHING) / read))
    coverage = window.coverage(reads)
    if not rates:
        return Measured(None, coverage, known_empty(window) is not None)
    return Measured(sum(rates, NOTHING) / len(rates), coverage)


def _both(view: View, name: str) -> Read:
    other = "input_tokens" if name == "cached_tokens" else "cached_tokens"
    return lambda replica, at_s: None if view.value(replica, other, at_s) is None else view.value(replica, name, at_s)


def _latency(window: Window, field: str, fraction: Fraction) -> Measured:
    """A percentile over all requests. A second without a histogram says that nothing finished, if the replica has
    histograms at all, or finished nothing."""
    view = window.view
    empty = known_empty(window)
    if empty is not None:
        return Measured(None, empty, True)
    heard = window.all_known(lambda replica, at_s: NOTHING if view.live(replica, at_s) else None)
    found = quantile(window.histograms(field), fraction)
    if found is None or found.value is None:
        return Measured(None, window.coverage(heard))
    fractions = window.all_known(window.field("streamed_fraction"))
    streams = field != "e2e_ms" and any(0 in known.values() for known in fractions.values())
    covering = {}
    for replica, known in heard.items():
        seconds = dict(known)
        if streams:
            unstreamed = [at_s for at_s in known if view.value(replica, "streamed_fraction", at_s) == 0]
            seconds = {at_s: zero for at_s, zero in known.items() if at_s not in unstreamed}
        own = [at_s for at_s in view.heard(replica, window.first_s) if view.histograms(replica, field, at_s)]
        completions = window.known(window.field("completions"), replica)
        covering[replica] = seconds if own or not sum(completions.values(), NOTHING) > 0 else {}
    if streams and not any(
        view.value(replica, "streamed_fraction", at_s) != 0
        for replica in view.replicas
        for at_s in view.heard(replica, window.first_s)
    ):
        return Measured(None, window.coverage(heard))
    return Measured(found.value, window.coverage(covering) if window.ready_seconds else Fraction(1))


def known_empty(window: Window) -> Fraction | None:
    """The coverage of seconds in which nothing came, left, ran or waited; null where anything did, or where too little
    is known."""
    view = window.view
    reads: dict[str, Read] = {name: window.field(name) for name in ACTIVITY} | {"arrivals": view.arrivals}
    for read in reads.values():
        if any(sum(known.values(), NOTHING) > 0 for known in window.all_known(read).values()):
            return None
    if any(sum(window.gateway(name).values(), NOTHING) > 0 for name in ACTIVITY):
        return None
    if window.ready_seconds:
        idle = window.all_known(
            lambda replica, at_s: NOTHING if all(read(replica, at_s) == 0 for read in reads.values()) else None
        )
        coverage = window.coverage(idle)
    else:
        coverage = Fraction(len(view.heard("", window.first_s)), window.length_s)
    return coverage if coverage >= FRESH else None
