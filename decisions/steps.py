"""The value that the phases of a scaling decision hand on: replicas, and why so many."""

import msgspec

from decisions.proposals import Reading
from records.enums import ScalingBound, ScalingReason


class Step(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`desired` so far, with the reason and the bound that limited it.

    `decided` is the reading whose proposal it follows, null where none does; `because` is for people.
    """

    desired: int
    reason: ScalingReason
    because: str
    bound: ScalingBound | None = None
    decided: Reading | None = None
