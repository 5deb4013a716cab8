"""Steps 4 and 5: how far one cycle may go up or down, and when a cycle is."""

import math

from records.policy import ScaleDown, ScaleUp


def most_after_up(limits: ScaleUp, current: int) -> int:
    """Give `max(current * maxFactor, current + maxStep)`, whole replicas."""
    return max(math.floor(current * limits.max_factor), current + limits.max_step)


def least_after_down(limits: ScaleDown, current: int) -> int:
    """Give what is left when `max(1, floor(current * maxFraction))` leave."""
    return current - max(1, math.floor(current * limits.max_fraction))


def is_cycle(at_s: int, every_s: int) -> bool:
    """Tell whether a cycle falls on this tick; cycles are whole multiples of their length in event time."""
    return at_s % every_s == 0
