"""Chains of real decisions, for tests that are no workers."""

import msgspec

from decisions.chain import decision_id
from records.decisions import Floors, ScalingDecision, Supply, Victim
from records.enums import Mode, ScalingAction, ScalingReason


class DecisionChain:
    """One endpoint's decisions; each follows the one before."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.made: list[ScalingDecision] = []

    def next(
        self, at_s: int, current: int, desired: int, mode: Mode = Mode.ACT, victims: tuple[str, ...] = ()
    ) -> ScalingDecision:
        """Equal numbers make a hold."""
        action = ScalingAction.SCALE_UP if desired > current else ScalingAction.SCALE_DOWN
        if desired == current:
            action = ScalingAction.HOLD
        nameless = ScalingDecision(
            endpoint=self.endpoint,
            at_s=at_s,
            decision_id="0" * 64,
            previous_id=self.made[-1].decision_id if self.made else None,
            policy_hash="f" * 64,
            mode=mode,
            action=action,
            reason=ScalingReason.WITHIN_TARGET if action is ScalingAction.HOLD else ScalingReason.METRIC,
            bound=None,
            detail="",
            current=current,
            desired=desired,
            candidates=(),
            floors=Floors(minimum=1),
            supply=Supply(ready=current, starting=0, draining=0, unschedulable=0, failed=0),
            gpus=None,
            victims=tuple(Victim(replica=name, inflight=0.0, reason="least in flight") for name in victims),
            drain_deadline_s=45.0 if action is ScalingAction.SCALE_DOWN else None,
        )
        self.made.append(msgspec.structs.replace(nameless, decision_id=decision_id(nameless)))
        return self.made[-1]
