"""What an engine answered to one GET, whether just now or in a recording."""

from dataclasses import dataclass
from enum import StrEnum


class Path(StrEnum):
    """What an engine is asked for."""

    METRICS = "/metrics"
    HEALTH = "/health"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer that was there at `at_s` (UNIX seconds), or the failure to get one.

    `code` is the HTTP status; None where there was no whole answer, and then `failure` says why in a word. `body` is
    kept for `/metrics` alone. `process_mark` is any text that changes when the engine's process does, None where the
    engine gives none.
    """

    at_s: float
    path: Path
    code: int | None = None
    failure: str | None = None
    body: str = ""
    process_mark: str | None = None
