"""What a tick reads: one endpoint's replicas, second by second."""

from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streams.windows.grid_source import GridSource
from streams.windows.histograms import EMPTY, MergedHistogram, merge
from streams.windows.stretch import Mask, Matrix, Rows

Scalar = TypeVar("Scalar", bound=np.generic)


class Restart(NamedTuple):
    """`epoch` was first heard at `at_s`, after another of the same replica (where that is "": of the same reporter)."""

    replica: str
    reporter: str | None
    epoch: str
    at_s: int


class TwoProcesses(NamedTuple):
    """`older` spoke, last at `at_s`, after `newer` had begun: two processes under one name."""

    replica: str
    reporter: str | None
    older: str
    newer: str
    at_s: int


class Grid:
    """The seconds `[first_s, end_s)` of one endpoint; matrices have a row a replica and a column a second.

    `replicas` are those that were heard in the stretch that was read, in the order of their names, without
    `replica: ""`, which is `gateway`: requests that no replica has yet. A field of the gateway is the sum over its
    reporters.
    """

    def __init__(self, source: GridSource, first_s: int) -> None:
        self._source = source
        self.first_s, self.end_s = first_s, source.stretch.end_s
        self._seconds = slice(first_s - source.stretch.first_s, None)
        self._has_gateway = source.reader.has_gateway
        self._groups = source.spoken_groups
        self.replicas = source.replicas

    def since(self, first_s: int) -> "Grid":
        """The end of this grid, from `first_s` on: cheaper than another reading, and with the same replicas."""
        if not self.first_s <= first_s <= self.end_s:
            raise ValueError(f"first_s must be in {self.first_s}..{self.end_s}, got {first_s}")
        return Grid(self._source, first_s)

    @property
    def begun_s(self) -> int:
        """Before it no source of the endpoint spoke that is still in the windows, in this grid's seconds or others."""
        reader = self._source.reader
        return int(reader.table.first_s[reader.rows].min(initial=self.end_s))

    @cached_property
    def heard(self) -> Mask:
        """bool (replicas, seconds): whether any source that is not quarantined spoke of the replica."""
        return self._take(self._source.heard)

    def field(self, name: str) -> Matrix:
        """float64 (replicas, seconds), NaN = unknown. KeyError for a name that is no scalar field."""
        return self._take(self._source.field(name))

    @property
    def inflight(self) -> Matrix:
        """As `field`: running + waiting."""
        return self._take(self._source.inflight)

    @property
    def arrivals(self) -> Matrix:
        """As `field("arrivals")`, and where no source counts arrivals: completions + errors + aborted + the change of
        (running + waiting) since the second before, of the same epoch, where all of these are known. A second's value
        may then be below 0; the sum over a window is right."""
        return self._take(self._source.arrivals)

    @cached_property
    def epochs(self) -> tuple[str, ...]:
        """Each replica's current epoch: the one whose first record was read last."""
        order = self._source.reader.endpoint.epochs
        return tuple(order.of((replica, None))[-1].epoch for replica in self.replicas)

    @property
    def is_plain(self) -> bool:
        """Whether every speaker has one epoch, no source is quarantined, and no router speaks of requests that no
        replica has."""
        return not (self._has_gateway or self._source.reader.restarted or self._source.is_quarantining)

    @property
    def has_routers(self) -> bool:
        """Whether any router speaks of the endpoint's replicas."""
        return self._source.reader.has_routers

    @property
    def has_gateway(self) -> bool:
        """Whether any router speaks of requests that no replica has."""
        return self._has_gateway

    @property
    def gateway_heard(self) -> Mask:
        """bool (seconds,): whether a router spoke of requests that no replica has."""
        if not self._has_gateway:
            return np.zeros(self.end_s - self.first_s, np.bool_)
        return self._source.heard[0, self._seconds]

    def gateway(self, name: str) -> Matrix:
        """float64 (seconds,), NaN = unknown: a field of `replica: ""`."""
        if not self._has_gateway:
            return np.full(self.end_s - self.first_s, np.nan)
        return self._source.field(name)[0, self._seconds]

    @cached_property
    def restarts(self) -> tuple[Restart, ...]:
        """Epochs of these seconds that are not their speaker's first, in the order of names."""
        reader, stretch = self._source.reader, self._source.stretch
        begin_s = max(self.first_s, stretch.held_from_s)
        return tuple(
            Restart(*speaker, epoch, begun_s)
            for index, speaker in reader.restarted
            for rank, (epoch, *_) in enumerate(reader.epochs[index])
            if rank and begin_s <= (begun_s := reader.first_second(index, rank)) < stretch.held_to_s
        )

    @cached_property
    def two_processes(self) -> tuple[TwoProcesses, ...]:
        """Pairs of epochs that both spoke in these seconds, the older after the newer had begun."""
        reader = self._source.reader
        found = []
        for index, speaker in reader.restarted:
            spoke = {rank: self._spoke(index, rank) for rank in range(len(reader.epochs[index]))}
            spoke = {rank: seconds for rank, seconds in spoke.items() if len(seconds)}
            for older, seconds in spoke.items():
                for newer in (rank for rank in spoke if rank > older):
                    if seconds[-1] > reader.first_second(index, newer):
                        names = reader.epochs[index][older].epoch, reader.epochs[index][newer].epoch
                        found.append(TwoProcesses(*speaker, *names, int(seconds[-1])))
        return tuple(found)

    @cached_property
    def suspect(self) -> Mask:
        """bool (replicas,): two processes speak under the replica's name."""
        names = {pair.replica for pair in self.two_processes}
        return np.array([replica in names for replica in self.replicas], np.bool_)

    @property
    def quarantined(self) -> tuple[str, ...]:
        """Replicas with a quarantined source that spoke in the stretch that was read, "" among them."""
        return self._source.quarantined

    def present(self, field: str) -> Mask:
        """bool (replicas, seconds): where there is a histogram of a field, be it empty. KeyError as `histogram`."""
        source = self._source
        live = source.reader.histograms.present(field, source.stretch) & source.live
        if not len(source.reader.keys):
            return self._take(live)
        return self._take(np.logical_or.reduceat(live, source.reader.group_starts, axis=0))

    def reports(self, field: str) -> bool:
        """Whether any replica has histograms of a field, in these seconds or in others."""
        return self._source.reader.histograms.reports(field)

    def histogram(self, field: str) -> MergedHistogram:
        """All histograms of a field in these seconds as one, those of `replica: ""` too: per replica and second the
        engine's, else the routers'. KeyError for a name that is no histogram field."""
        if not self.reports(field):
            return EMPTY
        stretch, chosen = self._source.histograms(field, self.first_s)
        return merge(self._source.reader.histograms.merged(field, stretch, chosen))

    def histogram_blocks(self, field: str, block_s: int) -> list[MergedHistogram] | None:
        """As `histogram`, of each block of `block_s` seconds, of which the grid is a multiple: cheaper than one by one.
        Null where it cannot be had so."""
        if not self.reports(field):
            return [EMPTY] * ((self.end_s - self.first_s) // block_s)
        stretch, chosen = self._source.histograms(field, self.first_s)
        return self._source.reader.histograms.merged_blocks(field, stretch, chosen, block_s)

    def _spoke(self, speaker: int, rank: int) -> Rows:
        """The seconds in which an epoch spoke, rising."""
        reader = self._source.reader
        rows = (reader.speaker == speaker) & (reader.rank == rank)
        return self.first_s + np.flatnonzero(self._source.spoke[rows, self._seconds].any(axis=0))

    def _take(self, matrix: NDArray[Scalar]) -> NDArray[Scalar]:
        return matrix[:, self._seconds] if self._groups is None else matrix[self._groups, self._seconds]
