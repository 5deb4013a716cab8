"""The records that an explanation speaks of, as plain JSON values: what its sentences are compared with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Records:
    """`last` has `decisions`, `outcomes` and `shown_s`; null is what the explanation was not given.

    `zone` is that of the times in the text, null: this machine's own.
    """

    decision: Record
    signal: Record | None = None
    policy: Record | None = None
    outcomes: list[Record] = field(default_factory=list)
    shown_s: int | None = None
    last: Record | None = None
    counterfactuals: list[Record] = field(default_factory=list)
    earliest_down_s: int | None = None
    zone: tzinfo | None = None

    @property
    def at_s(self) -> int:
        return int(self.decision["at_s"])

    @property
    def candidates(self) -> list[Record]:
        return list(self.decision["candidates"])

    @property
    def short_window(self) -> list[Record]:
        """Candidates of the window that goes up, which come first."""
        return [it for it in self.candidates if it["window_s"] == self.candidates[0]["window_s"]]

    def most_asked(self, candidates: list[Record] | None = None) -> int | None:
        """The largest proposal, of the short window unless others are given."""
        proposals = [it["proposed"] for it in (self.short_window if candidates is None else candidates)]
        return max((one for one in proposals if one is not None), default=None)

    def deciders(self) -> Iterator[Record]:
        yield from (it for it in self.candidates if it["rejected_because"] is None)
