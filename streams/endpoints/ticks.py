"""When ticks are due: event time, processing time and the watermark, as whole numbers and arrays."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from records.fields import TICK_S as TICK_S

LATENESS_S = 2
"""How long a tick waits, in event time, for samples that come out of order."""
PATIENCE_S = 5
"""A tick T runs at the latest when processing time reaches T + 5 s."""
AHEAD_MAX_S = 60
"""A sample whose second ends further ahead of its receipt than this is dropped and counted."""
CATCH_UP_S = 60
"""Further behind than this, missed ticks get signals alone and the newest one a decision."""


def tick_at_or_before(time_s: float) -> int:
    """The newest tick that is not after a UNIX time."""
    return math.floor(time_s / TICK_S) * TICK_S


def first_ticks(at_s: NDArray[np.int64], received_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each record, (n,), the first tick of an endpoint whose first record it is.

    A record that was late, or says it comes from the future, starts no ticks long gone or far ahead: the tick is one
    that the record's own processing time has not made due, and soon will.
    """
    newest = np.floor((received_s - PATIENCE_S) / TICK_S).astype(np.int64) * TICK_S + TICK_S
    after = -(-(at_s + 1) // TICK_S) * TICK_S
    return np.minimum(np.maximum(after, newest), newest + AHEAD_MAX_S)


@dataclass(frozen=True, slots=True, eq=False)
class ProcessingTime:
    """Processing time along a run of rows.

    `running_s` float64 (n,): after each row was received. Before each row in `cuts` it passed a multiple of TICK_S:
    only there can a tick become due by time.
    """

    running_s: NDArray[np.float64]
    cuts: tuple[int, ...]


def processing_time(before_s: float, offsets: NDArray[np.int64], received_s: NDArray[np.float64]) -> ProcessingTime:
    """Follow processing time over a run that begins at `before_s`; offsets int64 (n,), received_s float64 (n,).

    Rows of one message (equal offsets) count with the latest `received_s` among them: it is read whole or not at all.
    """
    if len(offsets) and offsets[0] == offsets[-1]:
        latest_s = max(float(received_s.max()), before_s)
        passes = latest_s // TICK_S > before_s // TICK_S
        return ProcessingTime(np.full(len(offsets), latest_s), (0,) if passes else ())
    running_s = np.maximum.accumulate(np.maximum(_of_message(offsets, received_s), before_s))
    laps = np.floor_divide(running_s, TICK_S)
    before = np.concatenate(([np.floor_divide(before_s, TICK_S)], laps[:-1]))
    return ProcessingTime(running_s, tuple(np.flatnonzero(laps > before).tolist()))


def _of_message(offsets: NDArray[np.int64], received_s: NDArray[np.float64]) -> NDArray[np.float64]:
    starts = np.flatnonzero(np.diff(offsets, prepend=-1))
    if len(starts) == len(offsets):
        return received_s
    latest = np.maximum.reduceat(received_s, starts)
    return np.repeat(latest, np.diff(starts, append=len(offsets)))
