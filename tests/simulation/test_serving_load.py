"""What load does to a replica: latency rises, throughput ends, the queue fills, the cache runs out."""

import math

import numpy as np
import pytest

from simulation.traffic import Arrivals
from tests.simulation.serving_runs import H100, advance, alike, fleet, mean, mean_ms, run, small, steady, total


def saturated_per_s(prompt: int, output: int, sequences: int) -> float:
    """Requests/s of an engine whose slots are always full: one prefill and its share of `output - 1` steps each."""
    context = sequences * (prompt + output / 2)
    step_s = (6.381 + 0.011803 * sequences + 0.041467 * context / 1000) / 1000
    prefill_s = (4.730 + 0.016647 * prompt + 6.930e-7 * prompt**2) / 1000
    return 1 / (prefill_s + (output - 1) * step_s / sequences)


@pytest.mark.parametrize(
    ("prompt", "output", "slots", "seed"),
    [(500, 200, 128, 31), (2000, 50, 32, 32), (100, 400, 64, 36)],
    ids=["seed=31", "seed=32", "seed=36"],
)
def test_throughput_ends_at_the_engines_limit(prompt: int, output: int, slots: int, seed: int) -> None:
    limit = saturated_per_s(prompt, output, slots)
    serving = fleet(small(max_num_seqs=slots), 1, seed)
    shown = run(serving, steady(3 * limit, prompt, output), range(40), seed)[15:]
    assert total(shown, "completions") / 25 == pytest.approx(limit, rel=0.06)
    assert total(shown, "output_tokens") / 25 == pytest.approx(limit * output, rel=0.06)
    assert mean(shown, "running") > 0.6 * slots
    assert np.mean([one.gpus.gpu_utilization[0] for one in shown]) > 0.99


def test_what_is_above_the_limit_is_rejected_once_the_queue_is_full() -> None:
    limit = saturated_per_s(500, 200, 128)
    shown = run(fleet(), steady(3 * limit, 500, 200), range(40))
    assert total(shown[:2], "rejections") == 0
    later = shown[20:]
    assert total(later, "rejections") / 20 == pytest.approx(2 * limit, rel=0.15)
    assert max(float(one.gauges["waiting"][0]) for one in shown) <= H100.waiting_max
    assert mean(later, "waiting") > 0.95 * H100.waiting_max
    queue_s = H100.waiting_max / limit
    assert mean_ms(later, "queue_ms") == pytest.approx(queue_s * 1000, rel=0.1)
    assert mean_ms(later, "ttft_ms") > mean_ms(later, "queue_ms")


@pytest.mark.parametrize("seed", [33], ids=lambda seed: f"seed={seed}")
def test_latency_rises_with_load(seed: int) -> None:
    limit = saturated_per_s(500, 200, 128)
    loads = [run(fleet(), steady(share * limit, 500, 200), range(20), seed)[8:] for share in (0.1, 0.4, 0.7, 0.95)]
    for name in ("ttft_ms", "tpot_ms", "e2e_ms"):
        values = [mean_ms(shown, name) for shown in loads]
        assert values == sorted(values), name
        assert values[-1] > 1.3 * values[0], name


@pytest.mark.parametrize(("rate", "seed"), [(3.0, 34), (15.0, 35)], ids=["seed=34", "seed=35"])
def test_requests_inside_are_their_rate_times_their_time(rate: float, seed: int) -> None:
    """Little's law, and so for those that wait, over a span that is long against a request's time."""
    serving = fleet(replicas=2, seed=seed)
    shown = run(serving, steady(2 * rate, 500, 200), range(75), seed)[10:]
    inside = mean(shown, "running") + mean(shown, "waiting")
    arrivals_per_s = total(shown, "arrivals") / len(shown)
    assert inside == pytest.approx(arrivals_per_s * mean_ms(shown, "e2e_ms") / 1000, rel=0.05)


def test_a_small_cache_preempts_the_newest_and_all_is_generated() -> None:
    """Four sequences of 400 + 400 tokens in 2,048: two fit to their end."""
    serving = fleet(small(kv_cache_tokens=2048))
    shown = [advance(serving, 0, alike(4, 400, 400))]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
    assert total(shown, "preemptions") >= 2
    assert total(shown, "completions") == 4
    assert total(shown, "output_tokens") == 1600
    assert total(shown, "input_tokens") == 1600, "a prompt counts once, however often it is computed"
    assert sum(int(one.latencies["ttft_ms"].counts.sum()) for one in shown) == 4
    assert max(float(one.gauges["kv_cache_usage"][0]) for one in shown) > 0.7
    # The first two lose nothing; who is preempted computes its prompt again, and waits for a place.
    roomy = fleet()
    unhindered = [advance(roomy, 0, alike(4, 400, 400)), *(advance(roomy, second) for second in range(1, len(shown)))]
    assert mean_ms(shown, "e2e_ms") > 1.2 * mean_ms(unhindered, "e2e_ms")
    assert total(unhindered, "preemptions") == 0


def test_who_was_preempted_is_not_turned_away() -> None:
    """Room for none to wait: that is for those who come, not for those who were in."""
    serving = fleet(small(kv_cache_tokens=512, waiting_max=0))
    shown = [advance(serving, 0, alike(3, 16, 300))]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
    assert total(shown, "preemptions") > 0
    assert (total(shown, "arrivals"), total(shown, "rejections"), total(shown, "completions")) == (3, 0, 3)


def test_a_request_is_cut_to_the_models_context() -> None:
    serving = fleet(small(context_tokens_max=1000))
    shown = [advance(serving, 0, Arrivals.of([(0.0, 5000, 0, 10, math.inf), (0.0, 900, 0, 500, math.inf)]))]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
    assert total(shown, "input_tokens") == 999 + 900
    assert total(shown, "output_tokens") == 1 + 100


def test_a_long_prompt_slows_those_that_decode_but_does_not_stop_them() -> None:
    """Chunked prefill: 30,000 tokens take 1.1 s of the engine, of which decoding gets a step a chunk."""
    prompt_s = float(H100.prefill_s(np.array([30_000.0]))[0])
    alone, beside = fleet(), fleet()
    for serving in (alone, beside):
        advance(serving, 0, alike(8, 100, 2000))
    undisturbed = advance(alone, 1)
    disturbed = advance(beside, 1, Arrivals.of([(0.0, 30_000, 0, 1, math.inf)]))
    assert 1.0 < prompt_s < 1.3
    quiet, busy = (int(one.counts["output_tokens"][0]) for one in (undisturbed, disturbed))
    assert 0.01 * quiet < busy < 0.2 * quiet
    assert float(disturbed.gpus.sm_active[0]) > float(undisturbed.gpus.sm_active[0])
    assert float(disturbed.gpus.dram_active[0]) < float(undisturbed.gpus.dram_active[0])


def test_the_cache_spares_prefill() -> None:
    cold, warm = fleet(), fleet()
    asked = [(number / 50, 8000, 0, 2, math.inf) for number in range(50)]
    cold_s = advance(cold, 0, Arrivals.of(asked))
    warm_s = advance(warm, 0, Arrivals.of([(at, prompt, 7900, output, wait) for at, prompt, _, output, wait in asked]))
    assert int(cold_s.counts["completions"][0]) < 10
    assert int(warm_s.counts["completions"][0]) == 50
    assert int(warm_s.counts["cached_tokens"][0]) == 50 * 7900
