"""One tick of all endpoints of a partition: their signals, and what is decided on them.

The controller is fed as a worker feeds it, a second of all replicas at a time. What is measured is the CPU time in
which ticks are made, when time passes and all of them are due; feeding is not in it. Windows are filled as a worker
fills them that takes a partition over: without ticks.
"""

import time
from statistics import median
from typing import Any

import numpy as np

from bench.fleet_columns import FleetColumns
from bench.registry import Result
from decisions.scaling import decide_scaling
from headrace.commands.worker import collect_seldom
from records.enums import MetricName
from records.memory import ControllerMemory
from records.policy import EndpointPolicy, Metric, ScaleTargetRef
from records.scaling_memory import ScalingMemory
from records.supply_memory import SupplyMemory
from streams.controller.controller import PartitionController
from streams.controller.rebuild import REQUESTS
from streams.endpoints.effects import TickEffects
from streams.endpoints.ticks import PATIENCE_S, TICK_S

ENDPOINTS = 10_000
FEWER = 1_000
REPLICAS = 4
FIRST_S = 1_700_000_000
SEED = 20_240_601
METRICS = (
    Metric(name=MetricName.INFLIGHT_REQUESTS),
    Metric(name=MetricName.QUEUE_DEPTH, target=4.0),
    Metric(name=MetricName.TOKEN_UTILIZATION),
)


class Partition:
    """A controller whose windows hold `filled_s` seconds of its endpoints."""

    def __init__(self, endpoints: int, filled_s: int) -> None:
        names = tuple(f"endpoint-{number:05d}" for number in range(endpoints))
        self._fleet = FleetColumns(names, REPLICAS, SEED)
        self._policies = {name: _policy(name) for name in names}
        self._offset = 0
        self._tick = FIRST_S + filled_s
        self._scaling: dict[str, ScalingMemory] = dict.fromkeys(names, ScalingMemory())
        self.controller = PartitionController(0, lambda _: True)
        read = {REQUESTS: filled_s * REPLICAS * endpoints}
        memories = [_memory(name, self._tick, read) for name in names]
        self.controller.restore(memories, self._policies.values())
        for at_s in range(FIRST_S, self._tick):
            self._feed(at_s)

    def tick(self) -> tuple[float, float]:
        """Feed five seconds and make their tick; CPU seconds of signals and memories, and of decisions."""
        for at_s in range(self._tick, self._tick + TICK_S):
            self._feed(at_s)
        self._tick += TICK_S
        begun = time.process_time()
        effects = list(self.controller.advance(float(self._tick + PATIENCE_S)))
        whole_s = time.process_time() - begun
        if len(effects) != len(self._policies):
            raise RuntimeError(f"{len(effects)} ticks of {len(self._policies)} endpoints")
        decide_s = self._decide(effects)
        return whole_s - decide_s, decide_s

    def _decide(self, effects: list[TickEffects]) -> float:
        """Decide the same signals again, and nothing else."""
        hashes = {one.endpoint: one.decisions[0].policy_hash for one in effects}
        begun = time.process_time()
        again = [
            decide_scaling(self._policies[one.endpoint], hashes[one.endpoint], one.signal, self._scaling[one.endpoint])
            for one in effects
        ]
        spent_s = time.process_time() - begun
        for one, (decision, memory) in zip(effects, again, strict=True):
            if (decision,) != one.decisions:
                raise RuntimeError(f"decided otherwise again: {decision.detail}")
            self._scaling[one.endpoint] = memory
        return spent_s

    def _feed(self, at_s: int) -> None:
        columns = self._fleet.of_second(at_s)
        offsets = np.arange(self._offset, self._offset + len(columns))
        self._offset += len(columns)
        if self.controller.feed(REQUESTS, columns, offsets, columns.received_s):
            raise RuntimeError(f"ticks before their time at {at_s}")


def _policy(endpoint: str) -> EndpointPolicy:
    return EndpointPolicy(
        endpoint=endpoint,
        min_replicas=1,
        max_replicas=100,
        metrics=METRICS,
        scale_target_ref=ScaleTargetRef(kind="Deployment", name=endpoint),
    )


def _memory(endpoint: str, tick: int, offsets: dict[str, int]) -> ControllerMemory:
    return ControllerMemory(
        endpoint=endpoint,
        at_s=tick,
        offsets=offsets,
        scaling=ScalingMemory(),
        supply=SupplyMemory(),
        processed_s=float(tick + 2),
        observed_from_s=FIRST_S,
    )


def run(*, short: bool) -> Result:
    """Medians over ticks, the two partitions by turns. The collector of garbage runs as it does in a worker."""
    filled_s, ticks = (10, 3) if short else (300, 9)
    whole, fewer = Partition(ENDPOINTS, filled_s), Partition(FEWER, filled_s)
    collect_seldom()
    whole.tick(), fewer.tick()
    rows: list[dict[str, Any]] = []
    for _ in range(ticks):
        signals_s, decide_s = whole.tick()
        fewer_s = sum(fewer.tick())
        ratio = (signals_s + decide_s) / ENDPOINTS / (fewer_s / FEWER)
        rows.append({"signals_s": signals_s, "decide_s": decide_s, "ratio_10k_to_1k": ratio})
    figures = {name: median(row[name] for row in rows) for name in rows[0]}
    return Result(
        figures=figures,
        context={
            "endpoints": [ENDPOINTS, FEWER],
            "replicas": REPLICAS,
            "metrics": [metric.name.value for metric in METRICS],
            "seconds_in_windows": filled_s,
            "ticks": ticks,
            "us_per_endpoint": (figures["signals_s"] + figures["decide_s"]) / ENDPOINTS * 1e6,
            "seed": SEED,
        },
    )
