"""What can be made to go wrong, and what each of it needs."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from records.fields import Fraction, Label, Name
from simulation.reporting_faults import ReportFaultKind
from simulation.scale_target import DecisionId


class FaultKind(StrEnum):
    """The first four are of one replica that serves; the fifth of the endpoint, the last three of its reports."""

    HANG = "hang"
    DIE = "die"
    SLOW = "slow"
    RESUME = "resume"
    FAIL_STARTS = "fail_starts"
    REPORTS_GAP = "reports_gap"
    REPORTS_LATE = "reports_late"
    REPORTS_DUPLICATE = "reports_duplicate"


OF_ONE_REPLICA = (FaultKind.HANG, FaultKind.DIE, FaultKind.SLOW, FaultKind.RESUME)
OF_REPORTS = {
    FaultKind.REPORTS_GAP: ReportFaultKind.GAP,
    FaultKind.REPORTS_LATE: ReportFaultKind.LATE,
    FaultKind.REPORTS_DUPLICATE: ReportFaultKind.DUPLICATE,
}


class FaultRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault to bring about, from the next second on.

    `factor` says how many times slower `slow` makes a replica; `count` how many of the next starts fail; `seconds` how
    long reports are left out, late or told again, `delay_s` how late, and `share` how many of them. `replica` null
    means the reports of all, the gateway's too.
    """

    kind: FaultKind
    replica: Name | None = None
    factor: Annotated[float, Meta(ge=1, le=1000)] = 4.0
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 30
    delay_s: Annotated[int, Meta(ge=1, le=600)] = 5
    share: Fraction = 1.0
    decision_id: DecisionId | None = None
    actuator: Label | None = None
