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
    """A bench: its module under `bench/`, one sentence, its figures with their units, and the goals of some."""

    module: str
    about: str
    figures: Mapping[str, str]
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
        figures={
            "messages_per_cpu_s": "messages a CPU second of the worker, without histograms",
            "messages_per_cpu_s_full": "the same, with four histograms each",
            "ratio_kafka_streams": "times as many as Kafka Streams",
        },
        goals={
            "messages_per_cpu_s": Goal(at_least=120_000),
            "messages_per_cpu_s_full": Goal(at_least=60_000),
            "ratio_kafka_streams": Goal(at_least=10),
        },
    ),
    "ingest-frames": Bench(
        module="ingest_frames",
        about="one worker, a real broker, Arrow frames of 500 samples of 1,000 replicas of 100 endpoints",
        figures={
            "samples_per_cpu_s": "samples a CPU second of the worker, without histograms",
            "samples_per_cpu_s_full": "the same, with four histograms each",
        },
        goals={"samples_per_cpu_s": Goal(at_least=1_000_000), "samples_per_cpu_s_full": Goal(at_least=400_000)},
    ),
    "latency": Bench(
        module="latency",
        about="from the send of the sample that completes a tick to its decision being readable, 10,000 samples/s",
        figures={
            "p50_ms": "milliseconds",
            "p99_ms": "milliseconds",
        },
        goals={"p50_ms": Goal(at_most=100), "p99_ms": Goal(at_most=250)},
    ),
    "cold-start": Bench(
        module="cold_start",
        about="`headrace up` to the first decision, caches warm",
        figures={
            "seconds": "seconds",
        },
        goals={"seconds": Goal(at_most=15)},
    ),
    "memory": Bench(
        module="memory",
        about="a worker with 10,000 replicas, 302 s, four histograms each; idle; and the embedded broker",
        figures={
            "resident_mb": "MiB resident of the worker",
            "idle_mb": "MiB resident of an idle one",
            "bytes_per_replica_second": "bytes a replica and second",
            "broker_mb": "MiB resident of the broker",
        },
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
        figures={
            "signals_s": "seconds for all signals",
            "decide_s": "seconds for all decisions",
            "ratio_10k_to_1k": "times the seconds of an endpoint among 1,000, among 10,000",
        },
        goals={
            "signals_s": Goal(at_most=0.5),
            "decide_s": Goal(at_most=1.0),
            "ratio_10k_to_1k": Goal(at_most=1.2),
        },
    ),
    "takeover": Bench(
        module="takeover",
        about="SIGKILL of one of three workers to the first tick of each of its partitions elsewhere, session 6 s",
        figures={
            "seconds": "seconds",
            "ticks_missing": "ticks",
            "ticks_double": "ticks",
        },
        goals={
            "seconds": Goal(at_most=9),
            "ticks_missing": Goal(at_most=0),
            "ticks_double": Goal(at_most=0),
        },
    ),
    "rebuild": Bench(
        module="rebuild",
        about="300 s of 10,000 replicas read again by a new owner, from Arrow frames, and the first tick decided",
        figures={
            "seconds": "seconds",
        },
        goals={"seconds": Goal(at_most=5)},
    ),
    "producer": Bench(
        module="producer",
        about="what full samples and a GPU's cost their sender: beside one engine, an agent of 1,000 replicas, collect",
        figures={
            "embedded_core_fraction": "of one core, beside an engine",
            "agent_core_fraction": "of one core, an agent",
            "agent_resident_mb": "MiB resident of the agent",
            "collect_core_fraction": "of one core, headrace collect",
        },
        goals={
            "embedded_core_fraction": Goal(at_most=0.01),
            "agent_core_fraction": Goal(at_most=0.20),
            "agent_resident_mb": Goal(at_most=200),
        },
    ),
    "windows": Bench(
        module="windows",
        about="the window kernel alone, batches of 500 samples",
        figures={
            "samples_per_s": "samples a CPU second, without histograms",
            "samples_per_s_full": "the same, with four histograms each",
            "ratio_3600_to_20": "times the CPU time of a sample with the shortest windows, with 3,600 s",
        },
        goals={
            "samples_per_s": Goal(at_least=4_000_000),
            "samples_per_s_full": Goal(at_least=1_500_000),
            "ratio_3600_to_20": Goal(at_most=1.2),
        },
    ),
}
