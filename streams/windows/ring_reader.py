"""Reading a set of series over a stretch of seconds: matrices of shape (series, seconds) out of the rings."""

import numpy as np
from numpy.typing import NDArray

from streams.windows.columns import COUNT_FIELDS, FIELD_INDEX, GAUGE_FIELDS
from streams.windows.rings import UNKNOWN_COUNT, BucketRings
from streams.windows.stretch import Mask, Matrix, Rows, Stretch


class RingReader:
    """Reads the series at `rows` (k,), in that order."""

    def __init__(self, rows: Rows, buckets: BucketRings) -> None:
        self.rows = rows
        self._parts = buckets.parts_of(rows)

    def heard(self, stretch: Stretch) -> Mask:
        """bool (k, seconds): whether there is a sample."""
        out = np.zeros((len(self.rows), len(stretch)), np.bool_)
        for where, chunk, local in self._parts:
            laps = chunk["lap"]
            for piece in stretch.pieces:
                out[where, piece.columns] = laps[local, piece.slots] == piece.lap
        return out

    def scalars(self, stretch: Stretch) -> NDArray[np.float64]:
        """float64 (fields, k, seconds), as `scalar` by FIELD_INDEX: cheaper than one by one over a few seconds."""
        n_counts, n_gauges = len(COUNT_FIELDS), len(GAUGE_FIELDS)
        out = np.zeros((n_counts + n_gauges + 1, len(self.rows), len(stretch)))
        for where, chunk, local in self._parts:
            for piece in stretch.pieces:
                read = chunk[local, piece.slots]
                out[:n_counts, where, piece.columns] = read["counts"].transpose(2, 0, 1)
                out[n_counts:-1, where, piece.columns] = read["gauges"].transpose(2, 0, 1)
                out[-1, where, piece.columns] = read["streamed"]
        counts = out[:n_counts]
        counts[counts == float(UNKNOWN_COUNT)] = np.nan
        return out

    def scalar(self, name: str, stretch: Stretch) -> Matrix:
        """float64 (k, seconds), NaN = unknown; what no sample was heard for is left over from other seconds."""
        index = FIELD_INDEX[name]
        out = np.zeros((len(self.rows), len(stretch)))
        for where, chunk, local in self._parts:
            if index < len(COUNT_FIELDS):
                stored = chunk["counts"][:, :, index]
            elif index < len(COUNT_FIELDS) + len(GAUGE_FIELDS):
                stored = chunk["gauges"][:, :, index - len(COUNT_FIELDS)]
            else:
                stored = chunk["streamed"]
            for piece in stretch.pieces:
                out[where, piece.columns] = stored[local, piece.slots]
        if index < len(COUNT_FIELDS):
            np.putmask(out, out == float(UNKNOWN_COUNT), np.nan)
        return out
