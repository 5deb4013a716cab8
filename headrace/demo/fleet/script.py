"""What the demo plays: three endpoints with their traffic, their engines and their policies.

The policies are YAML files beside this module, as an operator writes them; the traffic is made for the length of the
run: the burst is placed by its shares, the two services play what their traces have.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from simulation.engine_model import ENGINE_MODELS

SEED = 4
"""Of the fleet: the same seed gives the same requests and the same start-up times."""

STARTUP = "sharded+compile-cache"
"""How the demo's replicas start: each GPU reads its own part of the weights, and finds its compiled graphs on disk."""

CACHED = MappingProxyType(
    {"fractions": (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0), "values": (0.0, 0.028, 0.069, 0.363, 0.712, 0.948, 1.0)}
)
"""Share of a prompt whose blocks of 512 tokens came before in the hour: quantiles over the 12,031 requests of
Mooncake's conversation trace (kvcache-ai/Mooncake, FAST'25, Apache-2.0). Azure's traces have no prefixes."""

Points = list[tuple[float, float]]
"""(Second of the run, requests a second)."""


@dataclass(frozen=True, kw_only=True)
class Burst:
    """When the burst is, as shares of the run, and its rates in requests/s; it takes RAMP_S up and down."""

    from_share: float = 0.1
    to_share: float = 0.45
    quiet: float = 10.0
    loud: float = 1000.0
    ramp_s: float = 5.0

    def begins_s(self, seconds: float) -> float:
        """The second of a run of `seconds` in which the rate begins to rise."""
        return self.from_share * seconds

    def ends_s(self, seconds: float) -> float:
        """The second in which it begins to fall."""
        return self.to_share * seconds

    def points(self, seconds: float) -> Points:
        """A run of 1,200 s has its burst from 120 s to 540 s: seven minutes."""
        begins_s, ends_s = self.begins_s(seconds), self.ends_s(seconds)
        return [
            (0.0, self.quiet),
            (begins_s, self.quiet),
            (begins_s + self.ramp_s, self.loud),
            (ends_s, self.loud),
            (ends_s + self.ramp_s, self.quiet),
        ]


BURST = Burst()


@dataclass(frozen=True, kw_only=True)
class Service:
    """What `copies` services together were sent, by one of the shipped profiles."""

    profile: str
    copies: float

    def points(self, seconds: float) -> Points:
        """The profile from its beginning on, and again from there where the run is longer."""
        told = read_profile(self.profile)
        step_s, rates = float(told["step_s"]), told["requests_per_s"]
        count = int(seconds // step_s) + 1
        # A rate is the mean of its interval: it stands in the interval's middle, with straight lines between.
        return [((index + 0.5) * step_s, rates[index % len(rates)] * self.copies) for index in range(count)]


@dataclass(frozen=True, kw_only=True)
class DemoEndpoint:
    """One endpoint: `engine` is a key of ENGINE_MODELS, `lengths` one of `simulation.traffic.LENGTHS`.

    `points` makes the rates of a run of so many seconds; `limits` are the engine's own; `cached` is the distribution
    of the share of a prompt that is in the prefix cache.
    """

    name: str
    what: str
    engine: str
    lengths: str
    points: Callable[[float], Points]
    replicas: int
    patience_s: float
    limits: Mapping[str, int]
    cached: Mapping[str, Sequence[float]] | None = None

    @property
    def gpus(self) -> int:
        """Of one replica."""
        return ENGINE_MODELS[self.engine].gpus

    @property
    def policy(self) -> str:
        """The YAML document."""
        return files(__package__).joinpath("policies", f"{self.name}.yaml").read_text()


ENDPOINTS: Sequence[DemoEndpoint] = (
    DemoEndpoint(
        name="burst",
        what="10 requests/s, then 1,000 within five seconds, then 10 again; Llama 3.1 8B, one H100 a replica",
        engine="llama-3.1-8b/H100",
        lengths="conversation",
        points=BURST.points,
        replicas=2,
        patience_s=60.0,
        limits={"maxNumSeqs": 48, "waitingMax": 12},
        cached=CACHED,
    ),
    DemoEndpoint(
        name="code",
        what="the bursts of Azure's code trace, long prompts; Llama 3.1 70B, four H100 a replica",
        engine="llama-3.1-70b/H100x4",
        lengths="code",
        points=Service(profile="azure-2023-code", copies=1).points,
        replicas=2,
        patience_s=60.0,
        limits={"maxNumSeqs": 64, "waitingMax": 64},
    ),
    DemoEndpoint(
        name="chat",
        what="what ten services like Azure's chat trace are sent, steady; Llama 3.1 8B, one H100 a replica",
        engine="llama-3.1-8b/H100",
        lengths="conversation",
        points=Service(profile="azure-2023-conv", copies=10).points,
        replicas=4,
        patience_s=60.0,
        limits={"maxNumSeqs": 64, "waitingMax": 64},
        cached=CACHED,
    ),
)


@lru_cache
def read_profile(name: str) -> Mapping[str, Any]:
    """A shipped profile as its document. Raises FileNotFoundError for a name that is none."""
    text = files("headrace.demo.fleet.profiles").joinpath(f"{name}.yaml").read_text()
    told: Mapping[str, Any] = YAML(typ="safe").load(text)
    return told


def scenario_of(seconds: float, slos_ms: Mapping[str, float]) -> dict[str, Any]:
    """The fleet's scenario for a run of `seconds` event time; `slos_ms` has each endpoint's TTFT p95."""
    return {"seed": SEED, "endpoints": [_endpoint(one, seconds, slos_ms[one.name]) for one in ENDPOINTS]}


def _endpoint(one: DemoEndpoint, seconds: float, slo_ms: float) -> dict[str, Any]:
    model, hardware = one.engine.split("/")
    rate = [{"second": second, "requestsPerSecond": round(rate, 3)} for second, rate in one.points(seconds)]
    lengths: dict[str, Any] = {"like": one.lengths}
    if one.cached is not None:
        lengths["cachedShare"] = {name: list(values) for name, values in one.cached.items()}
    return {
        "endpoint": one.name,
        "engine": {"model": model, "hardware": hardware, **one.limits},
        "startup": {"like": STARTUP},
        "replicas": one.replicas,
        "sloTtftMs": slo_ms,
        "traffic": {
            "lengths": lengths,
            "patienceSeconds": one.patience_s,
            "rate": rate,
        },
    }
