"""Several carriers of one endpoint, a log and a scale target, in memory: who goes on next is drawn from a seed.

Every call to the log or the target has two moments at which its caller may be paused, killed or overtaken: before it
takes effect and before its answer arrives.
"""

import asyncio
import random
from dataclasses import dataclass, field

import numpy as np

from actuators.carrier import Carrier, CarrierOptions
from actuators.chain import Chain
from actuators.fault_points import NoFaults
from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    Marked,
    ObservedTarget,
    Refused,
    TargetRef,
    Unanswered,
)
from actuators.retries import Backoff
from actuators.verdicts import Limits, Verdict, outcome_of
from records.decisions import ScalingDecision
from records.outcomes import Outcome
from simulation.scale_target import Accepted, ScaleRequest, ScaleTarget
from tests.actuators.chains import DecisionChain

ENDPOINT = "chat"
NOW_S = 1_790_000_000
SPEC_MAX = 100


@dataclass
class Applications:
    """Changes of the target, in their order: the decision (None: a person), the count, and the outcomes by then."""

    rows: list[tuple[str | None, int, int]] = field(default_factory=list)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.haste = self.chance.choice([0.0, 0.5, 0.9])
        self.rng = np.random.default_rng(seed)
        self.chain = DecisionChain(ENDPOINT)
        self.log: list[ScalingDecision] = []
        self.outcomes: list[Outcome] = []
        self.target = ScaleTarget(ENDPOINT, 4, SPEC_MAX, "uid")
        self.applications = Applications()
        self.waiting: list[asyncio.Future[None]] = []
        self.delayed: list[ScaleRequest] = []

    async def moment(self) -> None:
        """Until the draw falls on this caller."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiting)
        try:
            await waiting
        finally:
            if waiting in self.waiting:
                self.waiting.remove(waiting)

    def decide(self) -> None:
        """A decision with a tick above the last; few counts, so that the target often has the one that is wanted."""
        current, desired = self.chance.sample(range(1, 5), 2)
        self.log.append(self.chain.next(NOW_S - 50 + len(self.log), current, desired))

    def meddle(self) -> None:
        """Somebody else changes the count."""
        now = self.target.target
        self.change(ScaleRequest(spec_replicas=self.chance.randint(1, 4), resource_version=now.resource_version))

    def change(self, request: ScaleRequest) -> object:
        answer = self.target.compare_and_set(request)
        if isinstance(answer, Accepted) and answer.changed:
            self.applications.rows.append((request.decision_id, request.spec_replicas, len(self.outcomes)))
        return answer

    def observed(self) -> ObservedTarget:
        now = self.target.target
        return ObservedTarget(
            endpoint=ENDPOINT,
            spec_replicas=now.spec_replicas,
            resource_version=now.resource_version,
            decision_id=now.decision_id,
        )


class Member:
    """One actuator: the port and the log of its carrier, and what only it remembers."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.read = self.noted = 0
        self.chain = Chain(name, Limits())
        options = CarrierOptions(
            actuator=name,
            port=self,
            backoff=Backoff(attempts=50),
            clock=lambda: float(NOW_S),
            monotonic_s=lambda: 0.0,
            rng=world.rng,
            faults=NoFaults(),
            pause=self.paused,
        )
        self.carrier = Carrier(ENDPOINT, self.chain, self, options)
        self.task = asyncio.create_task(self.work())

    async def work(self) -> None:
        """Read what was done, then follow the log for ever."""
        await self.confirm()
        while True:
            await self.world.moment()
            self.take()
            await self.carrier.run()

    async def paused(self, span_s: float, stirred: asyncio.Event) -> None:
        await self.world.moment()
        self.take()

    def take(self) -> None:
        for outcome in self.world.outcomes[self.noted :]:
            self.chain.note(outcome)
        self.noted = len(self.world.outcomes)
        for order, decision in enumerate(self.world.log[self.read :], self.read):
            self.chain.add(decision, order)
        self.read = len(self.world.log)

    async def confirm(self) -> bool:
        await self.world.moment()
        self.take()
        await self.world.moment()
        return True

    async def tell(self, chain: Chain, verdicts: tuple[Verdict, ...]) -> None:
        for verdict in verdicts:
            await self.world.moment()
            self.take()
            if chain.is_told(verdict):
                continue
            self.world.outcomes.append(outcome_of(verdict, "decisions.scaling", self.name, NOW_S))
            await self.world.moment()
            chain.settle(verdict)

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        await self.world.moment()
        observed = self.world.observed()
        await self.world.moment()
        return observed if self.world.chance.random() > 0.05 else Refused(retryable=True, detail="no answer")

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        request = ScaleRequest(
            spec_replicas=change.spec_replicas,
            resource_version=change.resource_version,
            decision_id=context.decision_id,
        )
        await self.world.moment()
        fate = self.world.chance.random()
        if fate < 0.05:
            return Unanswered(detail="lost on the way")
        if fate < 0.1:
            self.world.delayed.append(request)
            return Unanswered(detail="late")
        answer = self.world.change(request)
        observed = self.world.observed()
        await self.world.moment()
        if fate < 0.15:
            return Unanswered(detail="the answer was lost")
        return Applied(target=observed) if isinstance(answer, Accepted) else Conflict(detail="another version")

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        return Marked()
