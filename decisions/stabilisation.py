"""Step 5: the largest recommendation of the down window, kept as a queue of falling maxima."""

from records.scaling_memory import Recommendation


def remember(
    kept: tuple[Recommendation, ...], at_s: int, replicas: int | None, window_s: int
) -> tuple[Recommendation, ...]:
    """Add one tick's recommendation (null: there was none) and drop those that no longer count.

    Counted are ticks of `(at_s - window_s, at_s]`. An older recommendation that is not larger than a newer one can
    never again be the largest, so the queue falls strictly and its first is the window's largest.
    """
    last = [item for item in kept if item.at_s > at_s - window_s]
    if replicas is not None:
        while last and last[-1].replicas <= replicas:
            last.pop()
        last.append(Recommendation(at_s=at_s, replicas=replicas))
    return tuple(last)


def covers(evidence_from_s: int | None, at_s: int, window_s: int, tick_s: int) -> bool:
    """Tell whether every tick of `(at_s - window_s, at_s]` was decided on evidence."""
    return evidence_from_s is not None and evidence_from_s <= at_s - window_s + tick_s
