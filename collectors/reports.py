"""What a collector tells about itself: counters, and a log line when something changes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import structlog
from opentelemetry.metrics import get_meter

from collectors.answers import Answer, Path
from collectors.exposition import PROBLEMS
from collectors.recordings import BrokenLine
from collectors.tracker import Observation, Outcome, Problem
from wire.zero_counts import begin_at_zero

log = structlog.get_logger("headrace.collectors")

_GOOD = {Outcome.READ, Outcome.HEALTHY}
_BAD_INPUT = {Outcome.UNREADABLE}
_NO_BAD_INPUT = {Problem.RESTARTED}
_OUTCOMES = {
    Path.METRICS: (Outcome.READ, Outcome.FAILED, Outcome.UNREADABLE, Outcome.UNHEALTHY),
    Path.HEALTH: (Outcome.HEALTHY, Outcome.NOT_HEALTHY),
}
"""What may come of an answer to each."""
BROKEN_LINES_TOLD_MAX = 10
"""A file that is no recording has as many broken lines as it has lines; all are counted."""

_meter = get_meter("headrace.collectors")
_answers = _meter.create_counter(
    "headrace_collect_answers", description="Answers of engines, and failures to get one, by what came of them."
)
_samples = _meter.create_counter("headrace_collect_samples", description="Samples made from engines' counters.")
_problems = _meter.create_counter(
    "headrace_collect_problems", description="Series and increases left out, restarts, clocks set back, by kind."
)
_broken_lines = _meter.create_counter(
    "headrace_collect_broken_lines", description="Lines of a recording that are no answer."
)
_bytes = _meter.create_counter("headrace_collect_body", unit="By", description="Text of /metrics that was read.")


class Reports:
    """Counts everything; logs an engine's change for the better or worse, and each kind of problem once."""

    def __init__(self, endpoint: str, replicas: Iterable[str]) -> None:
        self._endpoint = endpoint
        self._outcomes: dict[tuple[str, str], Outcome] = {}
        self._told: set[tuple[str, str]] = set()
        self.answers: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.broken_lines = 0
        self.samples = 0
        _begin_at_zero(endpoint, list(replicas))

    @property
    def bad_input(self) -> int:
        """How much of what was read was not as it should be: broken lines, unreadable answers, series left out."""
        answers = sum(self.answers[outcome] for outcome in _BAD_INPUT)
        return self.broken_lines + answers + sum(n for kind, n in self.problems.items() if kind not in _NO_BAD_INPUT)

    def observed(self, replica: str, answer: Answer, observation: Observation) -> None:
        labels = {"endpoint": self._endpoint, "replica": replica}
        self.answers[observation.outcome] += 1
        _answers.add(1, {**labels, "path": answer.path.value, "outcome": observation.outcome.value})
        _bytes.add(len(answer.body), labels)
        self.told(replica, len(observation.samples), observation.problems)
        before = self._outcomes.get((replica, answer.path))
        if observation.outcome is not before:
            self._outcomes[replica, answer.path] = observation.outcome
            self._log_change(replica, answer, observation, before)
        if Problem.RESTARTED in observation.problems:
            log.info("engine_restarted", replica=replica, at_s=answer.at_s)
        new = [kind for kind in observation.problems if (replica, kind) not in self._told and kind not in _NO_BAD_INPUT]
        if new:
            self._told |= {(replica, kind) for kind in new}
            log.warning(
                "input_problem", replica=replica, kinds=sorted(new), detail=observation.detail, at_s=answer.at_s
            )

    def told(self, replica: str, samples: int, problems: Mapping[str, int]) -> None:
        labels = {"endpoint": self._endpoint, "replica": replica}
        self.samples += samples
        if samples:
            _samples.add(samples, labels)
        for kind, number in problems.items():
            self.problems[kind] += number
            _problems.add(number, {**labels, "kind": str(kind)})

    def broken(self, line: BrokenLine) -> None:
        self.broken_lines += 1
        _broken_lines.add(1, {"endpoint": self._endpoint})
        if self.broken_lines <= BROKEN_LINES_TOLD_MAX:
            log.warning("line_broken", line=line.number, reason=line.reason)
        if self.broken_lines == BROKEN_LINES_TOLD_MAX:
            log.warning("more_broken_lines_are_only_counted", told=BROKEN_LINES_TOLD_MAX)

    def _log_change(self, replica: str, answer: Answer, observation: Observation, before: Outcome | None) -> None:
        say = log.info if observation.outcome in _GOOD else log.warning
        say(
            "engine_changed",
            replica=replica,
            path=answer.path.value,
            outcome=observation.outcome.value,
            before=None if before is None else before.value,
            detail=observation.detail,
            at_s=answer.at_s,
        )


def _begin_at_zero(endpoint: str, replicas: Sequence[str]) -> None:
    begin_at_zero(_broken_lines, endpoint=[endpoint])
    for counter in (_samples, _bytes):
        begin_at_zero(counter, endpoint=[endpoint], replica=replicas)
    for path, outcomes in _OUTCOMES.items():
        begin_at_zero(_answers, endpoint=[endpoint], replica=replicas, path=[path], outcome=outcomes)
    begin_at_zero(_problems, endpoint=[endpoint], replica=replicas, kind=(*Problem, *PROBLEMS))
