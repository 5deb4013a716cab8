"""Answers into samples: conservation, epochs, gaps, health."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.answers import Answer
from collectors.tracker import SPREAD_MAX_S, EngineTracker, Outcome, Problem
from records.telemetry import RequestSample
from tests.collectors.expositions import START_S, failed_scrape, health, scrape, vllm_body


def run(answers: Iterable[Answer]) -> list[RequestSample]:
    tracker = EngineTracker("chat", "chat-0")
    samples = [sample for answer in answers for sample in tracker.observe(answer).samples]
    return [*samples, *tracker.close()]


def tokens(value: int, running: float = 0.0, process_start: float | None = 1_699_999_000.25) -> str:
    counters = {"generation_tokens_total": value, "length": value // 10}
    return vllm_body(counters, {"num_requests_running": running}, process_start=process_start)


def by_second(samples: Sequence[RequestSample], field: str = "output_tokens") -> dict[int, object]:
    return {sample.at_s - START_S: getattr(sample, field) for sample in samples}


def test_a_scrape_gives_the_sample_of_its_second() -> None:
    samples = run([scrape(t + 0.5, tokens(100 * t, running=t)) for t in range(4)])
    assert by_second(samples) == {0: None, 1: 100, 2: 100, 3: 100}
    assert by_second(samples, "completions") == {0: None, 1: 10, 2: 10, 3: 10}
    assert by_second(samples, "running") == {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}
    assert {sample.epoch for sample in samples} == {"1699999000250"}
    assert {(sample.endpoint, sample.replica, sample.source) for sample in samples} == {("chat", "chat-0", "engine")}


def test_the_first_scrape_of_an_epoch_gives_gauges_only() -> None:
    (sample,) = run([scrape(0.5, tokens(1000, running=3))])
    assert sample.running == 3.0
    assert sample.output_tokens is None
    assert sample.completions is None
    assert sample.ttft_ms is None


def test_counts_that_the_engine_does_not_have_are_unknown_and_not_zero() -> None:
    samples = run([scrape(t, tokens(t)) for t in range(3)])
    assert samples[-1].output_tokens == 1
    assert samples[-1].arrivals is None
    assert samples[-1].preemptions is None
    assert samples[-1].waiting is None


def test_a_gap_is_filled_evenly_and_its_gauges_are_unknown() -> None:
    answers = [scrape(0.5, tokens(0)), scrape(1.5, tokens(5, running=2))]
    answers += [failed_scrape(t + 0.5) for t in range(2, 7)]
    answers += [scrape(7.5, tokens(5 + 100, running=4)), health(8.0)]
    samples = run(answers)
    assert by_second(samples) == {0: None, 1: 5, 2: 16, 3: 17, 4: 17, 5: 16, 6: 17, 7: 17}
    assert by_second(samples, "running") == {0: 0.0, 1: 2.0, 2: 2.0, 3: None, 4: None, 5: None, 6: None, 7: 4.0}


def test_a_late_scrape_that_misses_its_second_shares_out_and_bridges_the_gauges() -> None:
    samples = run([scrape(0.9, tokens(0)), scrape(1.9, tokens(10, running=1)), scrape(3.1, tokens(22, running=3))])
    assert by_second(samples) == {0: None, 1: 10, 2: 6, 3: 6}
    assert by_second(samples, "running") == {0: 0.0, 1: 1.0, 2: 1.0, 3: 3.0}


def test_two_scrapes_in_one_second_give_one_sample() -> None:
    answers = [scrape(0.5, tokens(0)), scrape(1.0, tokens(3, running=1)), scrape(1.8, tokens(9, running=3))]
    samples = run([*answers, scrape(2.5, tokens(10))])
    assert by_second(samples) == {0: None, 1: 9, 2: 1}
    assert by_second(samples, "running") == {0: 0.0, 1: 2.0, 2: 0.0}


def test_a_scrape_in_a_second_that_was_told_already_waits_for_the_next() -> None:
    samples = run(
        [scrape(0.5, tokens(0)), scrape(1.2, tokens(1)), health(2.0), scrape(1.99, tokens(3)), scrape(2.9, tokens(7))]
    )
    assert by_second(samples) == {0: None, 1: 1, 2: 6}


def test_a_changed_start_of_the_process_is_a_new_epoch_even_if_the_counters_went_up() -> None:
    answers = [scrape(t, tokens(50 * t)) for t in range(3)]
    answers += [scrape(t, tokens(1000 * t, process_start=1_700_000_002.5)) for t in range(3, 6)]
    samples = run(answers)
    assert [(s.at_s - START_S, s.epoch, s.output_tokens) for s in samples] == [
        (0, "1699999000250", None),
        (1, "1699999000250", 50),
        (2, "1699999000250", 50),
        (3, "1700000002500", None),
        (4, "1700000002500", 1000),
        (5, "1700000002500", 1000),
    ]


def test_without_a_process_start_the_epoch_is_when_it_was_first_seen() -> None:
    answers = [scrape(0.5, tokens(700, process_start=None)), scrape(1.5, tokens(800, process_start=None))]
    answers += [scrape(2.5, tokens(30, process_start=None)), scrape(3.5, tokens(45, process_start=None))]
    samples = run(answers)
    first, second = f"{START_S}500", f"{START_S + 2}500"
    assert [(s.epoch, s.output_tokens) for s in samples] == [(first, None), (first, 100), (second, None), (second, 15)]


def test_a_counter_that_went_down_in_one_and_the_same_process_is_a_new_epoch_too() -> None:
    samples = run([scrape(t + 0.5, tokens(value)) for t, value in enumerate((100, 120, 7, 9))])
    assert [s.output_tokens for s in samples] == [None, 20, None, 2]
    assert samples[0].epoch == "1699999000250"
    assert samples[2].epoch == samples[3].epoch == f"{START_S + 2}500"


def test_another_process_mark_is_a_new_epoch() -> None:
    bodies = [tokens(value, process_start=None) for value in (0, 5, 5, 8)]
    marks = ["17", "17", "99", "99"]
    samples = run([scrape(t, body, mark) for t, (body, mark) in enumerate(zip(bodies, marks, strict=True))])
    assert [s.output_tokens for s in samples] == [None, 5, None, 3]


def test_no_sample_while_the_newest_health_is_not_200() -> None:
    tracker = EngineTracker("chat", "chat-0")
    answers = [scrape(0.5, tokens(0)), health(0.6), scrape(1.5, tokens(10)), health(1.6), scrape(2.5, tokens(10))]
    told = [sample for answer in answers for sample in tracker.observe(answer).samples]
    assert by_second(told) == {0: None, 1: 10}
    for answer in (health(2.6, 503), scrape(3.5, tokens(10)), health(3.6, None), scrape(4.5, tokens(10))):
        observation = tracker.observe(answer)
        assert observation.samples == ()
        assert observation.outcome in (Outcome.NOT_HEALTHY, Outcome.UNHEALTHY)
    assert tracker.close() == (), "the zeros of the second in which it died are not known zeros"


def test_before_the_first_health_the_engine_counts_as_healthy() -> None:
    assert by_second(run([scrape(t, tokens(t)) for t in range(3)])) == {0: None, 1: 1, 2: 1}


def test_what_the_last_second_gained_is_told_although_the_engine_died_in_it() -> None:
    answers = [scrape(0.5, tokens(0)), scrape(1.5, tokens(10)), scrape(2.5, tokens(17))]
    answers += [health(2.6, 503), failed_scrape(3.5), failed_scrape(4.5)]
    assert by_second(run(answers)) == {0: None, 1: 10, 2: 7}


def test_after_bad_health_what_was_gained_meanwhile_is_not_lost() -> None:
    answers = [scrape(0.5, tokens(0)), health(1.0), scrape(1.5, tokens(10)), health(2.0, 503), scrape(2.5, tokens(40))]
    answers += [health(3.0), scrape(3.5, tokens(70)), health(4.0)]
    samples = run(answers)
    assert sum(s.output_tokens or 0 for s in samples) == 70


@pytest.mark.parametrize("body", ["<html><body>ok</body></html>", "", "vllm:generation_tokens_total 5", "\x00\xff"])
def test_a_body_that_is_no_exposition_is_a_failed_scrape(body: str) -> None:
    tracker = EngineTracker("chat", "chat-0")
    tracker.observe(scrape(0.5, tokens(0)))
    observation = tracker.observe(scrape(1.5, body))
    assert observation.outcome is Outcome.UNREADABLE
    assert observation.samples == ()
    assert observation.detail
    assert by_second(tracker.observe(scrape(2.5, tokens(8))).samples) == {0: None, 1: 4}


def test_a_series_that_is_missing_once_is_unknown_then_and_loses_nothing() -> None:
    without = vllm_body({"length": 2})
    samples = run([scrape(0.5, tokens(0)), scrape(1.5, tokens(10)), scrape(2.5, without), scrape(3.5, tokens(36))])
    assert by_second(samples) == {0: None, 1: 10, 2: None, 3: 26}
    assert by_second(samples, "completions") == {0: None, 1: 1, 2: 1, 3: 1}


def test_a_clock_that_was_set_back_does_not_silence_the_engine() -> None:
    tracker = EngineTracker("chat", "chat-0")
    answers = [scrape(t + 0.5, tokens(t)) for t in range(1000, 1003)]
    answers += [scrape(t + 0.5, tokens(1000 + t)) for t in range(10, 13)]
    observations = [tracker.observe(answer) for answer in answers]
    told = [sample for observation in observations for sample in observation.samples]
    assert [s.at_s - START_S for s in told] == [1000, 1001, 1002, 10, 11]
    assert sum(s.output_tokens or 0 for s in told) == 1011 - 1000
    assert [s.seq for s in told] == sorted({s.seq for s in told}), "the later one of two samples of a second counts"
    assert sum(o.problems.get(Problem.CLOCK_WENT_BACK, 0) for o in observations) == 1


def test_a_gap_too_long_to_spread_begins_anew_and_is_counted() -> None:
    tracker = EngineTracker("chat", "chat-0")
    observations = [
        tracker.observe(scrape(t, tokens(value))) for t, value in ((0, 0), (1, 5), (SPREAD_MAX_S + 2, 9000))
    ]
    assert observations[-1].problems == {Problem.GAP_TOO_LONG: 1}
    assert by_second(tracker.observe(scrape(SPREAD_MAX_S + 3, tokens(9001))).samples) == {SPREAD_MAX_S + 2: None}


def test_an_increase_that_no_second_can_hold_is_unknown_and_counted() -> None:
    tracker = EngineTracker("chat", "chat-0")
    tracker.observe(scrape(0, tokens(0)))
    observation = tracker.observe(scrape(1, tokens(10**15)))
    assert observation.problems[Problem.ABSURD_INCREASE] == 2
    assert [s.output_tokens for s in tracker.observe(scrape(2, tokens(10**15 + 20))).samples] == [None]
    assert [s.output_tokens for s in tracker.close()] == [20]


STEPS = st.lists(
    st.tuples(
        st.floats(min_value=0.05, max_value=9.0),
        st.sampled_from(["good", "good", "good", "failed", "unhealthy", "restarted"]),
        st.tuples(*[st.integers(min_value=0, max_value=10_000)] * 4),
    ),
    min_size=1,
    max_size=40,
)


@given(STEPS)
def test_samples_add_up_to_the_engines_own_counters(steps: list[tuple[float, str, tuple[int, ...]]]) -> None:
    """Whatever happened between: counts, buckets and sums are those of the good scrapes of each epoch."""
    tracker = EngineTracker("chat", "chat-0")
    samples: list[RequestSample] = []
    expected = [0, 0, 0, 0]
    seconds = 0.0
    t, starts = 0.0, 0
    totals = [0, 0, 0, 0]
    base: list[int] | None = None
    for ahead, kind, gained in steps:
        t += ahead
        if kind == "restarted":
            starts += 1
            totals, base = [0, 0, 0, 0], None
        totals = [total + more for total, more in zip(totals, gained, strict=True)]
        body = vllm_body(
            {"generation_tokens_total": totals[0]},
            {"num_requests_running": 1},
            ttft=totals[1:],
            ttft_sum=sum(totals[1:]) / 8,
            process_start=1_690_000_000 + starts,
        )
        answers = {
            "failed": [failed_scrape(t)],
            "unhealthy": [health(t, 503), scrape(t, body), health(t)],
        }.get(kind, [scrape(t, body)])
        for answer in answers:
            samples += tracker.observe(answer).samples
        if kind in ("good", "restarted"):
            if base is not None:
                expected = [e + now - was for e, now, was in zip(expected, totals, base, strict=True)]
                seconds += sum(totals[1:]) / 8 - sum(base[1:]) / 8
            base = list(totals)
    samples += tracker.close()
    assert sum(s.output_tokens or 0 for s in samples) == expected[0]
    histograms = [s.ttft_ms for s in samples if s.ttft_ms is not None]
    assert [sum(h.bucket_counts[i] for h in histograms) for i in range(3)] == expected[1:]
    assert sum(h.sum or 0.0 for h in histograms) == pytest.approx(seconds * 1000, abs=1e-3)
    identities = [(s.epoch, s.at_s) for s in samples]
    assert len(identities) == len(set(identities)), "a second of an epoch has one sample"
    assert all(s.at_s <= START_S + t for s in samples)


@given(st.lists(st.integers(min_value=0, max_value=50), min_size=2, max_size=30), st.integers(1, 30))
def test_it_does_not_matter_where_health_answers_come(gains: list[int], every: int) -> None:
    scrapes = [scrape(t + 0.5, tokens(total)) for t, total in enumerate(accumulate(gains))]
    with_health: list[Answer] = []
    for place, answer in enumerate(scrapes):
        with_health += [health(place + 0.1)] if place % every == 0 else []
        with_health.append(answer)
    plain, mixed = run(scrapes), run(with_health)
    assert by_second(plain) == by_second(mixed)
    assert all(before.at_s < after.at_s for before, after in pairwise(mixed))
