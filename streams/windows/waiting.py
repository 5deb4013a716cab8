"""Samples of seconds that are still beyond an endpoint's span: they wait until its floor has come nearer."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.windows.columns import SampleColumns

Rows = NDArray[np.int64]


class Place(NamedTuple):
    """A waiting sample: where it is among the samples that came with it."""

    seq: int
    columns: SampleColumns
    position: int


class WaitingSamples:
    """One sample for each series row and second, by endpoint."""

    def __init__(self) -> None:
        self._places: dict[str, dict[tuple[int, int], Place]] = {}

    def __bool__(self) -> bool:
        """Whether any waits."""
        return bool(self._places)

    def put(self, columns: SampleColumns, rows: Rows) -> tuple[int, int]:
        """Keep these samples, whose series rows are `rows` (n,); how many were new, and how many replaced one of their
        identity with an earlier seq."""
        new = newer = 0
        endpoints = [columns.endpoints[code] for code in columns.endpoint_code.tolist()]
        identities = zip(endpoints, rows.tolist(), columns.at_s.tolist(), columns.seq.tolist(), strict=True)
        for index, (endpoint, row, at_s, seq) in enumerate(identities):
            places = self._places.setdefault(endpoint, {})
            rival = places.get((row, at_s))
            if rival is None or seq > rival.seq:
                new += rival is None
                newer += rival is not None
                places[row, at_s] = Place(seq, columns, index)
        return new, newer

    def take(self, endpoint: str, before_s: int) -> list[tuple[SampleColumns, Rows, Rows]]:
        """Hand over the samples whose second is before `before_s`: (samples, which of them, their series rows)."""
        places = self._places.get(endpoint)
        if not places:
            return []
        together: dict[int, tuple[SampleColumns, list[int], list[int]]] = {}
        for identity in [identity for identity in places if identity[1] < before_s]:
            place = places.pop(identity)
            _, indices, rows = together.setdefault(id(place.columns), (place.columns, [], []))
            indices.append(place.position)
            rows.append(identity[0])
        if not places:
            del self._places[endpoint]
        return [
            (columns, np.array(indices)[order], np.array(rows)[order])
            for columns, indices, rows in together.values()
            for order in (np.argsort(indices),)
        ]

    def forget(self, endpoint: str) -> None:
        self._places.pop(endpoint, None)
