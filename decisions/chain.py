"""Hashes of what was decided and by which policy: canonical JSON (RFC 8785), SHA-256, hexadecimal digits."""

import hashlib
import math
import re
from typing import Any

import msgspec
import rfc8785

from records.decisions import ScalingDecision
from records.policy import EndpointPolicy

SIGNIFICANT_DIGITS = 9
"""Numbers that were computed are hashed with this many digits (contract.md, "Canonical JSON")."""

_sorted_json = msgspec.json.Encoder(order="sorted")
_WRITTEN_ALIKE = frozenset({str, bool, type(None)})
_WHOLE_FLOAT = re.compile(rb'":(?<!\\":)-?\d+\.0(?=[,}])')
"""A whole float as a field's value. In a string a quote follows a backslash, so no text can look like one."""
_WHOLE = 1e9
"""A whole number below it has 9 digits at most."""


def rounded(value: float) -> float:
    """Give `value` with 9 significant digits; raise ValueError for NaN and the infinities."""
    if not math.isfinite(value):
        raise ValueError(f"cannot be hashed, not a finite number: {value}")
    if abs(value) < _WHOLE and value == int(value):
        return float(value)
    return float(f"{value:.9g}")


def canonical_json(value: Any) -> bytes:
    """Encode a record, or plain JSON values, by RFC 8785 with nulls present; raise ValueError where it has no form.

    A decision is encoded every tick: records of plain fields go through msgspec's encoder, which differs from
    RFC 8785 in the numbers alone; all else goes through the rfc8785 library.
    """
    if isinstance(value, msgspec.Struct) and _is_plain(value):
        return _WHOLE_FLOAT.sub(_as_integer, _sorted_json.encode(value))
    return rfc8785.dumps(msgspec.to_builtins(value))


def _as_integer(found: re.Match[bytes]) -> bytes:
    return found[0].removesuffix(b".0")


def decision_id(decision: ScalingDecision) -> str:
    """Give the SHA-256 of the decision's canonical JSON without its `decision_id`, whatever that is now."""
    nameless = msgspec.structs.replace(decision, decision_id="") if decision.decision_id else decision
    return hashlib.sha256(canonical_json(nameless).replace(b'"decision_id":"",', b"", 1)).hexdigest()


def policy_hash(policy: EndpointPolicy) -> str:
    """Give the SHA-256 of the policy with every default and the model's coefficients filled in."""
    return hashlib.sha256(canonical_json(policy)).hexdigest()


def _is_plain(record: msgspec.Struct) -> bool:
    """Tell whether msgspec writes this record as RFC 8785 does, whole floats apart."""
    for value in msgspec.structs.astuple(record):
        kind = type(value)
        if kind in _WRITTEN_ALIKE:
            continue
        if kind is float:
            size = abs(value)
            if not (1e-5 <= size < 1e15 or (size == 0 and math.copysign(1, value) > 0)):
                return False
        elif kind is int:
            if not -(2**53) < value < 2**53:
                return False
        elif kind is tuple:
            for item in value:
                if not (isinstance(item, msgspec.Struct) and _is_plain(item)):
                    return False
        elif isinstance(value, msgspec.Struct):
            if not _is_plain(value):
                return False
        elif not isinstance(value, str):
            return False
    return True
