"""Records as JSON: one object a message. What cannot be read raises a DecodeError that names field and value."""

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

import msgspec

from records.enums import BadInput
from records.policy import EndpointPolicy
from records.policy_contradictions import contradictions, path_text
from wire.topics import TOPICS

VALUE_CHARS_MAX = 200
"""Most characters of an offending value that a DecodeError keeps."""
FIELD_CHARS_MAX = 500
DETAIL_CHARS_MAX = 500
"""Of its other texts. Senders choose these too: names of unknown fields are in paths, values in a decoder's words."""

DECODERS: Mapping[str, msgspec.json.Decoder[msgspec.Struct]] = MappingProxyType(
    {name: msgspec.json.Decoder(spec.record) for name, spec in TOPICS.items()}
)
"""A decoder for each logical topic, made once: making one costs more than a hundred messages."""

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises at bad input; RecursionError at an object nested too deeply."""

_encoder = msgspec.json.Encoder()
_PATH = re.compile(r" - at `(?:key in )?\$?(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"^Object missing required field `(?P<field>[^`]+)`")


class DecodeError(ValueError):
    """Bytes that are no record of their topic.

    `field` is the path of the offending field (`ttft_ms.bucket_counts[1]`), None where the whole is unreadable;
    `value` is its value as JSON, cut at 200 characters; `detail` says what was expected. All are sound UTF-8: a path
    from JSON's escapes may hold half of a surrogate pair, which nobody downstream could write.
    """

    def __init__(self, reason: BadInput, field: str | None = None, value: str | None = None, detail: str = "") -> None:
        self.reason = reason
        self.field = None if field is None else _sound(field[:FIELD_CHARS_MAX])
        self.value = None if value is None else _sound(value[:VALUE_CHARS_MAX])
        self.detail = _sound(detail[:DETAIL_CHARS_MAX])
        named = "" if field is None else f"{self.field}: {self.value}: "
        super().__init__(f"{named}{self.detail or reason.value} ({reason.value})")


def _sound(text: str) -> str:
    return text.encode(errors="replace").decode()


def encode(record: msgspec.Struct) -> bytes:
    """The record as one JSON object, UTF-8. A float that is not finite becomes null: unknown."""
    return _encoder.encode(record)


def decode(topic: str, value: bytes | None) -> msgspec.Struct:
    """The record in `value`, a message of the logical topic. Raises DecodeError, KeyError for an unknown topic.

    A null value is no record: where it deletes (`TopicSpec.tombstones`), the caller looks before.
    """
    read = json_reader(topic)
    if not value:
        raise DecodeError(BadInput.EMPTY, detail="the value is null" if value is None else "the value is empty")
    try:
        return read(value)
    except UNREADABLE as error:
        raise explain(value, error) from error


def decode_keyed(topic: str, key: bytes | None, value: bytes | None) -> msgspec.Struct:
    """As `decode`, of a message of a topic whose keys count. Raises DecodeError where it is not that of the record."""
    record = decode(topic, value)
    if not has_own_key(topic, key, record):
        raise foreign_key(topic, key, record)
    return record


def has_own_key(topic: str, key: bytes | None, record: msgspec.Struct) -> bool:
    """Whether a message's key is what its record, of the logical topic, says that it is."""
    named: str = getattr(record, TOPICS[topic].key)
    return key == named.encode()


def foreign_key(topic: str, key: bytes | None, record: msgspec.Struct) -> DecodeError:
    """What is wrong with a record under another key than its own: compaction would remove it, or another one for it."""
    name = TOPICS[topic].key
    shown = "null" if key is None else repr(key[:VALUE_CHARS_MAX].decode(errors="replace"))
    detail = f"Expected the message's key, which is {shown}"
    return DecodeError(BadInput.INVALID, name, msgspec.json.encode(getattr(record, name)).decode(), detail)


def json_reader(topic: str) -> Callable[[bytes], msgspec.Struct]:
    """What makes a record of a message's value, raising one of UNREADABLE. KeyError for an unknown topic.

    A policy may contradict itself though each of its values is good; whoever published it past
    `headrace policy apply` was not told.
    """
    return _read_policy if topic == "policies" else DECODERS[topic].decode


def _read_policy(value: bytes) -> msgspec.Struct:
    policy = DECODERS["policies"].decode(value)
    if isinstance(policy, EndpointPolicy):
        for found in contradictions(policy):
            raise msgspec.ValidationError(f"Expected {found.allowed} - at `$.{path_text(found.path)}`")
    return policy


def explain(value: bytes, error: Exception) -> DecodeError:
    """Names field, value and reason of what one of the DECODERS raised at `value`."""
    if isinstance(error, RecursionError):
        return DecodeError(BadInput.MALFORMED, detail="nested too deeply")
    if not isinstance(error, msgspec.ValidationError):
        return _explain_malformed(value, error)
    text = str(error)
    located = _PATH.search(text)
    path = located["path"] if located else ""
    detail = text[: located.start()] if located else text
    missing = _MISSING.match(detail)
    if missing:
        return DecodeError(BadInput.MISSING_FIELD, f"{path}.{missing['field']}".lstrip("."), None, detail)
    field = path.lstrip(".") or None
    return DecodeError(_reason(detail), field, _value_at(value, path), detail)


def _reason(detail: str) -> BadInput:
    if detail.startswith("Expected") and ", got" in detail:
        return BadInput.WRONG_TYPE
    if detail.startswith("Expected") or detail == "Number out of range":
        return BadInput.OUT_OF_RANGE
    return BadInput.INVALID


def _value_at(value: bytes, path: str) -> str | None:
    """The value at a path of msgspec (`.ttft_ms.bucket_counts[1]`); None where the path names no single place.

    The rest of the message may be malformed, or say a key twice, so that the path leads elsewhere.
    """
    try:
        found: Any = msgspec.json.decode(value)
        for name, index in _STEP.findall(path):
            if index == "...":
                return None
            found = found[name or int(index)]
    except (*UNREADABLE, LookupError, TypeError):
        return None
    return msgspec.json.encode(found).decode()


def _explain_malformed(value: bytes, error: Exception) -> DecodeError:
    """JSON has no NaN and no infinities; writers that put them in deserve to hear which field it was."""
    try:
        not_finite = _first_not_finite(json.loads(value), "")
    except (ValueError, RecursionError):
        not_finite = None
    if not_finite is not None:
        field, number = not_finite
        return DecodeError(BadInput.NOT_FINITE, field, str(number), "Expected a finite number")
    return DecodeError(BadInput.MALFORMED, None, value[:VALUE_CHARS_MAX].decode(errors="replace"), str(error))


def _first_not_finite(found: Any, path: str) -> tuple[str, float] | None:
    if isinstance(found, float) and not isfinite(found):
        return path, found
    items: list[tuple[str, Any]] = []
    if isinstance(found, dict):
        items = [(f"{path}.{name}".lstrip("."), inner) for name, inner in found.items()]
    elif isinstance(found, list):
        items = [(f"{path}[{index}]", inner) for index, inner in enumerate(found)]
    for inner_path, inner in items:
        located = _first_not_finite(inner, inner_path)
        if located is not None:
            return located
    return None
