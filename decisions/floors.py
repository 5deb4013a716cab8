"""Step 6: floors, then the maximum. They hold always and are applied last."""

import msgspec

from decisions.proposals import whole_replicas
from decisions.steps import Step
from records.decisions import Floors
from records.enums import ScalingBound, ScalingReason
from records.policy import EndpointPolicy


def floors_of(policy: EndpointPolicy, current: int) -> Floors:
    """Give the least replicas by each reason; a fleet above zero keeps at least one."""
    least = policy.min_replicas if current == 0 else max(1, policy.min_replicas)
    provisioned: int | None = None
    if policy.provisioned_concurrency:
        provisioned = whole_replicas(policy.provisioned_concurrency / policy.concurrency.target)
    return Floors(minimum=least, provisioned=provisioned)


def apply_floors(step: Step, floors: Floors, maximum: int, current: int) -> Step:
    """Raise to each floor, then cut to the maximum, which wins.

    The bound is the last that changed the number. The reason becomes a bound's where that decides: the floor that
    raised it, or the maximum where it turns the direction; a step that is merely shortened keeps its own.
    """
    desired, bound, raised = step.desired, step.bound, None
    for floor, name in ((floors.provisioned, ScalingBound.PROVISIONED), (floors.minimum, ScalingBound.MINIMUM)):
        if floor is not None and desired < floor:
            desired = floor
            bound = raised = name
    if desired > maximum:
        desired, bound = maximum, ScalingBound.MAXIMUM
    if desired == step.desired or bound is None:
        return step
    if current < desired < step.desired or step.desired < desired < current:
        return msgspec.structs.replace(step, desired=desired, bound=bound)
    decided = raised if raised is not None and desired > step.desired else bound
    limit = "most" if bound is ScalingBound.MAXIMUM else "least"
    return Step(
        desired=desired,
        reason=ScalingReason(decided.value),
        bound=bound,
        because=f"{bound.value} of {desired} is the {limit} there may be; {step.because}",
    )
