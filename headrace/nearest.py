"""What somebody probably meant."""

import difflib
from collections.abc import Iterable

NEAR = 0.6
"""Of difflib's ratio, 0 to 1: its own default."""


def nearest(word: str, known: Iterable[str], least: float = NEAR) -> str | None:
    """The known word nearest to `word`, whatever its case; None where no ratio is `least` or more."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=least)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean NAME?)`, or what is known where nothing is near."""
    known = sorted(known)
    near = nearest(word, known)
    return f" (did you mean {near}?)" if near else f" (known: {', '.join(known)})"
