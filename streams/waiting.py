"""Samples of seconds that are still beyond an endpoint's span: they wait until its floor has come nearer."""

import numpy as np

from streams.columns import SampleColumns


class WaitingSamples:
    """One sample for each series row and second, by endpoint."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[tuple[int, int], tuple[int, SampleColumns]]] = {}
        """The innermost pair: seq and the sample."""

    def put(self, row: int, columns: SampleColumns, sample: int) -> int | None:
        """Keep a sample of the batch, unless one of its identity with the same or a later seq is there; the seq of the
        one that was there before, None where there was none."""
        endpoint = columns.series[columns.series_code[sample]][0]
        at_s, seq = int(columns.at_s[sample]), int(columns.seq[sample])
        waiting = self._samples.setdefault(endpoint, {})
        rival = waiting.get((row, at_s))
        if rival is None or seq > rival[0]:
            waiting[row, at_s] = seq, columns.take(np.array([sample]))
        return None if rival is None else rival[0]

    def take(self, endpoint: str, before_s: int) -> list[tuple[int, SampleColumns]]:
        """Hand over the (row, sample) whose second is before `before_s`."""
        waiting = self._samples.get(endpoint)
        if not waiting:
            return []
        due = [place for place in waiting if place[1] < before_s]
        taken = [(place[0], waiting.pop(place)[1]) for place in due]
        if not waiting:
            del self._samples[endpoint]
        return taken

    def forget(self, endpoint: str) -> None:
        self._samples.pop(endpoint, None)
