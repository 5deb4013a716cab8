"""Parts of the engines by themselves: books, tables, prefill's chain, who is preempted and comes back."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.serving.ledger import Ledger
from simulation.serving.prefill import run_prefill
from simulation.serving.replicas import ServingReplicas
from simulation.serving.rows import Groups, rows_of, set_work
from simulation.traffic import Arrivals
from simulation.vllm_bounds import VLLM_BOUNDS_MS
from tests.simulation.serving_runs import H100, advance, alike, fleet, run, small, steady, total


@pytest.mark.parametrize(("ms", "bucket"), [(0.5, 0), (1.0, 0), (1.001, 1), (250.0, 8), (3e6, 22)])
def test_a_value_on_a_bound_belongs_below_it(ms: float, bucket: int) -> None:
    ledger = Ledger()
    ledger.add()
    ledger.add()
    ledger.took("ttft_ms", np.array([1]), np.array([ms / 1000]))
    shown = ledger.show_latencies()["ttft_ms"]
    assert shown.bounds_ms == VLLM_BOUNDS_MS["ttft_ms"]
    assert np.flatnonzero(shown.counts[1]).tolist() == [bucket]
    assert shown.counts.sum() == 1
    assert shown.of(1).sum == pytest.approx(ms)
    assert ledger.show_latencies()["ttft_ms"].counts.sum() == 0, "each second anew"


def test_what_was_generated_before_a_preemption_is_computed_again() -> None:
    rows = rows_of(Arrivals.of([(0.0, 1000, 600, 500, math.inf)]), 0, H100)
    rows["generated"] = 300
    set_work(rows, H100)
    assert rows["work_s"][0] == pytest.approx(float(H100.prefill_s(np.array([700.0]))[0]))


@settings(max_examples=80, deadline=None)
@given(
    prompts=st.lists(st.tuples(st.integers(0, 4), st.floats(0, 0.2), st.floats(0.001, 0.2)), max_size=30),
    share=st.lists(st.floats(0.1, 1.0), min_size=5, max_size=5),
)
def test_prompts_follow_each_other(prompts: list[tuple[int, float, float]], share: list[float]) -> None:
    """Against a loop over the prompts of each replica."""
    prompts.sort(key=lambda one: one[0])
    replica = np.array([one[0] for one in prompts], np.int32)
    ready, work = np.array([one[1] for one in prompts]), np.array([one[2] for one in prompts])
    made = run_prefill(ready, work, np.array(share), Groups(replica, 5), 0.1)
    free = dict.fromkeys(range(5), 0.0)
    spent = dict.fromkeys(range(5), 0.0)
    for row, (which, ready_s, work_s) in enumerate(prompts):
        start = max(ready_s, free[which])
        free[which] = start + work_s / share[which]
        spent[which] += work_s
        assert made.start_s[row] == pytest.approx(start, abs=1e-9)
        assert made.end_s[row] == pytest.approx(free[which], abs=1e-9)
        assert made.work_until_s[row] == pytest.approx(spent[which])
    assert made.begins.tolist() == (made.start_s < 0.1).tolist()


def first_served(serving: ServingReplicas, asked: Arrivals) -> list[int]:
    """Prompt lengths, which tell the requests apart, in the order in which they end."""
    ended: list[int] = []
    inside = {int(length) for length in asked.input_tokens}
    for second in range(60):
        advance(serving, second, asked if second == 0 else Arrivals.none())
        engines = serving.engines
        decoding = engines.decoding.look(engines.decoding.held_by(np.ones(engines.replicas, np.bool_)))
        left = {*decoding["input"].tolist(), *engines.queue["input"].tolist()}
        ended += sorted(inside - left)
        inside &= left
    assert inside == set()
    return ended


def test_the_newest_is_preempted_and_comes_back_before_those_that_never_ran() -> None:
    """1,024 tokens of cache: 301 and 302 outgrow it together; 303 and 304 wait from the start."""
    serving = fleet(small(kv_cache_tokens=1024, max_num_seqs=2))
    asked = Arrivals.of([(number / 100, 301 + number, 0, 500, math.inf) for number in range(4)])
    assert first_served(serving, asked) == [301, 302, 303, 304]
    assert int(serving.engines.ledger.happened["preemptions"][0]) >= 2


def test_who_comes_back_waits_for_room_for_all_that_it_had() -> None:
    """A place for prompt and generated tokens, not for the prompt alone: it is not preempted over and over."""
    serving = fleet(small(kv_cache_tokens=1024, max_num_seqs=2))
    shown = [advance(serving, 0, alike(2, 16, 900))]
    while serving.inflight["r0"]:
        shown.append(advance(serving, len(shown)))
    assert total(shown, "completions") == 2
    assert total(shown, "preemptions") == 1


@pytest.mark.parametrize("seed", [81, 82], ids=lambda seed: f"seed={seed}")
def test_where_none_may_wait_a_free_engine_still_takes_what_comes(seed: int) -> None:
    shown = run(fleet(small(waiting_max=0)), steady(2.0, 50, 200), range(40), seed)
    assert total(shown, "arrivals") > 50
    assert total(shown, "rejections") <= 1


def test_where_none_may_wait_what_finds_no_slot_is_rejected() -> None:
    shown = advance(fleet(small(waiting_max=0, max_num_seqs=3)), 0, alike(10, 50, 2000))
    assert (int(shown.counts["arrivals"][0]), int(shown.counts["rejections"][0])) == (3, 7)
