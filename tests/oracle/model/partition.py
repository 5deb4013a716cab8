"""The oracle: a log in, what is to be said of each tick and each row out."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.model.book import Verdict
from tests.oracle.model.endpoint import TICK_S, Endpoint, Tick
from tests.oracle.model.log import Change, Clock, Entry, Message, Policy, Sample


@dataclass
class Told:
    """`verdicts` has one for each row: its message's offset, its sample and what became of it."""

    ticks: dict[str, list[Tick]] = field(default_factory=dict)
    verdicts: list[tuple[int, Sample, Verdict]] = field(default_factory=list)


class Oracle:
    """One partition."""

    def __init__(self, policies: Iterable[Policy], owns: Callable[[str], bool]) -> None:
        self.endpoints = {policy.endpoint: Endpoint(policy) for policy in policies}
        self.told = Told({name: [] for name in self.endpoints})
        self._owns = owns
        self._processed_s = Fraction(0)
        self._offset = 0

    def read(self, entry: Entry) -> None:
        match entry:
            case Message():
                self._let_pass(max(entry.received_s(sample) for sample in entry.samples))
                touched = [self._take(entry, sample) for sample in entry.samples]
                self._offset = entry.offset + 1
                self._tick_due(endpoint for endpoint in touched if endpoint is not None)
            case Change():
                self._let_pass(entry.received_s)
                endpoint = self.endpoints[entry.endpoint]
                endpoint.change(entry)
                self._tick_due([endpoint])
            case Clock():
                self._let_pass(entry.now_s)

    def finish(self) -> Told:
        """The end of a replay: ticks up to the processing time run with what is there."""
        last_tick = self._processed_s // TICK_S * TICK_S
        for endpoint in self.endpoints.values():
            while endpoint.next_tick is not None and endpoint.next_tick <= last_tick:
                self._tick(endpoint)
        return self.told

    def _take(self, message: Message, sample: Sample) -> Endpoint | None:
        endpoint = None
        if not self._owns(sample.endpoint):
            verdict = Verdict.WRONG_PARTITION
        elif sample.endpoint not in self.endpoints:
            verdict = Verdict.NO_POLICY
        else:
            endpoint = self.endpoints[sample.endpoint]
            verdict = endpoint.take(sample, message.received_s(sample))
        self.told.verdicts.append((message.offset, sample, verdict))
        return endpoint

    def _let_pass(self, time_s: Fraction) -> None:
        """Ticks that fall due by time alone are made before what is read then."""
        self._processed_s = max(self._processed_s, time_s)
        self._tick_due(self.endpoints.values())

    def _tick_due(self, endpoints: Iterable[Endpoint]) -> None:
        for endpoint in endpoints:
            while endpoint.is_due(self._processed_s):
                self._tick(endpoint)

    def _tick(self, endpoint: Endpoint) -> None:
        made = endpoint.tick(self._processed_s, self._offset)
        self.told.ticks[made.endpoint].append(made)
