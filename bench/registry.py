"""Which benches there are, what they measure and the goal of each figure."""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, Protocol, cast


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """Figures by name, and what is needed to understand them: sizes, seeds, versions."""

    figures: Mapping[str, float]
    context: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure's goal: `at_least` or `at_most`, in the figure's own unit."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """A bench: its module under `bench/`, one sentence, and the goals of its figures."""

    module: str
    about: str
    goals: Mapping[str, Goal]

    def run(self, *, short: bool) -> Result:
        module = cast("_BenchModule", importlib.import_module(f"bench.{self.module}"))
        return module.run(short=short)


class _BenchModule(Protocol):
    def run(self, *, short: bool) -> Result: ...


BENCHES: Mapping[str, Bench] = {
    "ingest": Bench(
        module="ingest",
        about="one worker, a real broker, JSON samples of 1,000 replicas of 100 endpoints, ticks and transactions on",
        goals={
            "messages_per_cpu_s": Goal(at_least=120_000),
            "messages_per_cpu_s_full": Goal(at_least=60_000),
            "ratio_kafka_streams": Goal(at_least=10),
        },
    ),
    "ingest-frames": Bench(
        module="ingest_frames",
        about="one worker, a real broker, Arrow frames of 500 samples of 1,000 replicas of 100 endpoints",
        goals={"samples_per_cpu_s": Goal(at_least=1_000_000), "samples_per_cpu_s_full": Goal(at_least=400_000)},
    ),
    "latency": Bench(
        module="latency",
        about="from the send of the sample that completes a tick to its decision being readable, 10,000 samples/s",
        goals={"p50_ms": Goal(at_most=100), "p99_ms": Goal(at_most=250)},
    ),
    "cold-start": Bench(
        module="cold_start",
        about="`headrace up` to the first decision, caches warm",
        goals={"seconds": Goal(at_most=15)},
    ),
    "memory": Bench(
        module="memory",
        about="a worker with 10,000 replicas, 302 s, four histograms each; idle; and the embedded broker",
        goals={
            "resident_mb": Goal(at_most=1_200),
            "idle_mb": Goal(at_most=250),
            "bytes_per_replica_second": Goal(at_most=258),
            "broker_mb": Goal(at_most=600),
        },
    ),
    "tick": Bench(
        module="tick",
        about="one tick of 10,000 endpoints of 4 replicas: all their signals, and all decisions on them",
        goals={
            "signals_s": Goal(at_most=0.5),
            "decide_s": Goal(at_most=1.0),
            "ratio_10k_to_1k": Goal(at_most=1.2),
        },
    ),
    "takeover": Bench(
        module="takeover",
        about="SIGKILL of one of three workers to the first tick of each of its partitions elsewhere, session 6 s",
        goals={
            "seconds": Goal(at_most=9),
            "ticks_missing": Goal(at_most=0),
            "ticks_double": Goal(at_most=0),
        },
    ),
    "rebuild": Bench(
        module="rebuild",
        about="300 s of 10,000 replicas read again by a new owner, from Arrow frames, and the first tick decided",
        goals={"seconds": Goal(at_most=5)},
    ),
    "producer": Bench(
        module="producer",
        about="what full samples and a GPU's cost their sender: beside one engine, an agent of 1,000 replicas, collect",
        goals={
            "embedded_core_fraction": Goal(at_most=0.01),
            "agent_core_fraction": Goal(at_most=0.20),
            "agent_resident_mb": Goal(at_most=200),
        },
    ),
    "windows": Bench(
        module="windows",
        about="the window kernel alone, batches of 500 samples",
        goals={
            "samples_per_s": Goal(at_least=4_000_000),
            "samples_per_s_full": Goal(at_least=1_500_000),
            "ratio_3600_to_20": Goal(at_most=1.2),
        },
    ),
}
