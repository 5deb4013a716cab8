"""What a schedule of a policy may say: zones, days and hours that exist."""

import zoneinfo
from collections.abc import Iterator
from functools import cache

from headrace.nearest import nearest
from headrace.policies.problems import KeyPath
from headrace.policies.rules import Finding
from records.policy import EndpointPolicy

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ALLOWED_DAYS = "a comma list of mon, tue, wed, thu, fri, sat, sun and ranges such as mon-fri"


def schedule_findings(policy: EndpointPolicy) -> Iterator[Finding]:
    """All that is wrong with the policy's schedules."""
    for index, schedule in enumerate(policy.schedules):
        path: KeyPath = ("schedules", index)
        if schedule.zone not in _zones():
            near = nearest(schedule.zone, _zones())
            hint = f"did you mean {near}?" if near else ""
            yield Finding((*path, "zone"), schedule.zone, "a name of the IANA time zones, such as Europe/Berlin", hint)
        for word in _unknown_days(schedule.days):
            near = nearest(word, DAYS)
            yield Finding(
                (*path, "days"), schedule.days, _ALLOWED_DAYS, f"{word!r}: did you mean {near}?" if near else ""
            )
        if schedule.from_ == schedule.to:
            yield Finding((*path, "to"), schedule.to, "another time than from", "a whole day: 00:00 to 23:59")
        if schedule.min > policy.max_replicas:
            allowed = f"0 to maxReplicas, {policy.max_replicas}"
            yield Finding((*path, "min"), schedule.min, allowed, involved=(("maxReplicas",),))


def _unknown_days(days: str) -> list[str]:
    """The words that are no day; a piece that is no range either is one word."""
    unknown = []
    for piece in (part.strip() for part in days.split(",")):
        words = piece.split("-")
        unknown += [piece] if len(words) > 2 else [word for word in words if word not in DAYS]
    return unknown


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
