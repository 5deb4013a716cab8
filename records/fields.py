"""Value types shared by the records: their unit is in the field's name, their range is here."""

from typing import Annotated

from msgspec import Meta

COUNT_MAX = 2**32 - 2
"""Largest count of one second: windows keep counts as 32-bit unsigned integers, and the largest one marks unknown."""

SECOND_MAX = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second that Delta's timestamps and Python's datetime can both hold."""

TICK_S = 5
"""Decisions are made every 5 s of event time, and cycles are multiples of it (decisions.md, "Ticks and windows")."""

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0, le=1e15)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Second = Annotated[int, Meta(ge=0, le=SECOND_MAX)]
Millisecond = Annotated[int, Meta(ge=0, le=SECOND_MAX * 1000 + 999)]
Instant = Annotated[float, Meta(ge=0, le=SECOND_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Label = Annotated[str, Meta(max_length=253)]
"""A name that may be empty (a router's sample has `replica: ""`)."""
Text = Annotated[str, Meta(max_length=4096)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
"""A SHA-256 in lower-case hexadecimal digits."""
