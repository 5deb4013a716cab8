"""One engine's answers into its samples: a state machine without clock, network or log.

A scrape gives the sample of its own second: what the counters gained since the scrape before, and the gauges as they
were read. Seconds between that had no good scrape share in the gain, evenly, in whole numbers: nobody knows more. So a
second has one sample, and the samples add up to what the engine's own counters gained.

The newest second is held back until a later good answer (a scrape, or `/health` with 200) shows that the engine was
still there when the second was over: zeros read in the second in which an engine died are no known zeros. What such a
second gained is told all the same, when the epoch ends.

A failed scrape gives nothing. A scrape while the newest `/health` is not 200 counts as failed.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from math import floor

from collectors.answers import Answer, Path
from collectors.exposition import Reading, UnreadableError, read_exposition
from collectors.increases import Increase, carried_over, has_restarted, increase_between, read_gauges
from collectors.spreading import Fields, GaugeTrace, added, is_something, spread_increase
from records.enums import Source
from records.telemetry import RequestSample

SPREAD_MAX_S = 6 * 3600
"""Longest time without a good scrape over which counters are spread: far beyond every window, and its samples still
fit in memory (2 KB each). A longer one ends in a new first scrape; what was gained in it is in no sample, and said."""

CLOCK_STEP_S = 10
"""A clock that went back further than this was set; less is jitter, and waits until time has caught up."""


class Outcome(StrEnum):
    """What came of one answer."""

    READ = "read"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    NOT_HEALTHY = "not_healthy"


class Problem(StrEnum):
    """What was noticed beside; those of the exposition have their own names (`bad_value`, `malformed_line`...)."""

    RESTARTED = "restarted"
    CLOCK_WENT_BACK = "clock_went_back"
    GAP_TOO_LONG = "gap_too_long"
    ABSURD_INCREASE = "absurd_increase"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The samples that an answer gave, oldest first. `detail` says in words what was wrong with it, else empty."""

    outcome: Outcome
    samples: tuple[RequestSample, ...] = ()
    problems: dict[str, int] = field(default_factory=dict)
    detail: str = ""


@dataclass(kw_only=True)
class _Epoch:
    """One incarnation of the engine. `latest` is what was read last, with what that reading left out as it was before.

    `second` is the newest one that has a sample; `held` are that sample's fields, None once it was told.
    """

    name: str
    mark: str | None
    latest: Reading
    latest_s: float
    second: int
    gauges: GaugeTrace
    held: Fields | None


class EngineTracker:
    """Feed it every answer of one replica in order of time; it keeps what the next sample needs, and no more."""

    def __init__(self, endpoint: str, replica: str) -> None:
        self._endpoint = endpoint
        self._replica = replica
        self._is_healthy = True
        self._is_answering = True
        self._epoch: _Epoch | None = None
        self._seq = 0
        self._problems: Counter[str] = Counter()

    def observe(self, answer: Answer) -> Observation:
        self._problems = Counter()
        match answer:
            case Answer(path=Path.HEALTH, code=200):
                self._is_healthy = True
                return Observation(outcome=Outcome.HEALTHY, samples=self._tell_before(floor(answer.at_s)))
            case Answer(path=Path.HEALTH):
                self._is_healthy = False
                return Observation(outcome=Outcome.NOT_HEALTHY, detail=_said(answer))
            case Answer(code=200) if self._is_healthy:
                return self._read(answer)
            case Answer(code=200):
                return Observation(outcome=Outcome.UNHEALTHY)
            case _:
                self._is_answering = False
                return Observation(outcome=Outcome.FAILED, detail=_said(answer))

    def close(self) -> tuple[RequestSample, ...]:
        """No more answers: the second that is held back. Nothing where the engine's last answer was a bad one, unless
        something was gained in it."""
        return self._end_epoch(was_well=self._is_healthy and self._is_answering)

    def _read(self, answer: Answer) -> Observation:
        try:
            reading = read_exposition(answer.body)
        except UnreadableError as error:
            self._is_answering = False
            return Observation(outcome=Outcome.UNREADABLE, detail=str(error))
        self._is_answering = True
        self._problems.update(reading.problems)
        self._seq = max(self._seq + 1, floor(answer.at_s * 1000))
        samples = self._take(reading, answer)
        detail = "; ".join(f"{problem}: {line}" for problem, line in reading.examples.items())
        return Observation(outcome=Outcome.READ, samples=samples, problems=dict(self._problems), detail=detail)

    def _take(self, reading: Reading, answer: Answer) -> tuple[RequestSample, ...]:
        epoch = self._epoch
        if epoch is None:
            self._begin(_epoch_name(reading, answer), reading, answer)
            return ()
        if has_restarted(epoch.latest, reading) or _differ(epoch.mark, answer.process_mark):
            self._problems[Problem.RESTARTED] += 1
            samples = self._end_epoch(was_well=False)
            self._begin(_epoch_name(reading, answer, epoch.name), reading, answer)
            return samples
        if answer.at_s - epoch.latest_s > SPREAD_MAX_S:
            self._problems[Problem.GAP_TOO_LONG] += 1
            samples = self._end_epoch(was_well=False)
            self._begin(epoch.name, reading, answer)
            return samples
        return self._go_on(epoch, reading, answer)

    def _begin(self, name: str, reading: Reading, answer: Answer) -> None:
        """The first scrape of an epoch: gauges alone."""
        trace = GaugeTrace()
        trace.add(answer.at_s, read_gauges(reading))
        self._epoch = _Epoch(
            name=name,
            mark=answer.process_mark,
            latest=reading,
            latest_s=answer.at_s,
            second=floor(answer.at_s),
            gauges=trace,
            held={},
        )

    def _go_on(self, epoch: _Epoch, reading: Reading, answer: Answer) -> tuple[RequestSample, ...]:
        """A further scrape of the same process."""
        second = floor(answer.at_s)
        samples: tuple[RequestSample, ...] = ()
        if second < epoch.second - CLOCK_STEP_S:
            self._problems[Problem.CLOCK_WENT_BACK] += 1
            samples = self._tell_before(epoch.second + 1)
            epoch.second = second - 1
            epoch.gauges.clear()
        samples += self._tell_before(second)
        gained = increase_between(epoch.latest, reading)
        epoch.gauges.add(answer.at_s, read_gauges(reading))
        epoch.latest = carried_over(epoch.latest, reading)
        epoch.latest_s = answer.at_s
        if epoch.held is not None:
            (fields,) = self._spread(gained, 1)
            epoch.held = added(epoch.held, fields)
            return samples
        seconds = range(epoch.second + 1, max(second, epoch.second + 1) + 1)
        *over, epoch.held = self._spread(gained, len(seconds))
        samples += tuple(self._sample(epoch, *told) for told in zip(seconds, over, strict=False))
        epoch.second = seconds[-1]
        return samples

    def _tell_before(self, second: int) -> tuple[RequestSample, ...]:
        """The sample that is held back, if its second is over by the beginning of `second`."""
        epoch = self._epoch
        if epoch is None or epoch.held is None or epoch.second >= second:
            return ()
        fields, epoch.held = epoch.held, None
        return (self._sample(epoch, epoch.second, fields),)

    def _end_epoch(self, *, was_well: bool) -> tuple[RequestSample, ...]:
        epoch, self._epoch = self._epoch, None
        if epoch is None or epoch.held is None or not (was_well or is_something(epoch.held)):
            return ()
        return (self._sample(epoch, epoch.second, epoch.held),)

    def _spread(self, gained: Increase, seconds: int) -> list[Fields]:
        per_second, absurd = spread_increase(gained, seconds)
        if absurd:
            self._problems[Problem.ABSURD_INCREASE] += len(absurd)
        return per_second

    def _sample(self, epoch: _Epoch, second: int, fields: Fields) -> RequestSample:
        values: Fields = {**epoch.gauges.of_second(second), **fields}
        return RequestSample(
            endpoint=self._endpoint,
            replica=self._replica,
            epoch=epoch.name,
            seq=self._seq,
            at_s=second,
            source=Source.ENGINE,
            **values,
        )


def _epoch_name(reading: Reading, answer: Answer, old_name: str | None = None) -> str:
    """The start of the process in ms, else when it was first seen. Counters that went down in one and the same process
    begin an epoch too, which needs a name of its own."""
    if reading.process_start is not None and reading.process_start != old_name:
        return reading.process_start
    return str(floor(answer.at_s * 1000))


def _differ(before: str | None, after: str | None) -> bool:
    return before is not None and after is not None and before != after


def _said(answer: Answer) -> str:
    return answer.failure if answer.failure is not None else f"HTTP status {answer.code}"
