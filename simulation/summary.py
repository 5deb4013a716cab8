"""What an endpoint served, in all and second by second: the truth of the simulation, not what was reported of it."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from simulation.arrays import Ints

SECONDS_MAX = 20_000
"""Seconds whose rows are kept, the newest; 5.5 hours."""


class SecondServed(msgspec.Struct, frozen=True, kw_only=True):
    """One second. `inflight` and `waiting` are requests at its end, those without a replica included.

    `arrivals` were accepted, `rejections` were not. `ttft_p95_ms` is over the first tokens of this second, null where
    there were none.
    """

    at_s: int
    arrivals: int
    rejections: int
    completions: int
    inflight: int
    waiting: float
    ready: int
    spec: int
    ttft_p95_ms: float | None


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an endpoint's requests.

    Each request is an arrival or a rejection; each arrival ends as a completion, aborted by its client, or an error
    (its replica died), or is still in flight. `queued` waited at the gateway for a replica. `first_tokens` came in all,
    `ttft_within_slo` of them within the endpoint's limit, as the engines count: from the arrival at a replica.
    """

    arrivals: int = 0
    rejections: int = 0
    completions: int = 0
    aborted: int = 0
    errors: int = 0
    queued: int = 0
    first_tokens: int = 0
    ttft_within_slo: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: "Outcomes") -> "Outcomes":
        """Both together."""
        return Outcomes(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    @property
    def slo_kept_share(self) -> float | None:
        """First tokens in time over all requests: one that was rejected, or never answered, was not served well.

        Nor was one that waited at the gateway, whatever its engine says. Null where there was no request.
        """
        requests = self.arrivals + self.rejections
        return max(0, self.ttft_within_slo - self.queued) / requests if requests else None


class Summary:
    """Adds up one endpoint's seconds; `slo_ttft_ms` is the longest that a first token in time takes."""

    def __init__(self, slo_ttft_ms: float) -> None:
        self._slo_ttft_ms = slo_ttft_ms
        self._rows: deque[SecondServed] = deque(maxlen=SECONDS_MAX)
        self._seconds = 0
        self.outcomes = Outcomes()
        self.gpu_seconds = 0
        self.replicas: Mapping[str, int] = {}

    def add(self, row: SecondServed, outcomes: Outcomes, gpus: int, replicas: Mapping[str, int]) -> None:
        """One more second, with the GPUs that replicas held in it and the replicas by state."""
        self._rows.append(row)
        self._seconds += 1
        self.outcomes = self.outcomes.plus(outcomes)
        self.gpu_seconds += gpus
        self.replicas = replicas

    def as_object(self, after_s: int | None = None) -> dict[str, Any]:
        """As JSON's values; with the rows of the seconds after `after_s` where that is given."""
        share = self.outcomes.slo_kept_share
        values: dict[str, Any] = {
            **msgspec.structs.asdict(self.outcomes),
            "inflight": self._rows[-1].inflight if self._rows else 0,
            "slo_ttft_ms": self._slo_ttft_ms,
            "slo_kept_share": None if share is None else round(share, 6),
            "gpu_seconds": self.gpu_seconds,
            "replicas": dict(self.replicas),
            "simulated_seconds": self._seconds,
        }
        if after_s is not None:
            values["seconds"] = self._after(after_s)
        return values

    def _after(self, after_s: int) -> Sequence[SecondServed]:
        if not self._rows:
            return []
        return list(islice(self._rows, max(0, after_s + 1 - self._rows[0].at_s), None))


def within(bounds_ms: Sequence[float], counts: Ints, limit_ms: float) -> int:
    """Values up to `limit_ms`, which is one of the bounds; `counts` has one more than bounds.

    Raises ValueError for another limit.
    """
    if limit_ms not in bounds_ms:
        raise ValueError(f"limit_ms: {limit_ms:g}, allowed: {', '.join(f'{bound:g}' for bound in bounds_ms)}")
    return int(counts[: bounds_ms.index(limit_ms) + 1].sum())
