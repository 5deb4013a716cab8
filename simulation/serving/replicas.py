"""The replicas of one endpoint, by name, and their gateway: requests in, what a second showed out."""

from dataclasses import dataclass

import numpy as np

from simulation.arrays import Floats, Ints, Mask
from simulation.engine_model import EngineModel
from simulation.serving.engines import Engines
from simulation.serving.gateway import Gateway
from simulation.serving.gpus import Gpus
from simulation.serving.routing import least_loaded
from simulation.serving.rows import REPLICAS_MAX, Rows, rows_of
from simulation.serving.second import COUNTS, GatewaySecond, SecondOfServing
from simulation.traffic import Arrivals

STEPS = 10
"""Sub-steps of a second. Fixed, so that nothing depends on how fast the host is."""

GATEWAY_WAITING_MAX = 1024
"""A choice without a source; what comes when so many wait is rejected."""


@dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """Requests that a replica held when it went away: `aborted`, or `errors` where it died."""

    running: int
    waiting: int

    @property
    def requests(self) -> int:
        return self.running + self.waiting


class ServingReplicas:
    """Serves an endpoint's requests, with a router that sends each to the replica with the fewest in flight.

    Replicas come and go, and faults begin, between two seconds. The router does not know that a replica hangs or is
    slow. Names are unique among the replicas present; a method raises KeyError for a name that is not.
    """

    def __init__(
        self, model: EngineModel, rng: np.random.Generator, *, gateway_waiting_max: int = GATEWAY_WAITING_MAX
    ) -> None:
        self.model = model
        self.engines = Engines(model)
        self.gateway = Gateway(gateway_waiting_max)
        self.departed = dict.fromkeys((*COUNTS, "left_tokens"), 0)
        """Counters of the replicas that are gone, with what became of their last requests."""
        self._rng = rng
        self._gpus = Gpus(model)
        self._names: list[str] = []
        self._taking: list[bool] = []
        self._first_s: int | None = None
        self._next_s = 0
        self._readings: dict[str, Floats] = {"running": np.zeros(0), "waiting": np.zeros(0)}
        self._usage: Floats = np.zeros(0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    @property
    def inflight(self) -> dict[str, int]:
        """Running and waiting requests by replica, as they are (a hung one's too)."""
        inflight = self.engines.running() + self.engines.waiting()
        return dict(zip(self._names, inflight.tolist(), strict=True))

    def add(self, name: str) -> None:
        """A replica is ready and takes requests."""
        if name in self._names:
            raise ValueError(f"replica {name!r} is there already")
        if len(self._names) == REPLICAS_MAX:
            raise ValueError(f"replicas must be at most {REPLICAS_MAX}, {name!r} is one more")
        self._names.append(name)
        self._taking.append(True)
        self.engines.add()
        self._gpus.add()
        for kind, reading in self._readings.items():
            self._readings[kind] = np.append(reading, 0.0)
        self._usage = np.append(self._usage, 0.0)

    def drain(self, name: str) -> None:
        """It takes no new requests, and works on those that it has, running and waiting."""
        self._taking[self._row(name)] = False

    def remove(self, name: str) -> LeftBehind:
        """It is gone; what it still held is aborted."""
        return self._drop(name, "aborted")

    def die(self, name: str) -> LeftBehind:
        """It is gone without a word; what it held are errors. A new one may have its name."""
        return self._drop(name, "errors")

    def hang(self, name: str) -> None:
        """Its engine stands still; it still takes requests, and shows what it last said."""
        self.engines.hung[self._row(name)] = True

    def slow(self, name: str, factor: float) -> None:
        """All that it does takes `factor` (at least 1) times as long."""
        if not 1 <= factor < np.inf:
            raise ValueError(f"factor must be at least 1 and finite, got {factor}")
        self.engines.slowness[self._row(name)] = factor

    def resume(self, name: str) -> None:
        """It neither hangs nor is slow any more."""
        row = self._row(name)
        self.engines.hung[row] = False
        self.engines.slowness[row] = 1.0

    def advance(self, second: int, arrivals: Arrivals) -> SecondOfServing:
        """Serve `[second, second + 1)`. Seconds follow one another without a gap: ValueError else."""
        if self._first_s is None:
            self._first_s = self._next_s = second
        if second != self._next_s:
            raise ValueError(f"second must be {self._next_s}, the one after the last, got {second}")
        self._next_s += 1
        begin_s = second - self._first_s
        rows = rows_of(arrivals, begin_s, self.model)
        before = self._gateway_counts()
        waited = len(self.gateway.queue)
        self.engines.begin_second()
        edges = np.searchsorted(arrivals.offset_s, np.arange(STEPS + 1) / STEPS)
        for step in range(STEPS):
            self._step(begin_s + step / STEPS, begin_s + (step + 1) / STEPS, rows[edges[step] : edges[step + 1]])
        return self._show(second, before, waited)

    def _step(self, begin_s: float, end_s: float, rows: Rows) -> None:
        taking = np.flatnonzero(self._taking)
        inflight = (self.engines.running() + self.engines.waiting())[taking]
        room = int(np.maximum(self.model.max_num_seqs + self.model.waiting_max - inflight, 0).sum())
        entering = self.gateway.let_through(rows, room if len(taking) else -1, begin_s)
        if len(entering):
            entering["replica"] = taking[least_loaded(inflight, len(entering), self._rng)]
        self.engines.step(begin_s, end_s, entering)
        self.gateway.abort(end_s)

    def _show(self, second: int, before: dict[str, int], waited: int) -> SecondOfServing:
        engines = self.engines
        speaking = ~engines.hung
        engines.ledger.happened["steps"] = np.floor(engines.work.steps).astype(np.int64)
        counts = engines.ledger.show(speaking)
        gauges = {
            "running": self._reading("running", engines.running(), speaking),
            "waiting": self._reading("waiting", engines.waiting(), speaking),
        }
        gauges["running_max"] = np.where(speaking, engines.running_max, gauges["running"])
        self._usage = np.where(speaking, engines.blocks() / self.model.kv_blocks, self._usage)
        gauges["kv_cache_usage"] = self._usage
        gauges["arrived_output_tokens_estimate"] = self._estimates(counts["arrivals"])
        return SecondOfServing(
            second=second,
            replicas=self.names,
            counts=counts,
            gauges=gauges,
            latencies=engines.ledger.show_latencies(),
            gpus=self._gpus.show(engines),
            gateway=self._gateway_second(before, waited),
            concurrency_limit=self.model.max_num_seqs,
            inflight=self.inflight,
        )

    def _reading(self, kind: str, now: Ints, speaking: Mask) -> Floats:
        """The mean of the readings at the second's ends; what does not speak shows its last."""
        last = self._readings[kind]
        self._readings[kind] = np.where(speaking, now, last)
        return (last + self._readings[kind]) / 2

    def _estimates(self, arrivals: Ints) -> Floats:
        """Output tokens of so many requests by the mean of those that have ended; NaN before there was one."""
        ended = self.engines.finished
        mean = self.engines.finished_tokens / ended if ended else np.nan
        return np.where(arrivals > 0, arrivals * mean, 0.0)

    def _gateway_counts(self) -> dict[str, int]:
        names = ("arrivals", "rejections", "aborted", "forwarded", "arrived_input_tokens")
        return {name: getattr(self.gateway, name) for name in names}

    def _gateway_second(self, before: dict[str, int], waited: int) -> GatewaySecond:
        rose = {name: count - before[name] for name, count in self._gateway_counts().items()}
        estimate = float(self._estimates(np.array([rose["arrivals"]]))[0])
        return GatewaySecond(
            **rose,
            waiting=(waited + len(self.gateway.queue)) / 2,
            arrived_output_tokens_estimate=None if np.isnan(estimate) else estimate,
        )

    def _row(self, name: str) -> int:
        try:
            return self._names.index(name)
        except ValueError:
            raise KeyError(f"no replica {name!r}; there are {', '.join(self._names) or 'none'}") from None

    def _drop(self, name: str, fate: str) -> LeftBehind:
        row = self._row(name)
        left = LeftBehind(running=int(self.engines.running()[row]), waiting=int(self.engines.waiting()[row]))
        counters = {one: int(self.engines.ledger.happened[one][row]) for one in COUNTS}
        tokens = int(self.engines.ledger.left_tokens[row])
        held = self.engines.drop(row)
        counters[fate] += left.requests
        counters["left_tokens"] = tokens + int(held["generated"].sum())
        for one, count in counters.items():
            self.departed[one] += count
        self._gpus.drop(row)
        del self._names[row], self._taking[row]
        for kind, reading in self._readings.items():
            self._readings[kind] = np.delete(reading, row)
        self._usage = np.delete(self._usage, row)
        return left
