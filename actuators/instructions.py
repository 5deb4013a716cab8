"""What an actuator needs to know of a decision."""

import msgspec

from records.decisions import ScalingDecision
from records.enums import Mode, ScalingAction


class Instruction(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that is no hold. `order` rises along the chain: the offset in the decision's partition.

    `read_s` is when it was read, monotonic seconds.
    """

    decision_id: str
    endpoint: str
    at_s: int
    mode: Mode
    current: int
    desired: int
    order: int
    read_s: float = 0.0
    victims: tuple[str, ...] = ()
    drain_deadline_s: float | None = None

    @property
    def short_id(self) -> str:
        """Enough of the id for people."""
        return self.decision_id[:12]


def instruction_of(decision: ScalingDecision, order: int, read_s: float = 0.0) -> Instruction | None:
    """None for a hold: there is nothing to do, and it supersedes nothing."""
    if decision.action is ScalingAction.HOLD:
        return None
    return Instruction(
        decision_id=decision.decision_id,
        endpoint=decision.endpoint,
        at_s=decision.at_s,
        mode=decision.mode,
        current=decision.current,
        desired=decision.desired,
        order=order,
        read_s=read_s,
        victims=tuple(victim.replica for victim in decision.victims),
        drain_deadline_s=decision.drain_deadline_s,
    )
