"""Logs as bad as they come, made from a plan: few replicas, few seconds, and every disorder that the contract knows."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import takewhile
from random import Random

from tests.oracle.model.log import ENGINE, ROUTER, Change, Clock, Entry, Message, Policy, Sample
from tests.oracle.plans import METRICS, NOBODY, STRANGER, Case, Disorder, Plan
from tests.oracle.values import BOUNDS, Profile, some_values

EIGHTH = Fraction(1, 8)
"""Times and gauges are eighths: floats hold them and their sums exactly."""


def make_case(plan: Plan) -> Case:
    return _Maker(plan).make()


@dataclass(frozen=True)
class Sent:
    """A sample, and when Kafka has it."""

    stamped_s: Fraction
    sample: Sample


@dataclass(frozen=True)
class Speaker:
    """Who speaks of a replica, and by how much its clock is off in each second."""

    source: str
    reporter: str | None
    skew_s: tuple[int, ...] = (0,)


@dataclass
class _Maker:
    plan: Plan
    sent: list[Sent] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = Random(self.plan.seed)
        self.start_s = 1000 + self.rng.randrange(604)
        """Anywhere in a ring of the windows' span."""
        self.is_from_agents = self.has(Disorder.FRAMES) and self.rng.random() < 0.4
        """Whether one frame a second tells of all replicas."""

    def has(self, disorder: Disorder) -> bool:
        return disorder in self.plan.disorders

    def make(self) -> Case:
        names = ("chat", "code") if self.has(Disorder.TWO_ENDPOINTS) else ("chat",)
        for name in names:
            self._endpoint(name)
        self._disturb()
        entries = self._entries()
        return Case(
            tuple(self._policy(name) for name in names), tuple(entries), self._kills(entries), self.rng.randrange(2**32)
        )

    def _policy(self, endpoint: str) -> Policy:
        rng = self.rng
        return Policy(
            endpoint=endpoint,
            metrics=tuple(rng.sample(METRICS, 3)),
            up_s=rng.choice((5, 5, 10, 20)),
            down_s=rng.choice((5, 10, 30, 300)),
            patience_s=rng.choice((600, 600, 8)),
        )

    # -- who says what ------------------------------------------------------------------------------------------

    def _endpoint(self, endpoint: str) -> None:
        rng, seconds = self.rng, self.plan.seconds
        is_idle = rng.random() < 0.15
        for place in range(self.plan.replicas):
            replica = f"r{place}"
            first, last = rng.choice((0, 0, rng.randrange(seconds))), rng.choice((seconds, rng.randint(1, seconds)))
            if self.has(Disorder.CHANGES):
                self._states(endpoint, replica, first, last)
            profile = Profile(is_idle, rng.random() < 0.5, self._bounds())
            for speaker in self._speakers(replica):
                known = Sample(endpoint=endpoint, replica=replica, source=ENGINE, at_s=0)
                self._speak(known, speaker, profile, first, last)
        if self.has(Disorder.GATEWAY):
            profile = Profile(is_idle, False, self._bounds(), is_gateway=True)
            for reporter in ("gw", "gw2")[: rng.randint(1, 2)]:
                begin = rng.randrange(seconds)
                self._speak(
                    Sample(endpoint=endpoint, replica="", source=ROUTER, at_s=0),
                    Speaker(ROUTER, reporter),
                    profile,
                    begin,
                    rng.randint(begin, seconds),
                )

    def _bounds(self) -> tuple[tuple[Fraction, ...], ...]:
        """The sets of bounds that a replica's histograms have, one after the other."""
        if not self.has(Disorder.BOUNDS):
            return (BOUNDS[0],)
        return tuple(self.rng.sample(BOUNDS, self.rng.randint(2, 3)))

    def _speakers(self, replica: str) -> list[Speaker]:
        rng = self.rng
        found = [(ENGINE, rng.choice((None, None, replica)))]
        if self.has(Disorder.REPORTERS):
            more = [(ENGINE, "side"), (ROUTER, "gw"), (ROUTER, "gw2"), (ROUTER, None)]
            found = rng.sample([*found, *more], rng.randint(2, 4))
        return [Speaker(source, reporter, self._skew()) for source, reporter in found]

    def _skew(self) -> tuple[int, ...]:
        rng = self.rng
        if not self.has(Disorder.SKEW) or rng.random() < 0.3:
            return (0,)
        steady = rng.choice((-40, -20, -7, -6, -5, 5, 6, 20, 55))
        match rng.randrange(5):
            case 0:
                return (-30, 0, -14, 9, -50, -22)
            case 1:
                return tuple(steady if at < self.plan.seconds // 2 else 0 for at in range(self.plan.seconds))
            case 2:
                return (steady, steady, steady + 1)
            case _:
                return (steady,)

    def _speak(self, known: Sample, speaker: Speaker, profile: Profile, first: int, last: int) -> None:
        rng = self.rng
        restart = rng.randint(first, max(first, last)) if self.has(Disorder.EPOCHS) and rng.random() < 0.8 else None
        overlap = rng.choice((0, 0, 1, 4))
        share = rng.choice((1.0, 1.0, 1.0, 0.95, 0.8, 0.5))
        for second in range(first, last):
            epochs = ["1" if restart is None or second < restart else "2"]
            if restart is not None and restart <= second < restart + overlap:
                epochs.append("1")
            for epoch in epochs:
                if rng.random() < share:
                    self._send(known, speaker, profile, second, epoch)

    def _send(self, known: Sample, speaker: Speaker, profile: Profile, second: int, epoch: str) -> None:
        rng = self.rng
        scalars, histograms = some_values(rng, profile, second)
        at_s = self.start_s + second
        stamped_s = at_s + 1 + EIGHTH * (4 if self.is_from_agents else rng.randrange(17))
        received_s = stamped_s + EIGHTH * rng.choice((-4, -1, 0, 3)) if rng.random() < 0.2 else None
        sample = replace(
            known,
            source=speaker.source,
            reporter=speaker.reporter,
            epoch=epoch,
            at_s=at_s + speaker.skew_s[second % len(speaker.skew_s)],
            seq=rng.choice((0, 0, 1)),
            received_s=received_s,
            scalars=scalars,
            histograms=histograms,
        )
        self.sent.append(Sent(stamped_s, sample))

    def _states(self, endpoint: str, replica: str, first: int, last: int) -> None:
        rng = self.rng
        states = [(first - rng.randrange(4), "starting"), (first + rng.choice((0, 0, 3)), "ready")]
        ended = last - rng.choice((0, 0, 3))
        states += [(ended, rng.choice(("draining", "gone", "failed")))] if rng.random() < 0.6 else []
        states += [(second, "ready") for second in range(first + 4, last, 9)]
        for second, state in sorted(states)[rng.choice((0, 0, 1)) :]:
            at_s = self.start_s + second
            self.changes.append(Change(endpoint, replica, at_s, state, at_s + EIGHTH * rng.randrange(12)))

    # -- what goes wrong on the way -----------------------------------------------------------------------------

    def _disturb(self) -> None:
        if not self.sent:
            return
        if self.has(Disorder.DUPLICATES):
            self._again(0)
        if self.has(Disorder.REPLACED):
            self._again(1)
        if self.has(Disorder.LATE):
            self._delay()
        if self.has(Disorder.AHEAD):
            for ahead_s in self.rng.choices((3, 9, 40, 59, 60, 61, 90), k=2):
                self._displaced(ahead_s)
        if self.has(Disorder.STRAY):
            for _ in range(2):
                place = self.rng.randrange(len(self.sent))
                endpoint = self.rng.choice((STRANGER, NOBODY))
                sample = replace(self.sent[place].sample, source=ENGINE)
                is_elsewhere = self.rng.random() < 0.7
                sample = replace(sample, endpoint=endpoint) if is_elsewhere else replace(sample, replica="")
                self.sent.insert(place, Sent(self.sent[place].stamped_s, sample))

    def _again(self, later: int) -> None:
        """Some samples come twice; `later`: what comes again says something else, with a later seq."""
        rng = self.rng
        for one in rng.choices(self.sent, k=rng.randint(1, 4)):
            sample = one.sample
            if later:
                more = {name: sample.scalars[name] + 1 for name in ("running", "waiting") if sample.scalars.get(name)}
                sample = replace(sample, seq=sample.seq + 1, scalars={**sample.scalars, **more})
            else:
                sample = replace(sample, seq=sample.seq - rng.choice((0, min(1, sample.seq))))
            after_s = EIGHTH * rng.choice((-8, 0, 0, 1, 20, 50, 90))
            self.sent.append(Sent(one.stamped_s + after_s, sample))

    def _delay(self) -> None:
        rng = self.rng
        for place in rng.choices(range(len(self.sent)), k=rng.randint(1, 3)):
            one = self.sent[place]
            self.sent[place] = Sent(one.stamped_s + EIGHTH * rng.choice((25, 60, 100)), one.sample)
        for behind_s in rng.choices((280, 290, 296, 299, 300, 301, 305, 340), k=2):
            self._displaced(-behind_s)

    def _displaced(self, by_s: int) -> None:
        """One more sample, of a second that is not now."""
        one = self.rng.choice(self.sent)
        at_s = int(one.stamped_s) - 1 + by_s
        self.sent.append(Sent(one.stamped_s, replace(one.sample, at_s=at_s, seq=self.rng.choice((0, 1)))))

    # -- the log ------------------------------------------------------------------------------------------------

    def _entries(self) -> list[Entry]:
        rng = self.rng
        order = sorted(self.sent, key=lambda one: one.stamped_s)
        if self.has(Disorder.ORDER):
            for _ in range(rng.randint(1, 8)):
                place = rng.randrange(len(order)) if order else 0
                order.insert(min(len(order), place + rng.randint(1, 6)), order.pop(place)) if order else None
        entries: list[Entry] = []
        offset = 0
        changes = sorted(self.changes, key=lambda one: one.received_s)
        while order or changes:
            if changes and (not order or changes[0].received_s <= order[0].stamped_s):
                entries.append(changes.pop(0))
                continue
            group = [order.pop(0)]
            if self.has(Disorder.FRAMES) and (self.is_from_agents or rng.random() < 0.6):
                group += self._frame_mates(group[0], order)
                entries.append(
                    Message(offset, max(one.stamped_s for one in group), tuple(one.sample for one in group), True)
                )
            else:
                entries.append(Message(offset, group[0].stamped_s, (group[0].sample,)))
            offset += 1
            if self.has(Disorder.CLOCK) and not self.has(Disorder.RESTART) and rng.random() < 0.08:
                entries.append(Clock(group[-1].stamped_s + EIGHTH * rng.choice((0, 4, 33, 60))))
        return entries

    def _frame_mates(self, first: Sent, order: list[Sent]) -> list[Sent]:
        """The samples that follow, as many as fit into one frame with the first: their bounds do not differ."""
        bounds: dict[str, tuple[Fraction, ...]] = {}
        found: list[Sent] = []
        followers = iter(order[: self.rng.randint(0, 8)])
        if self.is_from_agents:
            followers = takewhile(lambda one: one.stamped_s == first.stamped_s, order)
        for one in (first, *followers):
            wanted = {name: histogram.bounds for name, histogram in one.sample.histograms.items()}
            if any(bounds.get(name, edges) != edges for name, edges in wanted.items()):
                break
            bounds |= wanted
            found.append(one)
        del order[: len(found) - 1]
        return found[1:]

    def _kills(self, entries: Sequence[Entry]) -> tuple[tuple[int, float], ...]:
        if not self.has(Disorder.RESTART) or not entries:
            return ()
        places = sorted(self.rng.randint(1, len(entries)) for _ in range(self.rng.choice((1, 1, 2))))
        return tuple((place, self.rng.choice((1.0, 1.0, 0.5, 0.8))) for place in places)
