"""OpenTelemetry's variables, checked when a process starts: its library passes over what it cannot use."""

import math
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from headrace.tls_files import why_no_authority, why_unread
from wire.web_logins import without_logins

ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOL = "http/protobuf"
COMPRESSIONS = ("none", "gzip", "deflate")

Check = Callable[[str], str | None]
"""What is wrong with a value, and shown after it; null where nothing is."""


def otlp_problems(environment: Mapping[str, str]) -> list[str]:
    """One line for each variable that cannot be followed: its name, its value, what is allowed or missing."""
    return list(_problems(environment))


def _problems(environment: Mapping[str, str]) -> Iterator[str]:
    for name, check in _CHECKS.items():
        value = environment.get(name, "")
        if value and (told := check(value)):
            yield f"{name}: {without_logins(repr(value))}{told}"


def _address(value: str) -> str | None:
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    return None if is_good else ", allowed: http://HOST:PORT or https://HOST:PORT"


def _protocol(value: str) -> str | None:
    return None if value == PROTOCOL else f", allowed: {PROTOCOL}"


def _compression(value: str) -> str | None:
    return None if value.strip().lower() in COMPRESSIONS else f", allowed: {', '.join(COMPRESSIONS)}"


def _time(unit: str) -> Check:
    def check(value: str) -> str | None:
        try:
            is_good = 0 < float(value) < math.inf
        except ValueError:
            is_good = False
        return None if is_good else f", allowed: {unit} above 0"

    return check


def _file(value: str) -> str | None:
    unread = why_unread(value)
    return f": {unread}" if unread else None


def _authority(value: str) -> str | None:
    told = why_unread(value) or why_no_authority(value)
    return f": {told}" if told else None


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(ENDPOINTS, _address),
    "OTEL_METRIC_EXPORT_INTERVAL": _time("milliseconds"),
    "OTEL_METRIC_EXPORT_TIMEOUT": _time("milliseconds"),
    **{
        f"OTEL_EXPORTER_OTLP_{metrics}{name}": check
        for name, check in {
            "PROTOCOL": _protocol,
            "COMPRESSION": _compression,
            "TIMEOUT": _time("seconds"),
            "CERTIFICATE": _authority,
            "CLIENT_CERTIFICATE": _file,
            "CLIENT_KEY": _file,
        }.items()
        for metrics in ("METRICS_", "")
    },
}
