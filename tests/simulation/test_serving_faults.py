"""Replicas that leave, hang, are slow or die, clients that go away, and the gateway that holds what none takes."""

import math

import numpy as np
import pytest

from simulation.engine_model import ENGINE_MODELS
from simulation.serving.replicas import LeftBehind
from simulation.serving.second import COUNTS
from simulation.traffic import Patience
from tests.simulation.serving_runs import H100, START_S, advance, alike, fleet, mean, mean_ms, run, small, steady, total


def test_a_draining_replica_takes_none_and_ends_what_it_has() -> None:
    serving = fleet(small(max_num_seqs=2), 2)
    advance(serving, 0, alike(12, 100, 150))
    before = serving.inflight
    serving.drain("r0")
    shown = run(serving, steady(5.0, 100, 20), range(1, 25))
    row = shown[0].replicas.index("r0")
    assert before["r0"] > 2, "one of them waited"
    assert sum(int(one.counts["arrivals"][row]) for one in shown) == 0
    assert sum(int(one.counts["completions"][row]) for one in shown) == before["r0"]
    assert serving.inflight["r0"] == 0
    assert sum(int(one.counts["aborted"].sum()) for one in shown) == 0
    assert serving.remove("r0") == LeftBehind(running=0, waiting=0)
    assert serving.names == ("r1",)


@pytest.mark.parametrize(("way", "fate"), [("remove", "aborted"), ("die", "errors")])
def test_what_a_replica_takes_with_it_is_counted(way: str, fate: str) -> None:
    serving = fleet(small(max_num_seqs=4), 2)
    advance(serving, 0, alike(20, 100, 500))
    left: LeftBehind = getattr(serving, way)("r0")
    assert left == LeftBehind(running=4, waiting=6)
    shown = advance(serving, 1)
    assert shown.replicas == ("r1",)
    assert serving.departed[fate] == 10
    assert serving.departed["arrivals"] == 10
    serving.add("r0")
    again = advance(serving, 2)
    fresh = again.fields_of(again.replicas.index("r0"))
    assert [fresh[name] for name in (*COUNTS, "running", "waiting")] == [0] * (len(COUNTS) + 2)


def test_a_hang_shows_what_the_engine_last_said_and_its_end_what_happened() -> None:
    serving = fleet(small(max_num_seqs=8), 2)
    run(serving, steady(10.0, 100, 200, Patience(median_s=6.0)), range(6))
    serving.hang("r1")
    hung = run(serving, steady(10.0, 100, 200, Patience(median_s=6.0)), range(6, 20), seed=3)
    of = [one.fields_of(one.replicas.index("r1")) for one in hung]
    assert all(fields[name] == 0 for fields in of for name in COUNTS)
    assert all(not any(fields["e2e_ms"].bucket_counts) for fields in of)
    assert len({(fields["running"], fields["waiting"], fields["kv_cache_usage"]) for fields in of[1:]}) == 1
    assert of[-1]["running"] > 0
    assert hung[-1].inflight["r1"] != of[-1]["running"] + of[-1]["waiting"], "clients came and went meanwhile"
    serving.resume("r1")
    (after,) = run(serving, steady(10.0, 100, 200), range(20, 21))
    fields = after.fields_of(after.replicas.index("r1"))
    assert fields["arrivals"] > 5
    assert fields["aborted"] > 5
    assert fields["steps"] > 0


def test_the_router_does_not_know_that_a_replica_hangs() -> None:
    serving = fleet(replicas=2)
    serving.hang("r1")
    run(serving, steady(4.0, 100, 100), range(10))
    happened = serving.engines.ledger.happened["arrivals"].tolist()
    assert happened[1] > 2
    assert happened[0] > happened[1], "the other has fewer in flight, so it gets more"


@pytest.mark.parametrize("name", ["llama-3.1-8b/H100", "llama-3.1-70b/H100x4"])
def test_the_gpus_of_a_hang(name: str) -> None:
    """engines that span GPUs spin in a collective kernel (vLLM issue 46097); one alone has no work."""
    model = ENGINE_MODELS[name]
    serving = fleet(model)
    run(serving, steady(3.0), range(5))
    serving.hang("r0")
    (shown,) = run(serving, steady(3.0), range(5, 6))
    fields = shown.gpus.fields_of(0)
    spins = 1.0 if model.gpus > 1 else 0.0
    assert (fields["gpu_utilization"], fields["sm_active"], fields["dram_active"]) == (spins, spins, 0.0)
    assert fields["power_w"] < 0.25 * model.gpu.limit_w


def test_a_slow_replica_takes_that_much_longer() -> None:
    plain, slow = fleet(), fleet()
    slow.slow("r0", 3.0)
    times = []
    for serving in (plain, slow):
        shown = [advance(serving, 0, alike(1, 2000, 100))]
        shown += [advance(serving, second) for second in range(1, 6)]
        times.append([mean_ms(shown, name) for name in ("ttft_ms", "tpot_ms", "e2e_ms")])
    assert times[1] == pytest.approx([3 * value for value in times[0]], rel=1e-3)
    slow.resume("r0")
    shown = [advance(slow, 6, alike(1, 2000, 100)), advance(slow, 7)]
    assert mean_ms(shown, "e2e_ms") == pytest.approx(times[0][2], rel=1e-3)


def test_a_slow_replica_gets_less() -> None:
    serving = fleet(replicas=3)
    serving.slow("r1", 5.0)
    shown = run(serving, steady(60.0), range(15))
    done = [sum(int(one.counts["completions"][row]) for one in shown) for row in range(3)]
    assert done[1] < 0.6 * min(done[0], done[2])


def test_clients_go_away_from_the_queue_and_from_the_batch() -> None:
    serving = fleet(small(max_num_seqs=1))
    shown = [advance(serving, 0, alike(3, 100, 2000, patience_s=2.05))]
    shown += [advance(serving, second) for second in range(1, 4)]
    assert [int(one.counts["aborted"][0]) for one in shown] == [0, 0, 3, 0]
    assert total(shown, "completions") == 0
    assert 150 < total(shown, "output_tokens") < 350, "what was generated for them was generated"
    assert serving.inflight == {"r0": 0}


def test_a_patient_client_is_served() -> None:
    serving = fleet(small(max_num_seqs=1))
    shown = [advance(serving, 0, alike(3, 100, 100, patience_s=math.inf))]
    shown += [advance(serving, second) for second in range(1, 4)]
    assert total(shown, "completions") == 3


def test_without_a_replica_requests_wait_at_the_gateway() -> None:
    serving = fleet(replicas=0, gateway_waiting_max=50)
    first = advance(serving, 0, alike(30, at_s=0.55))
    assert (first.gateway.arrivals, first.gateway.waiting, first.gateway.rejections) == (30, 15.0, 0)
    assert first.gateway.arrived_input_tokens == 15_000
    assert first.gateway.arrived_output_tokens_estimate is None, "none has ended yet: unknown, not 0"
    second = advance(serving, 1, alike(30))
    assert (second.gateway.arrivals, second.gateway.rejections, second.gateway.waiting) == (20, 10, 40.0)
    serving.add("r0")
    third = advance(serving, 2, alike(5))
    assert third.gateway.forwarded == 55, "who came meanwhile waited behind the others, until there was room"
    assert third.gateway.fields()["waiting"] == 25.0
    assert int(third.counts["arrivals"][0]) == 55
    fourth = advance(serving, 3, alike(5))
    assert (fourth.gateway.arrivals, int(fourth.counts["arrivals"][0])) == (0, 5)


def test_the_gateway_hands_over_no_more_than_fits() -> None:
    """A replica that comes up before a long queue rejects none of it."""
    serving = fleet(small(max_num_seqs=8, waiting_max=8), replicas=0)
    advance(serving, 0, alike(200, 100, 50))
    serving.add("r0")
    shown = [advance(serving, second) for second in range(1, 20)]
    assert total(shown, "rejections") == 0
    assert total(shown, "completions") == 200
    assert max(float(one.gauges["waiting"][0] + one.gauges["running"][0]) for one in shown) <= 16


def test_clients_go_away_from_the_gateway() -> None:
    serving = fleet(replicas=0)
    shown = [advance(serving, 0, alike(30, patience_s=1.5)), advance(serving, 1), advance(serving, 2)]
    assert [one.gateway.aborted for one in shown] == [0, 30, 0]
    assert shown[-1].gateway.waiting == 0


def test_latencies_of_the_engine_begin_where_the_gateway_ends() -> None:
    serving = fleet(replicas=0)
    advance(serving, 0, alike(1, 1000, 10))
    advance(serving, 1)
    serving.add("r0")
    shown = advance(serving, 2)
    assert mean_ms([shown], "ttft_ms") < 100


def test_a_new_replica_takes_its_share() -> None:
    serving = fleet(replicas=2)
    run(serving, steady(60.0), range(10))
    serving.add("r2")
    shown = run(serving, steady(60.0), range(10, 30))
    inside = [one.gauges["running"] + one.gauges["waiting"] for one in shown[5:]]
    assert np.mean(inside, axis=0) == pytest.approx(float(np.mean(inside)), rel=0.1)


def test_warm_gpus_cool_down() -> None:
    serving = fleet()
    busy = run(serving, steady(30.0), range(60))
    idle = [advance(serving, second) for second in range(60, 140)]
    temperatures = [float(one.gpus.temperature_c[0]) for one in (*busy, *idle)]
    assert temperatures[59] > 55
    assert temperatures[-1] < 37
    assert mean(idle[10:], "running") == 0
    assert float(idle[-1].gpus.power_w[0]) == H100.gpu.idle_w


def test_what_cannot_be_is_refused() -> None:
    serving = fleet(replicas=2)
    with pytest.raises(KeyError, match=r"no replica 'r7'; there are r0, r1"):
        serving.drain("r7")
    with pytest.raises(ValueError, match=r"replica 'r1' is there already"):
        serving.add("r1")
    with pytest.raises(ValueError, match=r"factor must be at least 1 and finite, got 0\.5"):
        serving.slow("r0", 0.5)
    advance(serving, 0)
    with pytest.raises(ValueError, match=rf"second must be {START_S + 1}, the one after the last, got {START_S + 2}"):
        advance(serving, 2)
    with pytest.raises(ValueError, match=r"waiting_max must be at least 0, got -1"):
        fleet(gateway_waiting_max=-1)
