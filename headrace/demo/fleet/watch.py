"""Follows the endpoints through the feed, and tells how each one stands now."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.demo.feed import Tick
from headrace.demo.fleet.samples import SampleTally
from headrace.demo.fleet.screen import EndpointStanding
from records.enums import ScalingAction
from records.policy import EndpointPolicy

OVER_S = 10
"""Seconds that a rate and a p95 are taken over, and how far behind the newest one they end: all have reported then."""
SETTLED_S = 2
KEPT_S = 60


@dataclass(frozen=True, kw_only=True)
class Behind:
    """How many event seconds the newest samples, and the newest decisions, were behind the clock at most."""

    samples_s: float = 0.0
    decisions_s: float = 0.0


class Watch:
    """`tick` and `samples` take what the feed reads."""

    def __init__(self, policies: Sequence[EndpointPolicy]) -> None:
        self._policies = policies
        self._tally = SampleTally()
        self._newest: dict[str, Tick] = {}
        self._changed: dict[str, Tick] = {}
        self.behind = Behind()
        self.behind_s = 0.0
        """How far behind the samples were at the last look, event seconds."""

    def tick(self, tick: Tick) -> None:
        self._newest[tick.endpoint] = tick
        if tick.decision.action is not ScalingAction.HOLD:
            self._changed[tick.endpoint] = tick

    def samples(self, table: pa.Table) -> None:
        self._tally.add(table)
        newest = [self._tally.newest(policy.endpoint) for policy in self._policies]
        self._tally.forget_before(max((second for second in newest if second is not None), default=0) - KEPT_S)

    def look(self, now_s: float) -> None:
        """See how far behind the last endpoint is; nothing is, before each has samples and decisions."""
        names = [policy.endpoint for policy in self._policies]
        sampled = [self._tally.newest(name) for name in names]
        if all(name in self._newest for name in names):
            oldest_s = min(second for second in sampled if second is not None)
            decided_s = min(self._newest[name].at_s for name in names)
            self.behind_s = now_s - oldest_s - 1
            self.behind = Behind(
                samples_s=max(self.behind.samples_s, self.behind_s),
                decisions_s=max(self.behind.decisions_s, now_s - decided_s),
            )

    def standings(self) -> list[EndpointStanding]:
        """One for each policy, in their order."""
        return [self._standing(policy) for policy in self._policies]

    def _standing(self, policy: EndpointPolicy) -> EndpointStanding:
        name = policy.endpoint
        newest = self._tally.newest(name)
        end_s = 0 if newest is None else newest + 1 - SETTLED_S
        known = [found for second, found in self._tally.of(name).items() if end_s - OVER_S <= second < end_s]
        return EndpointStanding(
            name=name,
            requests_per_s=sum(one.arrivals + one.rejections for one in known) / len(known) if known else None,
            in_flight=sum(one.in_flight for one in known) / len(known) if known else None,
            ttft_p95_ms=self._tally.ttft_p95_ms(name, end_s - OVER_S, end_s),
            slo_ms=policy.slo.ttft_p95_ms,
            newest=self._newest.get(name),
            changed=self._changed.get(name),
        )
