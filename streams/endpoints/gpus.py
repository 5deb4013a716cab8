"""What a tick reads of one endpoint's GPUs: utilisation and memory, second by second. Few, so plain rings do."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from records.telemetry import GpuSample
from streams.endpoints.intake import GPUS_MAX

Matrix = NDArray[np.float64]

_NO_SECOND = -1


@dataclass(slots=True)
class _Ring:
    """One GPU of one incarnation of a replica; slot `s % span` holds second `at_s` of that slot."""

    at_s: NDArray[np.int64]
    seq: NDArray[np.int64]
    values: Matrix
    newest_s: int = _NO_SECOND

    @classmethod
    def empty(cls, span_s: int) -> "_Ring":
        return cls(np.full(span_s, _NO_SECOND, np.int64), np.zeros(span_s, np.int64), np.full((2, span_s), np.nan))


@dataclass(slots=True)
class _Replica:
    """Rings by (epoch, GPU)."""

    rings: dict[tuple[str, str], _Ring] = field(default_factory=dict)

    def current(self, heard_from_s: int) -> str | None:
        """The incarnation that began last, by its seconds from `heard_from_s` on; of one second, the last by name.

        In which order they were read does not count: whoever takes over has not read what came before.
        """
        heard = [(epoch, ring) for (epoch, _), ring in self.rings.items() if ring.newest_s >= heard_from_s]
        if len({epoch for epoch, _ in heard}) == 1:
            return heard[0][0]
        began_s: dict[str, int] = {}
        for epoch, ring in heard:
            first_s = int(ring.at_s[ring.at_s >= heard_from_s].min())
            began_s[epoch] = min(first_s, began_s.get(epoch, first_s))
        return max(began_s, key=lambda epoch: (began_s[epoch], epoch), default=None)


class GpuWindows:
    """The last `span_s` seconds of the GPUs of one endpoint."""

    def __init__(self, span_s: int) -> None:
        self.span_s = span_s
        self._replicas: dict[str, _Replica] = {}
        self._rings = 0

    @property
    def nbytes(self) -> int:
        """Of all rings; another thread may ask."""
        return self.span_s * 32 * self._rings

    def add(self, sample: GpuSample) -> bool:
        """Take a sample; False where there are too many GPUs for a new one.

        Of one identity the later `seq` counts; a second that its slot has left behind is too late.
        """
        ring = self._ring(sample)
        if ring is not None:
            self._write(ring, sample)
        return ring is not None

    def _ring(self, sample: GpuSample) -> _Ring | None:
        known = self._replicas.get(sample.replica)
        ring = None if known is None else known.rings.get((sample.epoch, sample.gpu))
        if ring is not None:
            return ring
        if self._rings >= GPUS_MAX:
            return None
        replica = self._replicas.setdefault(sample.replica, _Replica())
        ring = replica.rings[sample.epoch, sample.gpu] = _Ring.empty(self.span_s)
        self._rings += 1
        return ring

    def _write(self, ring: _Ring, sample: GpuSample) -> None:
        slot = sample.at_s % self.span_s
        if (sample.at_s, sample.seq) < (int(ring.at_s[slot]), int(ring.seq[slot])):
            return
        if sample.at_s == ring.at_s[slot] and sample.seq == ring.seq[slot]:
            return
        ring.at_s[slot], ring.seq[slot] = sample.at_s, sample.seq
        ring.newest_s = max(ring.newest_s, sample.at_s)
        ring.values[0, slot] = np.nan if sample.gpu_utilization is None else sample.gpu_utilization
        ring.values[1, slot] = _memory_share(sample)

    def means(self, replica: str, first_s: int, end_s: int, heard_from_s: int) -> Matrix:
        """float64 (2, seconds): utilisation and memory, 0..1, of the replica's current incarnation, each second's mean
        over its GPUs that are known; NaN = unknown.

        An incarnation that has no second from `heard_from_s` on is as if it had been forgotten, whenever it is.
        """
        known = self._replicas.get(replica)
        seconds = np.arange(first_s, end_s)
        total, count = np.zeros((2, len(seconds))), np.zeros((2, len(seconds)))
        if known is not None:
            current = known.current(heard_from_s)
            for (epoch, _), ring in sorted(known.rings.items()):
                if epoch == current:
                    slots = seconds % self.span_s
                    values = np.where(ring.at_s[slots] == seconds, ring.values[:, slots], np.nan)
                    present = ~np.isnan(values)
                    total += np.where(present, values, 0.0)
                    count += present
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def forget(self, before_s: int) -> None:
        """Free the GPUs that were silent since `before_s`."""
        for name, replica in list(self._replicas.items()):
            for key in [key for key, ring in replica.rings.items() if ring.newest_s < before_s]:
                del replica.rings[key]
                self._rings -= 1
            if not replica.rings:
                del self._replicas[name]


def _memory_share(sample: GpuSample) -> float:
    if sample.memory_used_bytes is None or not sample.memory_total_bytes:
        return float("nan")
    return min(1.0, sample.memory_used_bytes / sample.memory_total_bytes)
