"""When a certificate ends, read from its PEM file: a broker that refuses one does not say why."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

_SEQUENCE, _UTC_TIME, _VERSION = 0x30, 0x17, 0xA0
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def end_of(path: str) -> str | None:
    """When the first certificate of a PEM file ends, ISO 8601; null where that cannot be read."""
    try:
        text = Path(path).read_text(encoding="ascii", errors="replace")
        first = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
        return _not_after(ssl.PEM_cert_to_DER_cert(first)).isoformat()
    except (OSError, ValueError, IndexError):
        return None


def _not_after(der: bytes) -> datetime:
    """Of X.509 (RFC 5280): version, serial, algorithm, issuer and then the two times."""
    certificate = _inside(der, 0)
    fields = _inside(der, certificate)
    if der[fields] == _VERSION:
        fields = _behind(der, fields)
    for _ in ("serial", "algorithm", "issuer"):
        fields = _behind(der, fields)
    not_after = _behind(der, _inside(der, fields))
    text = der[_inside(der, not_after) : _behind(der, not_after)].decode("ascii")
    if der[not_after] == _UTC_TIME:
        text = f"{'19' if text >= '5' else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _length(der: bytes, place: int) -> tuple[int, int]:
    """Where the content of the element at `place` begins, and its length."""
    short = der[place + 1]
    if short < 0x80:
        return place + 2, short
    more = short & 0x7F
    return place + 2 + more, int.from_bytes(der[place + 2 : place + 2 + more], "big")


def _inside(der: bytes, place: int) -> int:
    return _length(der, place)[0]


def _behind(der: bytes, place: int) -> int:
    begin, length = _length(der, place)
    return begin + length
