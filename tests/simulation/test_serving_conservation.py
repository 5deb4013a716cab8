"""Nothing appears and nothing is lost, whatever comes, breaks or leaves."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.engine_model import EngineModel
from simulation.serving.replicas import ServingReplicas
from simulation.serving.second import COUNTS, SecondOfServing
from simulation.traffic import Arrivals
from tests.simulation.serving_runs import IDLE, advance, samples, small

SECONDS = 8

models = st.builds(
    small,
    kv_cache_tokens=st.sampled_from([512, 1024, 4096, 400_000]),
    max_num_seqs=st.sampled_from([1, 3, 16, 128]),
    waiting_max=st.sampled_from([0, 2, 20, 300]),
    step_tokens=st.sampled_from([64, 512, 8192]),
)


@st.composite
def requests(draw: st.DrawFn) -> Arrivals:
    """None to a few hundred requests; long and short, patient and not, spread or at one moment."""
    count = draw(st.sampled_from([0, 0, 1, 5, 40, 200]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offsets = rng.random(count) * draw(st.sampled_from([0.0, 0.05, 1.0]))
    prompt = rng.integers(1, draw(st.sampled_from([2, 40, 3000])), count)
    return Arrivals(
        offset_s=np.sort(offsets),
        input_tokens=prompt,
        cached_tokens=(prompt * draw(st.sampled_from([0.0, 0.5]))).astype(np.int64),
        output_tokens=rng.integers(1, draw(st.sampled_from([2, 30, 600])), count),
        patience_s=rng.exponential(draw(st.sampled_from([0.5, 5.0, 1e9])), count),
    )


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "drain", "remove", "die", "hang", "slow", "resume"]),
        st.integers(0, 9),
    ),
    max_size=2,
)


def change(serving: ServingReplicas, kind: str, number: int) -> None:
    """Something happens to a replica, if there is one."""
    if kind == "add":
        if f"n{number}" not in serving.names:
            serving.add(f"n{number}")
        return
    if not serving.names:
        return
    name = serving.names[number % len(serving.names)]
    if kind == "slow":
        serving.slow(name, 1.0 + number)
    else:
        getattr(serving, kind)(name)


def all_counts(serving: ServingReplicas) -> Counter[str]:
    """Everything that ever happened, at replicas that are there and that are gone."""
    counts = Counter({name: serving.departed[name] for name in COUNTS})
    for name in COUNTS:
        counts[name] += int(serving.engines.ledger.happened[name].sum())
    return counts


@settings(max_examples=60, deadline=None)
@given(
    model=models,
    seed=st.integers(0, 2**32 - 1),
    script=st.lists(st.tuples(changes, requests()), min_size=1, max_size=SECONDS),
    waiting_max=st.sampled_from([0, 10, 1000]),
)
def test_every_request_and_token_is_somewhere(
    model: EngineModel, seed: int, script: list[tuple[list[tuple[str, int]], Arrivals]], waiting_max: int
) -> None:
    serving = ServingReplicas(model, np.random.default_rng(seed), gateway_waiting_max=waiting_max)
    offered = 0
    for number in range(2):
        serving.add(f"r{number}")
    for second, (happens, arrivals) in enumerate(script):
        for kind, which in happens:
            change(serving, kind, which)
        offered += len(arrivals)
        advance(serving, second, arrivals)
        counts, gateway = all_counts(serving), serving.gateway
        reached = counts["arrivals"] + counts["rejections"]
        assert offered == reached - gateway.forwarded + gateway.arrivals + gateway.rejections
        left = counts["completions"] + counts["errors"] + counts["aborted"]
        assert counts["arrivals"] == left + sum(serving.inflight.values())


@settings(max_examples=15, deadline=None)
@given(
    model=models,
    seed=st.integers(0, 2**32 - 1),
    script=st.lists(requests(), min_size=1, max_size=4),
)
def test_what_is_not_aborted_is_generated_to_its_end(model: EngineModel, seed: int, script: list[Arrivals]) -> None:
    """Tokens by the requests that came, not by the simulation's own books."""
    patient = [
        Arrivals(
            offset_s=one.offset_s,
            input_tokens=np.minimum(one.input_tokens, 200),
            cached_tokens=np.minimum(one.cached_tokens, 100),
            output_tokens=np.minimum(one.output_tokens, 60),
            patience_s=np.full(len(one), np.inf),
        )
        for one in script
    ]
    serving = ServingReplicas(small(**{**_limits(model), "waiting_max": 10_000}), np.random.default_rng(seed))
    serving.add("r0")
    shown = [advance(serving, second, arrivals) for second, arrivals in enumerate(patient)]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
        assert len(shown) < 3000
    told = {name: sum(int(one.counts[name].sum()) for one in shown) for name in COUNTS}
    assert told["completions"] == told["arrivals"] == sum(map(len, patient))
    assert told["output_tokens"] == sum(int(one.output_tokens.sum()) for one in patient)
    assert told["input_tokens"] == sum(int(one.input_tokens.sum()) for one in patient)
    assert told["cached_tokens"] == sum(
        int(np.minimum(one.cached_tokens, one.input_tokens - 1).sum()) for one in patient
    )
    for name in ("ttft_ms", "e2e_ms", "queue_ms"):
        assert sum(int(one.latencies[name].counts.sum()) for one in shown) == told["completions"]


def _limits(model: EngineModel) -> dict[str, int]:
    names = ("kv_cache_tokens", "max_num_seqs", "step_tokens")
    return {name: getattr(model, name) for name in names}


def script(seed: int) -> Iterator[SecondOfServing]:
    """Two replicas and random traffic, with everything that can happen."""
    rng = np.random.default_rng(seed)
    serving = ServingReplicas(small(kv_cache_tokens=8192, waiting_max=30), np.random.default_rng(seed + 1))
    serving.add("r0")
    serving.add("r1")
    happens = {8: ("hang", "r1"), 16: ("resume", "r1"), 20: ("slow", "r0"), 24: ("drain", "r0"), 28: ("die", "r1")}
    for second in range(34):
        if second in happens:
            kind, name = happens[second]
            serving.slow(name, 3.0) if kind == "slow" else getattr(serving, kind)(name)
        if second == 31:
            serving.add("r2")
        count = int(rng.poisson(25))
        yield advance(
            serving,
            second,
            Arrivals(
                offset_s=np.sort(rng.random(count)),
                input_tokens=rng.integers(1, 900, count),
                cached_tokens=np.zeros(count, np.int64),
                output_tokens=rng.integers(1, 200, count),
                patience_s=rng.exponential(20.0, count),
            ),
        )


@pytest.mark.parametrize("seed", [11, 12], ids=lambda seed: f"seed={seed}")
def test_the_same_seed_gives_the_same_samples(seed: int) -> None:
    first, again = ([samples(one) for one in script(seed)] for _ in range(2))
    assert first == again
    assert first[:5] != [samples(one) for one, _ in zip(script(seed + 100), range(5), strict=False)]


@pytest.mark.parametrize("seed", [21, 22, 23, 24], ids=lambda seed: f"seed={seed}")
def test_the_readings_change_by_what_is_counted(seed: int) -> None:
    """Of two seconds in a row: in-flight changes by half of what each of them counts, hung or not, to the last one."""
    last: dict[str, tuple[float, int]] = {}
    compared = 0
    for shown in script(seed):
        now = {}
        for row, name in enumerate(shown.replicas):
            counts = {one: int(shown.counts[one][row]) for one in COUNTS}
            net = counts["arrivals"] - counts["completions"] - counts["errors"] - counts["aborted"]
            inside = float(shown.gauges["running"][row] + shown.gauges["waiting"][row])
            now[name] = (inside, net)
            if name in last:
                assert inside - last[name][0] == (last[name][1] + net) / 2
                compared += 1
        last = now
    assert compared > 50


def test_an_endpoint_without_replicas_and_requests_shows_known_zeros() -> None:
    serving = ServingReplicas(small(), np.random.default_rng(1))
    shown = advance(serving, 0, IDLE)
    assert shown.replicas == ()
    (sample,) = samples(shown)
    assert (sample.arrivals, sample.waiting, sample.rejections) == (0, 0.0, 0)
