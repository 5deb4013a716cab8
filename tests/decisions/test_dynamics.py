"""Runs of ticks: growth, spikes, dips, stabilisation, convergence. The drawings show replicas over ticks of 5 s."""

import itertools

import pytest

from records.enums import ValueState
from records.signals import SignalValue
from tests.decisions.ticks import Endpoint, policy_of

STEADY = 60
"""Ticks of a whole down window."""


def load_on(policy_target: float, replicas: int) -> dict[str, float | str]:
    return {"inflight_requests": policy_target * replicas}


def mean_of_spike(base: float, factor: float, spike_s: int, window_s: int) -> float:
    """The mean over a window that holds the whole spike."""
    return base * ((window_s - spike_s) + factor * spike_s) / window_s


def test_ten_to_ten_thousand_requests_a_second_within_a_minute() -> None:
    """2 replicas carry 10 requests/s; the load jumps a thousandfold: 2 6 12 24 48 96 192 ... 2000 within 12 ticks."""
    endpoint = Endpoint(policy_of(maxReplicas=5000), replicas=2)
    grown = endpoint.run(12, lambda tick, replicas: load_on(8, 2000))
    assert grown[:4] == [6, 12, 24, 48]
    assert grown.index(2000) * 5 <= 60
    assert grown[-1] == 2000


def test_a_tenfold_spike_of_two_seconds_is_not_tenfold_replicas() -> None:
    endpoint = Endpoint(policy_of(maxReplicas=1000), replicas=10)
    endpoint.run(STEADY, lambda tick, replicas: load_on(8, 10))
    spiked = mean_of_spike(80.0, 10, spike_s=2, window_s=20)
    peak = max(endpoint.run(4, lambda tick, replicas: {"inflight_requests": spiked}))
    assert peak == 19
    after = endpoint.run(STEADY + 10, lambda tick, replicas: load_on(8, 10))
    assert after[-1] == 10


def test_a_dip_of_a_minute_changes_nothing() -> None:
    endpoint = Endpoint(policy_of(), replicas=10)
    endpoint.run(STEADY, lambda tick, replicas: load_on(8, 10))
    dipped = endpoint.run(12, lambda tick, replicas: {"inflight_requests": 80.0 * 0.05})
    assert set(dipped) == {10}
    assert {it.reason.value for it in endpoint.decisions[-12:]} == {"stabilising"}
    assert set(endpoint.run(STEADY, lambda tick, replicas: load_on(8, 10))) == {10}


def test_coming_down_waits_a_window_then_halves() -> None:
    """100 ... 100 | 50 25 13 7 4 2 1"""
    endpoint = Endpoint(policy_of(maxReplicas=100), replicas=100)
    endpoint.run(STEADY, lambda tick, replicas: load_on(8, 100))
    down = endpoint.run(STEADY + 10, lambda tick, replicas: load_on(8, 0))
    assert down[: STEADY - 1] == [100] * (STEADY - 1)
    assert down[STEADY - 1 : STEADY + 6] == [50, 25, 13, 7, 4, 2, 1]


def test_a_falling_load_is_followed_a_window_later() -> None:
    endpoint = Endpoint(policy_of(maxReplicas=100), replicas=60)
    endpoint.run(STEADY, lambda tick, replicas: load_on(8, 60))
    fallen = endpoint.run(120, lambda tick, replicas: load_on(8, max(1, 60 - tick)))
    assert all(later <= earlier for earlier, later in itertools.pairwise(fallen))
    assert all(now >= max(1, 60 - tick) for tick, now in enumerate(fallen))
    assert fallen[119] == 1


def test_a_load_that_swings_around_the_target_does_not_move_the_fleet() -> None:
    endpoint = Endpoint(policy_of(), replicas=10)
    endpoint.run(STEADY, lambda tick, replicas: load_on(8, 10))
    swung = endpoint.run(200, lambda tick, replicas: {"inflight_requests": 79.0 if tick % 2 else 73.0})
    assert set(swung) == {10}


def test_utilisation_settles_in_its_tolerance() -> None:
    policy = policy_of(maxReplicas=100, metrics=[{"name": "gpu_utilization", "target": 0.5}])
    endpoint = Endpoint(policy, replicas=4)
    work = 5.0
    grown = endpoint.run(20, lambda tick, replicas: {"gpu_utilization": min(1.0, work / replicas)})
    assert grown[-1] == grown[-2]
    assert abs(work / grown[-1] - 0.5) <= 0.05


@pytest.mark.parametrize("outage_ticks", [1, 30, 400])
def test_after_an_outage_of_a_signal_down_needs_a_whole_window_again(outage_ticks: int) -> None:
    endpoint = Endpoint(policy_of(), replicas=10)
    endpoint.run(2 * STEADY, lambda tick, replicas: load_on(8, 10))
    out = endpoint.run(outage_ticks, lambda tick, replicas: {"inflight_requests": "unknown"})
    assert set(out) == {10}
    back = endpoint.run(STEADY + 1, lambda tick, replicas: load_on(8, 2))
    assert back[: STEADY - 1] == [10] * (STEADY - 1)
    assert back[STEADY - 1] == 5


def test_a_latency_that_has_nothing_to_measure_does_not_restart_the_window() -> None:
    """Requests that decode for long: at some ticks none had its first token. They were heard all the same."""
    policy = policy_of(metrics=[{"name": "inflight_requests"}, {"name": "ttft", "target": 500}])
    endpoint = Endpoint(policy, replicas=10)

    def readings(tick: int, replicas: int) -> dict[str, float | str]:
        return {"inflight_requests": 8.0, "ttft": 100.0}

    endpoint.run(STEADY - 1, readings)
    silent = endpoint.tick({"inflight_requests": 8.0, "ttft": _heard_but_empty()})
    assert (silent.action, silent.reason) == ("hold", "unknown")
    assert endpoint.tick(readings(0, 10)).desired == 5


def _heard_but_empty() -> SignalValue:
    return SignalValue(value=None, state=ValueState.STALE, coverage=1.0)
