"""When a tick falls due, and with what."""

from collections.abc import Iterable

import numpy as np
import pytest

from records.telemetry import TargetObserved
from streams.endpoints.effects import Count, PolicyDeleted, TickEffects
from tests.streams.controller.line import REQUESTS, Line, feed, feed_all, policy, run, sample, started


def _ticks(effects: Iterable[TickEffects]) -> list[int]:
    return [one.at_s for one in effects]


def _target(at_s: int, spec: int = 3, endpoint: str = "chat") -> TargetObserved:
    return TargetObserved(endpoint=endpoint, at_s=at_s, spec_replicas=spec)


def test_a_tick_waits_for_the_watermark_and_two_seconds_more() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1030))
    controller = started(policy())
    made = {at_s: _ticks(feed(controller, [line.arrivals[at_s - 1000]])) for at_s in range(1000, 1030)}
    # The watermark is the end of the newest second less 2 s: second 1006 ends at 1007.
    assert {at_s: ticks for at_s, ticks in made.items() if ticks} == {
        1006: [1005],
        1011: [1010],
        1016: [1015],
        1021: [1020],
        1026: [1025],
    }


def test_silence_is_ticked_by_processing_time_five_seconds_late() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1003))
    line.samples([sample(1002, endpoint="other", replica="x")])
    controller = started(policy(), policy("other"))
    assert _ticks(feed_all(controller, line.arrivals)) == []
    assert _ticks(controller.advance(1009.9)) == []
    made = list(controller.advance(1010.0))
    assert [(one.at_s, one.endpoint, one.signal.processed_s) for one in made] == [
        (1005, "chat", 1010.0),
        (1005, "other", 1010.0),
    ]
    assert list(controller.advance(1000.0)) == []


def test_another_endpoints_record_lets_time_pass_before_it_is_read() -> None:
    line = Line()
    line.samples([sample(1000), sample(1001)])
    line.add(REQUESTS, sample(1011, endpoint="other", replica="x"))
    controller = started(policy(), policy("other"))
    made = feed_all(controller, line.arrivals)
    assert [(one.at_s, one.endpoint, one.signal.offsets[REQUESTS]) for one in made] == [(1005, "chat", 2)]


def test_an_endpoint_without_samples_ticks_by_time() -> None:
    line = Line()
    line.add("telemetry.targets", _target(1000))
    controller = started(policy())
    feed_all(controller, line.arrivals)
    made = list(controller.advance(1020.0))
    assert _ticks(made) == [1005, 1010, 1015]
    assert made[0].decisions[0].current == 3


def test_a_target_read_before_the_tick_counts_whatever_the_order_of_topics() -> None:
    def decided(target_first: bool) -> list[bytes | str]:
        line = Line()
        samples = [sample(at_s) for at_s in range(1000, 1006)]
        if target_first:
            line.add("telemetry.targets", _target(1000, 5), 1001.5)
        line.samples(samples)
        if not target_first:
            line.add("telemetry.targets", _target(1000, 5), 1001.5)
        line.samples([sample(1006)])
        made = feed_all(started(policy()), line.arrivals)
        return [made[0].decisions[0].decision_id, str(made[0].signal.offsets)]

    assert decided(True)[0] == decided(False)[0]


@pytest.mark.parametrize(("ahead_s", "dropped"), [(60, 0), (61, 1)])
def test_a_sample_over_a_minute_ahead_is_dropped_and_counted(ahead_s: int, dropped: int) -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1010))
    line.add(REQUESTS, sample(1009 + ahead_s), 1010.0)
    controller = started(policy())
    feed_all(controller, line.arrivals)
    assert controller.counts[Count.TOO_FAR_AHEAD] == dropped


def test_a_sample_of_yesterday_is_late_and_of_the_last_minutes_still_counts() -> None:
    line = Line()
    line.samples(sample(at_s, running=8.0) for at_s in range(100_000, 100_400) if at_s != 100_390)
    before = run(line)[-1].signal.windows["20"]["inflight_requests"]
    line.add(REQUESTS, sample(100_390, running=8.0), 100_400.0)
    line.add(REQUESTS, sample(100_400 - 86_400), 100_400.5)
    controller = started(policy())
    feed_all(controller, line.arrivals)
    after = controller.finish()[-1].signal
    assert controller.counts[Count.LATE] == 1
    assert before.coverage == pytest.approx(19 / 20)
    assert after.windows["20"]["inflight_requests"].coverage == 1.0
    assert [(source.replica, source.late) for source in after.sources] == [("r1", 1)]


def test_duplicates_change_nothing() -> None:
    line = Line()
    doubled = Line()
    for at_s in range(1000, 1100):
        line.samples([sample(at_s)])
        doubled.samples([sample(at_s), sample(at_s)])
    assert [one.decisions for one in run(line)] == [one.decisions for one in run(doubled)]


def test_samples_without_a_policy_or_of_another_partition_are_counted() -> None:
    line = Line()
    line.samples([sample(1000, endpoint="nobody"), sample(1000, endpoint="elsewhere"), sample(1000)])
    line.add("telemetry.targets", _target(1000, endpoint="elsewhere"))
    line.add("telemetry.targets", _target(1000, endpoint="nobody"))
    controller = started(policy())
    feed_all(controller, line.arrivals)
    assert controller.counts[Count.NO_POLICY] == 2
    assert controller.counts[Count.WRONG_PARTITION] == 2
    assert controller.endpoints == ("chat",)


def test_a_policy_that_arrives_later_starts_the_endpoint_and_its_deletion_ends_it() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1020))
    line.add("policies", policy(), 1020.5)
    line.samples(sample(at_s) for at_s in range(1020, 1040))
    line.add("policies", PolicyDeleted("chat"), 1040.5)
    line.samples(sample(at_s) for at_s in range(1040, 1060))
    controller = started()
    made = feed_all(controller, line.arrivals) + controller.finish()
    assert _ticks(made) == [1025, 1030, 1035]
    assert controller.endpoints == ()
    assert controller.counts[Count.NO_POLICY] == 40
    assert controller.window_bytes < 200_000


def test_ticks_come_in_the_order_they_fell_due_then_by_tick_and_endpoint() -> None:
    policies = [policy(name) for name in ("b", "a", "c")]
    line = Line()
    for at_s in range(1000, 1100):
        for name in ("c", "a", "b"):
            if name != "c" or at_s < 1050:
                line.samples([sample(at_s, endpoint=name)])
    whole = feed_all(started(*policies), line.arrivals)
    keys = [(one.at_s, one.endpoint) for one in whole]
    assert keys[:6] == [(1005, "c"), (1005, "a"), (1005, "b"), (1010, "c"), (1010, "a"), (1010, "b")]
    # Silent from 1050 on, "c" is ticked by time, with the record that lets it pass.
    assert keys.index((1055, "c")) > keys.index((1055, "b"))


def test_the_end_of_a_replay_runs_ticks_up_to_the_last_receipt() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1030))
    assert _ticks(run(line))[-1] == 1030
    line.samples([sample(1030)])
    assert _ticks(run(line))[-1] == 1030


def test_a_first_record_from_long_ago_starts_no_ticks_of_long_ago() -> None:
    line = Line()
    line.add(REQUESTS, sample(1000), 90_000.0)
    line.samples(sample(at_s) for at_s in range(90_000, 90_020))
    assert _ticks(run(line))[0] == 90_000


@pytest.mark.parametrize(
    ("messages", "expected"), [(1, [(1005, 1), (1010, 1)]), (2, [(1005, 1), (1010, 2)]), (20, [(1005, 9), (1010, 19)])]
)
def test_rows_of_one_message_are_read_together(messages: int, expected: list[tuple[int, int]]) -> None:
    """A frame's rows share an offset: a tick that falls due with one of them has read them all."""
    controller = started(policy())
    rows = [sample(at_s, replica) for at_s in range(1002, 1012) for replica in ("r1", "r2")]
    offsets = np.repeat(np.arange(messages), 20 // messages)
    made = controller.feed(REQUESTS, rows, offsets, np.repeat([1007.0, 1012.0], 10))
    assert [(one.at_s, one.signal.offsets[REQUESTS]) for one in made] == expected
