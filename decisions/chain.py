"""Hashes of what was decided and by which policy: canonical JSON (RFC 8785), SHA-256, hexadecimal digits."""

import hashlib
import math
from typing import Any

import msgspec
import rfc8785

from records.decisions import ScalingDecision
from records.policy import EndpointPolicy

SIGNIFICANT_DIGITS = 9
"""Numbers that were computed are hashed with this many digits (contract.md, "Canonical JSON")."""

_sorted_json = msgspec.json.Encoder(order="sorted")
_WRITTEN_FROM = 1e-5
_WRITTEN_TO = 1e15
"""Numbers between these are written alike by msgspec and RFC 8785, whole ones as integers."""
_WHOLE = 1e9
"""A whole number below it has 9 digits at most."""


def rounded(value: float) -> float:
    """Give `value` with 9 significant digits; raise ValueError for NaN and the infinities."""
    if -_WHOLE < value < _WHOLE:
        return float(value) if value == int(value) else float(f"{value:.9g}")
    if not math.isfinite(value):
        raise ValueError(f"cannot be hashed, not a finite number: {value}")
    return float(f"{value:.9g}")


def canonical_json(value: Any) -> bytes:
    """Encode a record, or plain JSON values, by RFC 8785 with nulls present; raise ValueError where it has no form.

    A decision is encoded every tick, and goes through msgspec's encoder, which differs from RFC 8785 in some numbers
    alone; all else goes through the rfc8785 library.
    """
    if isinstance(value, ScalingDecision):
        encoded = _encode_decision(value)
        if encoded is not None:
            return encoded
    return rfc8785.dumps(msgspec.to_builtins(value))


class _HashedCandidate(msgspec.Struct, gc=False):
    """A Candidate whose numbers msgspec writes as RFC 8785 does."""

    coverage: float
    metric: str
    observed: float | None
    percentile: str | None
    proposed: int | None
    rejected_because: str | None
    state: str
    target: float | None
    window_s: int


def _encode_decision(decision: ScalingDecision) -> bytes | None:
    """Give the canonical JSON, null where a number is one that only the library writes right."""
    try:
        candidates = [
            _HashedCandidate(
                _number(one.coverage),
                one.metric,
                None if one.observed is None else _number(one.observed),
                one.percentile,
                one.proposed,
                one.rejected_because,
                one.state,
                None if one.target is None else _number(one.target),
                one.window_s,
            )
            for one in decision.candidates
        ]
        deadline_s = decision.drain_deadline_s
        changes: dict[str, Any] = {"candidates": candidates, "at_s": int(_number(decision.at_s))}
        if deadline_s is not None:
            changes["drain_deadline_s"] = _number(deadline_s)
        if decision.victims:
            changes["victims"] = [
                one if one.inflight is None else msgspec.structs.replace(one, inflight=_number(one.inflight))
                for one in decision.victims
            ]
    except _OddNumberError:
        return None
    return _sorted_json.encode(msgspec.structs.replace(decision, **changes))


class _OddNumberError(Exception):
    """A number that msgspec and RFC 8785 write otherwise, or that has no form at all."""


def _number(value: float) -> float:
    if -_WRITTEN_TO < value < _WRITTEN_TO:
        whole = int(value)
        if whole == value:
            return whole
        if value > _WRITTEN_FROM or value < -_WRITTEN_FROM:
            return value
    raise _OddNumberError


def decision_id(decision: ScalingDecision) -> str:
    """Give the SHA-256 of the decision's canonical JSON without its `decision_id`, whatever that is now."""
    nameless = msgspec.structs.replace(decision, decision_id="") if decision.decision_id else decision
    return hashlib.sha256(canonical_json(nameless).replace(b'"decision_id":"",', b"", 1)).hexdigest()


def policy_hash(policy: EndpointPolicy) -> str:
    """Give the SHA-256 of the policy with every default and the model's coefficients filled in."""
    return hashlib.sha256(canonical_json(policy)).hexdigest()
