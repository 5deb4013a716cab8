"""One endpoint of the oracle: clocks, supply, ticks."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.model.book import Book, Verdict, View
from tests.oracle.model.clocks import SourceClock
from tests.oracle.model.clocks import Verdict as ClockVerdict
from tests.oracle.model.histograms import quantile
from tests.oracle.model.log import ENGINE, ROUTER, Change, Policy, Sample, SourceName
from tests.oracle.model.measures import FRESH, RECENT_S, Member, Scene, Value, Window

TICK_S = 5
LATENESS_S = 2
PATIENCE_S = 5
AHEAD_S = 60
LONG_AGO_S = 300
NEAR_S = 20
"""Windows up to this long are looked at together with all of these seconds."""
INFERRED_S = 20
"""A replica known from samples alone leaves when it is silent for longer than that, while others speak."""
SILENT_S = 20
NO_SERVER = ("requested", "unschedulable", "starting", "gone", "failed")


class Source(NamedTuple):
    """A source that is not plainly well, as a signal names it; `offset_s` has three decimals."""

    offset_s: Fraction | None
    state: str
    late: int


class Drain(NamedTuple):
    inflight: Fraction | None
    cache_hit_rate: Fraction | None


@dataclass(frozen=True)
class Tick:
    """What the oracle says of a tick; `offset` is that of the next record of telemetry.requests."""

    endpoint: str
    at_s: int
    processed_s: Fraction
    offset: int
    windows: dict[int, dict[str, Value]]
    ready: tuple[str, ...]
    unheard: tuple[str, ...]
    sources: dict[SourceName, Source]
    blockers: set[tuple[str, str | None, int | None]]
    drains: dict[str, Drain]
    drain_p99_ms: Fraction | None


@dataclass
class Replica:
    state: str
    since_s: int
    at_s: int
    inferred: bool


@dataclass
class Endpoint:
    policy: Policy
    next_tick: int | None = None
    has_ticked: bool = False
    observed_from_s: int = 0
    book: Book = field(default_factory=Book)
    clocks: dict[SourceName, SourceClock] = field(default_factory=dict)
    late: dict[SourceName, int] = field(default_factory=dict)
    newest_end_s: int | None = None
    newest_received_s: Fraction | None = None
    replicas: dict[str, Replica] = field(default_factory=dict)
    last_heard: dict[str, int] = field(default_factory=dict)
    corrected: int = 0
    """Samples that came after a tick that would have read them."""

    @property
    def span_s(self) -> int:
        return max(RECENT_S, self.policy.up_s, self.policy.down_s)

    def is_due(self, processed_s: Fraction) -> bool:
        if self.next_tick is None:
            return False
        if self.next_tick + PATIENCE_S <= processed_s:
            return True
        if self.newest_end_s is None or self.newest_received_s is None:
            return False
        watermark_s = min(Fraction(self.newest_end_s), self.newest_received_s + PATIENCE_S) - LATENESS_S
        return self.next_tick <= watermark_s

    def take(self, sample: Sample, received_s: Fraction) -> Verdict:
        if sample.at_s + 1 - received_s > AHEAD_S:
            return Verdict.TOO_FAR_AHEAD
        held = self.clocks.setdefault(sample.name, SourceClock()).take(sample.at_s, received_s)
        at_s = sample.at_s - (0 if held is None else held.shift_s)
        if held is None or not held.quarantined:
            self.newest_end_s = at_s + 1 if self.newest_end_s is None else max(self.newest_end_s, at_s + 1)
        newest = self.newest_received_s
        self.newest_received_s = received_s if newest is None else max(newest, received_s)
        self._begin(sample.at_s, received_s)
        verdict = self.book.take(sample, at_s)
        if self.has_ticked and self.next_tick is not None and at_s < self.next_tick - TICK_S:
            self.corrected += verdict in (Verdict.ACCEPTED, Verdict.REPLACED)
        if verdict is Verdict.LATE:
            self.late[sample.name] = self.late.get(sample.name, 0) + 1
        return verdict

    def change(self, change: Change) -> None:
        known = self.replicas.get(change.replica)
        self._begin(change.at_s, change.received_s)
        if known is None or known.inferred:
            is_kept = known is not None and change.state == "ready"
            since_s = min(known.since_s, change.at_s) if known is not None and is_kept else change.at_s
            self.replicas[change.replica] = Replica(change.state, since_s, change.at_s, False)
        elif change.at_s >= known.at_s:
            since_s = known.since_s if change.state == known.state else change.at_s
            self.replicas[change.replica] = Replica(change.state, since_s, change.at_s, False)

    def _begin(self, at_s: int, received_s: Fraction) -> None:
        """The first tick is the first one after a record's second that its receipt has not made due yet; at most a
        minute later, should the record come from the future. One from so long ago that no window reads it begins no
        observation."""
        if self.has_ticked:
            return
        undue = int((received_s - PATIENCE_S) // TICK_S + 1) * TICK_S
        first = undue
        while first < min(at_s + 1, undue + AHEAD_S):
            first += TICK_S
        if first - at_s > LONG_AGO_S:
            at_s = first
        if self.next_tick is None:
            self.next_tick, self.observed_from_s = first, min(at_s, first)
        else:
            self.next_tick = min(self.next_tick, first)
            self.observed_from_s = min(self.observed_from_s, at_s, first)

    def tick(self, processed_s: Fraction, offset: int) -> Tick:
        assert self.next_tick is not None
        tick = self.next_tick
        held = {name: clock.held for name, clock in self.clocks.items() if clock.held is not None}
        quarantined = frozenset(name for name, verdict in held.items() if verdict.quarantined)
        view = View(self.book, tick - self.span_s, tick, quarantined)
        self._learn(view, View(self.book, view.first_s, tick, frozenset()) if quarantined else view, tick)
        silent_s = {name: self._silent_since_s(name) for name, one in self.replicas.items() if one.state == "ready"}
        unheard = {name for name, since_s in silent_s.items() if tick - since_s >= self.policy.patience_s}
        members = {
            name: Member(one.state, one.since_s, one.state == "ready" and name not in unheard)
            for name, one in self.replicas.items()
        }
        scene = Scene(view, tick, members, self.observed_from_s)
        up, down = Window(scene, self.policy.up_s), Window(scene, self.policy.down_s)
        p99 = quantile(down.histograms("e2e_ms"), Fraction(99, 100))
        told = Tick(
            endpoint=self.policy.endpoint,
            at_s=tick,
            processed_s=processed_s,
            offset=offset,
            windows={window.length_s: self._values(window) for window in (up, down)},
            ready=tuple(sorted(silent_s)),
            unheard=tuple(sorted(unheard)),
            sources=self._sources(scene, silent_s, held),
            blockers=self._blockers(down),
            drains={name: _drain(up, name) for name in silent_s},
            drain_p99_ms=None if p99 is None else p99.value,
        )
        self.next_tick, self.has_ticked = tick + TICK_S, True
        self.book.keep_from(self.next_tick - self.span_s)
        return told

    def _learn(self, view: View, whole: View, tick: int) -> None:
        """Replicas that only samples tell of are ready while they are fresh beside the others. What a quarantined
        source says counts for nothing; that it speaks, as `whole` shows, does."""
        heard = {replica: view.heard(replica, view.first_s) for replica in view.replicas}
        for replica, seconds in heard.items():
            if replica not in self.replicas:
                self.replicas[replica] = Replica("ready", seconds[0], seconds[0], True)
        for replica in whole.replicas:
            self.last_heard[replica] = whole.heard(replica, whole.first_s)[-1]
        if heard:
            newest = max(seconds[-1] for seconds in heard.values())
            muted = view.muted(view.first_s - 1)
            for replica, known in list(self.replicas.items()):
                is_stale = replica not in heard or heard[replica][-1] < newest - INFERRED_S
                if known.inferred and replica not in muted and is_stale:
                    del self.replicas[replica]
        for replica, known in list(self.replicas.items()):
            if known.state == "gone" and known.since_s < tick - self.span_s and replica not in heard:
                del self.replicas[replica]

    def _silent_since_s(self, replica: str) -> int:
        since_s, heard = self.replicas[replica].since_s, self.last_heard.get(replica)
        return since_s if heard is None else max(since_s, heard + 1)

    def _values(self, window: Window) -> dict[str, Value]:
        check = self._failed_check(window)
        return {metric.key: window.read_metric(metric, check) for metric in self.policy.metrics}

    def _failed_check(self, window: Window) -> str | None:
        view = window.view
        if any(not pair[0] or pair[0] in window.counted for pair in view.two_processes(window.first_s)):
            return "two_processes"
        muted = view.muted(_looked_from(window) - 1)
        if any(name in window.counted and not view.heard(name, window.first_s) for name in muted):
            return "clock_unsteady"
        served = [at_s for at_s, count in window.gateway("completions").items() if count > 0]
        if served and not any(
            one.state not in NO_SERVER or one.since_s > max(served) for one in self.replicas.values()
        ):
            return "completions_without_replica"
        return None

    def _sources(
        self, scene: Scene, silent_s: dict[str, int], held: dict[SourceName, ClockVerdict]
    ) -> dict[SourceName, Source]:
        found = {}
        for name in {*held, *self.late}:
            verdict, late = held.get(name), self.late.get(name, 0)
            if verdict is not None and not verdict.is_well:
                found[name] = Source(verdict.offset_s, "suspect" if verdict.quarantined else "fresh", late)
            elif late:
                found[name] = Source(None, "fresh", late)
        for ready, since_s in silent_s.items():
            if scene.tick - since_s > SILENT_S and not any(key[0] == ready for key in found):
                was_heard = self.last_heard.get(ready, 0) >= scene.tick - RECENT_S
                found[ready, ENGINE, ready] = Source(None, "stale" if was_heard else "unknown", 0)
        for replica, reporter, *_ in scene.view.two_processes(scene.view.first_s):
            source = ENGINE if reporter is None else ROUTER
            found[replica, source, replica if reporter is None else reporter] = Source(None, "suspect", 0)
        return found

    def _blockers(self, down: Window) -> set[tuple[str, str | None, int | None]]:
        """(kind, replica, until)"""
        view, tick, length_s = down.view, down.scene.tick, down.length_s
        found: set[tuple[str, str | None, int | None]] = set()
        if self.observed_from_s > tick - length_s:
            found.add(("rebuild", None, self.observed_from_s + length_s))
        restarted: dict[str, int] = {}
        for replica, _, _, at_s in view.restarts(down.first_s):
            if replica in down.counted:
                restarted[replica] = max(at_s, restarted.get(replica, at_s))
        found |= {("restart", replica, at_s + length_s) for replica, at_s in restarted.items()}
        for replica, since_s in down.counted.items():
            heard = [at_s for at_s in view.heard(replica, down.first_s) if at_s >= since_s]
            if len(heard) < FRESH * down.expected[replica]:
                found.add(("coverage", replica, None))
        doubted = {pair[0] for pair in view.two_processes(down.first_s)} | view.muted(_looked_from(down) - 1)
        found |= {("suspect", name, None) for name in doubted if not name or name in down.counted}
        return found


def _looked_from(window: Window) -> int:
    return window.scene.tick - NEAR_S if window.length_s <= NEAR_S else window.view.first_s


def _drain(up: Window, replica: str) -> Drain:
    """What a ready replica has in flight, and how much of its input its cache has held; one that is given up hearing
    has nothing that counts."""
    running = up.ready(up.known(up.view.inflight, replica), replica)
    hits = up.ready(up.known(up.field("cached_tokens"), replica), replica)
    tokens = sum(up.ready(up.known(up.field("input_tokens"), replica), replica))
    return Drain(
        sum(running, Fraction(0)) / len(running) if running else None,
        min(Fraction(1), sum(hits) / Fraction(tokens)) if tokens else None,
    )
