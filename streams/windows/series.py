"""Which series there are: one for each (endpoint, replica, epoch, source, reporter) that was heard inside the span."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from records.epoch_memory import EpochSeen
from streams.windows.epochs import EpochOrder, Speaker, speaker_of
from streams.windows.identities import SeriesIdentity

Scalar = TypeVar("Scalar", bound=np.generic)

UNATTRIBUTED = -2
"""Row of an engine's samples that name no replica."""
UNSEEN = -1
LONG_AGO_S = -(2**60)
"""Before every second that a sample can have."""
NEVER_QUIET_S = 2**60
"""After all of them."""


class SeriesKey(NamedTuple):
    """`reporter` is never None: the replica itself is meant then."""

    endpoint: str
    replica: str
    epoch: str
    source: str
    reporter: str

    @property
    def speaker(self) -> Speaker:
        return speaker_of(self.replica, self.reporter)


@dataclass(eq=False)
class Endpoint:
    """One endpoint's series; its floor is in the table's array at `code`."""

    name: str
    code: int
    rows: dict[SeriesKey, int] = field(default_factory=dict)
    epochs: EpochOrder = field(default_factory=EpochOrder)
    version: int = 0
    """Rises with each change of `rows` and `epochs`: what was derived from them holds as long as it stays."""
    quiet_s: int = LONG_AGO_S
    """No series was last heard before it: a series ends by leaving it behind."""
    _speakers: tuple[int, int] = (-1, 0)

    @property
    def speaker_count(self) -> int:
        """How many speakers the series have."""
        if self._speakers[0] != self.version:
            self._speakers = self.version, len({key.speaker for key in self.rows})
        return self._speakers[1]


class SeriesTable:
    """Rows of series and codes of endpoints, with arrays that are indexed by them."""

    def __init__(self) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.endpoint_of_row = np.zeros(1, np.int32)
        self.first_s = np.zeros(1, np.int64)
        self.last_s = np.zeros(1, np.int64)
        """By row: the earliest and the latest second that was accepted."""
        self.floor_s = np.zeros(0, np.int64)
        """By endpoint code: the oldest second that still counts."""
        self.pinned = np.zeros(0, np.bool_)
        """By endpoint code: the floor is the caller's, and does not follow the newest second."""
        self.departures = 0
        """How many series have left: what was derived from rows holds as long as it stays."""
        self._row_of: dict[SeriesIdentity, int] = {}
        self._free_codes: list[int] = []

    @property
    def nbytes(self) -> int:
        """Of the arrays; the names and the dictionaries are a few hundred bytes a series."""
        per_row = self.endpoint_of_row.nbytes + self.first_s.nbytes + self.last_s.nbytes
        return per_row + self.floor_s.nbytes + self.pinned.nbytes

    def __len__(self) -> int:
        """How many series are kept; another thread may ask."""
        return sum(len(endpoint.rows) for endpoint in list(self.endpoints.values()))

    def rows_of(self, identities: tuple[SeriesIdentity, ...]) -> NDArray[np.int64]:
        """Each identity's row, UNSEEN or UNATTRIBUTED."""
        row_of = self._row_of
        return np.array([row_of.get(identity, UNSEEN) for identity in identities], np.int64)

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of that name, made where there is none."""
        endpoint = self.endpoints.get(name)
        if endpoint is None:
            code = self._free_codes.pop() if self._free_codes else len(self.endpoints)
            if code >= len(self.floor_s):
                self._grow_endpoints(max(16, code + code // 4))
            self.floor_s[code] = LONG_AGO_S
            self.pinned[code] = False
            endpoint = self.endpoints[name] = Endpoint(name, code)
        return endpoint

    def key_of(self, identity: SeriesIdentity) -> SeriesKey:
        """Of an identity that names somebody. Its endpoint is made where there is none."""
        name, replica, epoch, source, reporter = identity
        return SeriesKey(self.endpoint(name).name, replica, epoch, source, replica if reporter is None else reporter)

    def remember(self, identity: SeriesIdentity, row: int) -> None:
        """Find the row by this spelling of the series' identity from now on."""
        self._row_of[identity] = row

    def enter(self, key: SeriesKey, row: int, at_s: int) -> EpochSeen | None:
        """Give a new series its row; what is returned is its epoch, where that is new to a known speaker."""
        endpoint = self.endpoint(key.endpoint)
        endpoint.rows[key] = row
        endpoint.version += 1
        if row >= len(self.first_s):
            self._grow_rows(max(64, row + row // 4))
        self.endpoint_of_row[row] = endpoint.code
        self.first_s[row] = self.last_s[row] = at_s
        endpoint.quiet_s = min(endpoint.quiet_s, at_s)
        if not endpoint.epochs.see(key.speaker, key.epoch, at_s, at_s):
            return None
        replica, reporter = key.speaker
        return EpochSeen(replica=replica, reporter=reporter, epoch=key.epoch, first_s=at_s, last_s=at_s)

    def leave(self, key: SeriesKey) -> int:
        """Remove an ended series and return its row; its epoch's place in the order stays."""
        endpoint = self.endpoints[key.endpoint]
        row = endpoint.rows.pop(key)
        endpoint.version += 1
        self.departures += 1
        endpoint.epochs.see(key.speaker, key.epoch, int(self.first_s[row]), int(self.last_s[row]))
        alive = frozenset(other.epoch for other in endpoint.rows if other.speaker == key.speaker)
        endpoint.epochs.trim(key.speaker, alive)
        self._row_of.pop(key, None)
        self._row_of.pop((*key[:4], None), None)
        return row

    def drop(self, name: str) -> None:
        """Remove an endpoint that has no series left."""
        endpoint = self.endpoints.pop(name)
        self._free_codes.append(endpoint.code)

    def see_times(self, rows: NDArray[np.int64], at_s: NDArray[np.int64]) -> None:
        """Note the seconds of accepted samples."""
        np.maximum.at(self.last_s, rows, at_s)
        np.minimum.at(self.first_s, rows, at_s)

    def _grow_rows(self, size: int) -> None:
        self.endpoint_of_row = _grown(self.endpoint_of_row, size)
        self.first_s = _grown(self.first_s, size)
        self.last_s = _grown(self.last_s, size)

    def _grow_endpoints(self, size: int) -> None:
        self.floor_s = _grown(self.floor_s, size)
        self.pinned = _grown(self.pinned, size)


def _grown(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    grown = np.zeros(size + 1, array.dtype)
    grown[: len(array)] = array
    return grown
