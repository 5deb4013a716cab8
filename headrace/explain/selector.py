"""Which decision is asked for, and what is said where there is none."""

from collections.abc import Collection
from datetime import UTC, datetime

import msgspec

from headrace.nearest import nearest

NAMES_SHOWN = 10


class DecisionSelector(msgspec.Struct, frozen=True, kw_only=True):
    """The newest decision of `endpoint` up to `at_s` (null: of all), or the one whose id begins with `decision_id`."""

    endpoint: str
    at_s: int | None = None
    decision_id: str | None = None


class NoDecisionError(Exception):
    """There is no such decision; the message says what there is."""


def unknown_endpoint(endpoint: str, known: Collection[str], where: str, what: str = "decision") -> NoDecisionError:
    """Names what was probably meant, else some that there are. `what` is looked for of each."""
    if not known:
        return NoDecisionError(f"{where} hold no {what} of any endpoint")
    near = nearest(endpoint, known)
    if near is not None:
        return NoDecisionError(f"{where} hold no {what} of {endpoint} (did you mean {near}?)")
    names = sorted(known)
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return NoDecisionError(f"{where} hold no {what} of {endpoint}; they do of {', '.join(names[:NAMES_SHOWN])}{more}")


def none_before(wanted: DecisionSelector, first_s: int, last_s: int, where: str) -> NoDecisionError:
    """Says from when to when there are some."""
    range_text = f"the first is of {_utc(first_s)}, the last of {_utc(last_s)}"
    if wanted.decision_id is not None:
        return NoDecisionError(
            f"{where} hold no decision of {wanted.endpoint} whose id begins with {wanted.decision_id}; {range_text}"
        )
    before = "" if wanted.at_s is None else f" up to {_utc(wanted.at_s)}"
    return NoDecisionError(f"{where} hold no decision of {wanted.endpoint}{before}; {range_text}")


def ambiguous(wanted: DecisionSelector, ids: Collection[str]) -> NoDecisionError:
    """A beginning that several ids share."""
    found = ", ".join(sorted(ids)[:NAMES_SHOWN])
    return NoDecisionError(f"several ids of {wanted.endpoint} begin with {wanted.decision_id}: {found}")


def _utc(at_s: int) -> str:
    return f"{at_s} ({datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC)"
