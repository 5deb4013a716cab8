"""Who speaks in a batch of samples: each identity once, and which of them every sample has.

An agent sends the same replicas in the same order, second after second. So what follows from the names alone is kept
with them, and whoever meets the same names again is given the same object.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from records.enums import Source

SeriesIdentity = tuple[str, str, str, str, str | None]
"""endpoint, replica, epoch, source, reporter; a reporter of None is the replica itself."""

IDENTITY_FIELDS = ("endpoint", "replica", "epoch", "source", "reporter")
ROWS_KNOWN_MAX = 16_384
"""Most rows of all batches whose identities are remembered together, at some 300 bytes each: as many as the largest
frame has. An agent's frames to one partition are one or, where they hold several seconds, a few."""


def names_nobody(identity: SeriesIdentity) -> bool:
    """Whether an engine's samples name no replica: they say nothing that could be used."""
    return not identity[1] and identity[3] == Source.ENGINE


@dataclass(frozen=True, eq=False)
class EndpointRows:
    """Samples grouped by endpoint: `order` int64 (n,), and where in it each of `codes` (k,) starts; `last` int64 (k,)
    is each one's last sample."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    codes: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, endpoint_code: NDArray[np.int32] | NDArray[np.int64]) -> "EndpointRows":
        """`endpoint_code` (n,): each sample's endpoint."""
        order = np.argsort(endpoint_code, kind="stable")
        grouped = endpoint_code[order].astype(np.int64)
        starts = np.flatnonzero(np.diff(grouped, prepend=-1))
        ends = np.append(starts[1:], len(order))
        return cls(order, starts, grouped[starts], order[ends - 1])


@dataclass(frozen=True, eq=False)
class Identities:
    """`series` holds each identity once, in the order of its first sample; `code` int32 (n,) points into it."""

    series: tuple[SeriesIdentity, ...]
    code: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.code)

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        """Each endpoint once, in the order of its first sample's series."""
        return tuple(dict.fromkeys(identity[0] for identity in self.series))

    @cached_property
    def endpoint_code(self) -> NDArray[np.int32]:
        """int32 (n,): each sample's place in `endpoints`."""
        code = {endpoint: index for index, endpoint in enumerate(self.endpoints)}
        of_series = np.fromiter((code[identity[0]] for identity in self.series), np.int32, len(self.series))
        return of_series[self.code]

    @cached_property
    def names_nobody(self) -> NDArray[np.bool_]:
        """bool (series,): see `names_nobody`."""
        return np.fromiter(map(names_nobody, self.series), np.bool_, len(self.series))

    @cached_property
    def by_endpoint(self) -> "EndpointRows":
        return EndpointRows.of(self.endpoint_code)

    @cached_property
    def all_rows(self) -> NDArray[np.int64]:
        """int64 (n,): 0 to n - 1. What is given it takes all samples, and may know it by that."""
        return np.arange(len(self.code))

    def take(self, rows: NDArray[np.int64]) -> "Identities":
        """The samples at `rows`; `series` stays as it is."""
        return self if rows is self.all_rows else Identities(self.series, self.code[rows])

    @classmethod
    def of(cls, identities: Iterable[SeriesIdentity]) -> "Identities":
        """Those of samples, in their order."""
        places: dict[SeriesIdentity, int] = {}
        code = [places.setdefault(identity, len(places)) for identity in identities]
        return cls(tuple(places), np.array(code, np.int32))

    @classmethod
    def of_frame(cls, batch: pa.RecordBatch) -> "Identities":
        """Those of a decoded frame's rows. Raises KeyError where a column of IDENTITY_FIELDS is missing."""
        combined, size = np.zeros(batch.num_rows, np.int64), 1
        codes: list[NDArray[np.int64]] = []
        names: list[list[str | None]] = []
        for column in map(batch.column, IDENTITY_FIELDS):
            encoded = _encoded(column)
            names.append([*encoded.dictionary.to_pylist(), None])
            codes.append(encoded.indices.fill_null(len(encoded.dictionary)).to_numpy().astype(np.int64))
            if size * len(names[-1]) > 2**62:
                combined = np.unique(combined, return_inverse=True)[1]
                size = batch.num_rows
            combined = combined * len(names[-1]) + codes[-1]
            size *= len(names[-1])
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        first = first[order]
        parts = [[own[code] for code in column[first].tolist()] for own, column in zip(names, codes, strict=True)]
        # A dictionary may hold one text twice.
        distinct = cls.of(zip(*parts, strict=True))
        return cls(distinct.series, distinct.code[place[inverse]])


class KnownIdentities:
    """The identities of the frames that came last, known by the bytes of their columns."""

    def __init__(self) -> None:
        self._by_bytes: dict[bytes, Identities] = {}
        self._rows = 0
        self._by_layout: WeakKeyDictionary[object, Identities] = WeakKeyDictionary()

    def of_layout(self, layout: object, batch: Callable[[], pa.RecordBatch]) -> Identities:
        """Those of a frame's layout: frames that share it have the same. `batch` decodes one of them, if need be."""
        found = self._by_layout.get(layout)
        if found is None:
            found = self._by_layout[layout] = self.of(batch())
        return found

    def of(self, batch: pa.RecordBatch) -> Identities:
        """The same object for the same names in the same rows, as long as it is remembered."""
        key = b"".join(_bytes_of(_encoded(batch.column(name))) for name in IDENTITY_FIELDS)
        found = self._by_bytes.pop(key, None)
        if found is None:
            found = Identities.of_frame(batch)
            self._rows += len(found)
        self._by_bytes[key] = found
        while self._rows > ROWS_KNOWN_MAX:
            self._rows -= len(self._by_bytes.pop(next(iter(self._by_bytes))))
        return found


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _bytes_of(column: pa.DictionaryArray) -> bytes:
    """All that tells the column's values: where each row's text is, and the texts. Each part begins with its length."""
    indices = column.indices.fill_null(-1) if column.null_count else column.indices
    texts = column.dictionary.cast(pa.string())
    _, edges, data = texts.buffers()
    parts = [indices.to_numpy().astype(np.int32, copy=False).tobytes()]
    if len(texts):
        ends = np.frombuffer(edges, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        parts += [(ends - ends[0]).tobytes(), b"" if data is None else data[ends[0] : ends[-1]].to_pybytes()]
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)
