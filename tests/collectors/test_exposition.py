"""What is read from a body: names old and new, ranks, bounds as they stand, and what is left out."""

import gzip
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collectors.exposition import Reading, UnreadableError, read_exposition
from collectors.increases import carried_over, has_restarted, increase_between, read_gauges
from collectors.tracker import EngineTracker
from tests.collectors.expositions import scrape, vllm_body


def gained(before: str, after: str) -> dict[str, int]:
    return dict(increase_between(read_exposition(before), read_exposition(after)).counts)


def series(name: str, value: float | str, labels: str = 'engine="0",model_name="tiny"') -> str:
    return f"vllm:{name}{{{labels}}} {value}\n"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("gpu_prefix_cache_hits_total", "prefix_cache_hits_total", "cached_tokens"),
        ("prefix_cache_hits_total", "prompt_tokens_cached_total", "cached_tokens"),
    ],
)
def test_renamed_counters_both_names_are_one_value(old: str, new: str, field: str) -> None:
    assert gained(series(old, 5), series(old, 12))[field] == 7
    assert gained(series(new, 5), series(new, 12))[field] == 7
    assert gained(series(old, 5) + series(new, 5), series(old, 12) + series(new, 12))[field] == 7


@pytest.mark.parametrize("names", [["gpu_cache_usage_perc"], ["kv_cache_usage_perc"]])
def test_renamed_gauge(names: list[str]) -> None:
    assert read_gauges(read_exposition("".join(series(name, 0.25) for name in names)))["kv_cache_usage"] == 0.25


def test_renamed_gauge_under_both_names_is_one_value() -> None:
    both = series("gpu_cache_usage_perc", 0.5) + series("kv_cache_usage_perc", 0.25)
    assert read_gauges(read_exposition(both))["kv_cache_usage"] == 0.25


def test_renamed_queue_time_histogram() -> None:
    def body(count: int) -> str:
        bucket = 'le="1.0",engine="0"', 'le="+Inf",engine="0"'
        return "".join(series("time_in_queue_requests_bucket", count, labels) for labels in bucket)

    found = increase_between(read_exposition(body(1)), read_exposition(body(4))).histograms["queue_ms"]
    assert (found.bounds_ms, found.counts, found.sum_ns) == ((1000.0,), (3, 0), None)


def test_inter_token_latency_under_its_old_name_is_not_time_per_output_token() -> None:
    body = series("time_per_output_token_seconds_bucket", 3, 'le="+Inf"') + series("generation_tokens_total", 1)
    assert read_exposition(body).histograms == {}


def test_data_parallel_ranks_are_added_and_cache_use_is_averaged() -> None:
    def body(first: int, second: int) -> str:
        ranks = [
            vllm_body(
                {"generation_tokens_total": count, "length": count},
                {"num_requests_running": count, "kv_cache_usage_perc": count / 100},
                ttft=(count, 0, 0),
                ttft_sum=count * 0.05,
                engine=str(rank),
            )
            for rank, count in enumerate((first, second))
        ]
        return "".join(ranks)

    before, after = read_exposition(body(10, 20)), read_exposition(body(13, 40))
    found = increase_between(before, after)
    assert found.counts["output_tokens"] == found.counts["completions"] == 23
    assert found.histograms["ttft_ms"].counts == (23, 0, 0)
    assert found.histograms["ttft_ms"].sum_ns == 23 * 50_000_000
    assert read_gauges(after) == {"running": 53.0, "kv_cache_usage": pytest.approx(0.265)}


def test_one_rank_that_went_down_is_a_restart_even_if_the_sum_went_up() -> None:
    rank = 'engine="{}",model_name="tiny"'
    before = series("generation_tokens_total", 10, rank.format(0)) + series(
        "generation_tokens_total", 50, rank.format(1)
    )
    after = series("generation_tokens_total", 500, rank.format(0)) + series(
        "generation_tokens_total", 2, rank.format(1)
    )
    assert has_restarted(read_exposition(before), read_exposition(after))
    assert not has_restarted(read_exposition(before), read_exposition(before))


def test_a_bucket_that_went_down_is_a_restart() -> None:
    before, after = vllm_body(ttft=(5, 1, 0)), vllm_body(ttft=(4, 9, 0))
    assert has_restarted(read_exposition(before), read_exposition(after))


def test_a_finish_reason_seen_for_the_first_time_counts_from_zero() -> None:
    found = gained(vllm_body({"length": 5, "generation_tokens_total": 1}), vllm_body({"length": 6, "error": 2}))
    assert (found["completions"], found["errors"], found["aborted"]) == (1, 2, 0)


def test_finish_reasons_are_told_apart() -> None:
    before = vllm_body({"stop": 0, "length": 0, "repetition": 0, "abort": 0, "error": 0})
    after = vllm_body({"stop": 1, "length": 2, "repetition": 4, "abort": 8, "error": 16})
    assert gained(before, after) == {"completions": 7, "aborted": 8, "errors": 16}


def test_an_unknown_finish_reason_is_counted_as_a_problem_and_belongs_to_no_field() -> None:
    odd = series("request_success_total", 3, 'engine="0",finished_reason="paused"')
    reading = read_exposition(vllm_body({"length": 2}) + odd)
    assert reading.problems == {"unknown_label": 1}
    assert gained(vllm_body({"length": 1}), vllm_body({"length": 2}) + odd)["completions"] == 1


def test_deferred_is_a_part_of_waiting() -> None:
    body = series("num_requests_waiting", 7) + series("num_requests_waiting_by_reason", 5, 'reason="capacity"')
    body += series("num_requests_waiting_by_reason", 2, 'reason="deferred"')
    assert read_gauges(read_exposition(body)) == {"waiting": 7.0, "deferred": 2.0}


def test_bounds_are_read_from_le_and_are_decimal_in_ms() -> None:
    les = ("0.0035", "0.01", "0.07", "2.5", "+Inf")
    body = "".join(
        series("time_to_first_token_seconds_bucket", place, f'le="{le}",engine="0"') for place, le in enumerate(les)
    )
    ((_, found),) = read_exposition(body).histograms["vllm:time_to_first_token_seconds"].items()
    assert found.bounds_ms == (3.5, 10.0, 70.0, 2500.0)
    assert found.counts == (0, 1, 1, 1, 1)


def test_bounds_that_changed_make_the_histogram_unknown_once() -> None:
    def body(first: str, count: int) -> str:
        return "".join(
            series("e2e_request_latency_seconds_bucket", count, f'le="{le}",engine="0"') for le in (first, "+Inf")
        )

    before, after = read_exposition(body("1.0", 3)), read_exposition(body("2.0", 9))
    assert not has_restarted(before, after)
    assert increase_between(before, after).histograms == {}


def test_created_series_are_dropped() -> None:
    body = series("generation_tokens_total", 5) + series("generation_tokens_created", 1.7959679436748e9)
    assert read_exposition(body).values.keys() == {"vllm:generation_tokens_total"}


LLAMA = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total {prompt}
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total {cached}
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {predicted}
# TYPE llamacpp:n_decode_total counter
llamacpp:n_decode_total {decodes}
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 3
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 2
"""


def test_llama_cpp_counts_tokens_and_no_requests() -> None:
    before = read_exposition(LLAMA.format(prompt=0, cached=0, predicted=0, decodes=0))
    after = read_exposition(LLAMA.format(prompt=15, cached=24, predicted="1.23457e+06", decodes=24))
    found = increase_between(before, after)
    assert found.counts == {"input_tokens": 39, "cached_tokens": 24, "output_tokens": 1_234_570, "steps": 24}
    assert found.histograms == {}
    assert read_gauges(after) == {"running": 3.0, "waiting": 2.0}


@pytest.mark.parametrize("value", ["NaN", "-1", "1e400", "+Inf", "1e19", "twelve", ""])
def test_absurd_values_make_their_name_unknown(value: str) -> None:
    body = vllm_body({"num_preemptions_total": 3}) + series("generation_tokens_total", value)
    reading = read_exposition(body)
    assert sum(reading.problems.values()) == 1
    assert reading.examples
    assert "vllm:generation_tokens_total" not in reading.readable
    assert gained(vllm_body({"num_preemptions_total": 1, "generation_tokens_total": 5}), body) == {"preemptions": 2}


def test_a_gauge_out_of_its_range_is_unknown() -> None:
    assert read_gauges(read_exposition(series("kv_cache_usage_perc", 1.5))) == {}


def test_a_series_twice_with_two_values_is_unknown() -> None:
    twice = series("generation_tokens_total", 5) + series("generation_tokens_total", 9)
    reading = read_exposition(twice)
    assert reading.problems == {"duplicate_series": 1}
    assert "vllm:generation_tokens_total" not in reading.readable
    same = read_exposition(series("generation_tokens_total", 5) * 2)
    assert same.problems == {}
    assert same.values["vllm:generation_tokens_total"] == {(("engine", "0"), ("model_name", "tiny")): 5.0}


@pytest.mark.parametrize(
    "lines",
    [
        ['le="1.0"} 5', 'le="2.0"} 3', 'le="+Inf"} 6'],
        ['le="1.0"} 5', 'le="2.0"} 6'],
        ['le="x"} 5', 'le="+Inf"} 6'],
        ['engine="0"} 5', 'le="+Inf"} 6'],
        [f'le="{bound}"}} 1' for bound in range(300)] + ['le="+Inf"} 1'],
    ],
    ids=["falling", "without-inf", "bound-no-number", "without-le", "too-many"],
)
def test_a_malformed_histogram_is_unknown(lines: list[str]) -> None:
    body = "".join(f"vllm:e2e_request_latency_seconds_bucket{{{line}\n" for line in lines)
    reading = read_exposition(body + series("generation_tokens_total", 1))
    assert reading.histograms == {}
    assert reading.problems["malformed_histogram"] == 1


@pytest.mark.parametrize("line", ['vllm:generation_tokens_total{engine="0" 5', "vllm:generation_tokens_total 5 6 7"])
def test_a_malformed_line_makes_its_name_unknown(line: str) -> None:
    reading = read_exposition(series("num_preemptions_total", 1) + line + "\n")
    assert sum(reading.problems.values()) == 1
    assert reading.readable == {"vllm:num_preemptions_total"}


def test_labels_may_hold_what_looks_like_the_end_of_them() -> None:
    odd = r'engine="0",model_name="a} 7 \"b\" {c"'
    reading = read_exposition(series("generation_tokens_total", 5, odd) + series("num_preemptions_total", 1, odd))
    ((labels, value),) = reading.values["vllm:generation_tokens_total"].items()
    assert dict(labels)["model_name"] == 'a} 7 "b" {c'
    assert value == 5.0


def test_timestamps_and_windows_line_ends_are_read_over() -> None:
    body = "vllm:generation_tokens_total 5 1700000000000\r\nvllm:num_preemptions_total 2\r\n"
    assert {name: sum(v.values()) for name, v in read_exposition(body).values.items()} == {
        "vllm:generation_tokens_total": 5.0,
        "vllm:num_preemptions_total": 2.0,
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", "an empty body"),
        ("<html>\n<title>502</title>\n", "<html>"),
        ("python_info 1.0\nprocess_start_time_seconds 1.7e9\n", "no series of vllm or llama.cpp"),
        ("vllm:generation_tokens_total 709", "cut short"),
    ],
)
def test_what_is_no_exposition_of_an_engine_is_refused(body: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        read_exposition(body)


def test_carried_over_keeps_what_a_reading_left_out() -> None:
    before = read_exposition(vllm_body({"generation_tokens_total": 5}, ttft=(1, 0, 0)))
    after = read_exposition(vllm_body({"num_preemptions_total": 2}, process_start=None))
    both = carried_over(before, after)
    assert both.values.keys() == {"vllm:generation_tokens_total", "vllm:num_preemptions_total"}
    assert both.histograms.keys() == {"vllm:time_to_first_token_seconds"}
    assert both.process_start == "1699999000250"


def test_a_body_of_a_real_vllm_reads_as_prometheus_client_reads_it(recordings: Path) -> None:
    """Every value that is kept is what the whole parser finds, for the first and the last body of the recording."""
    bodies = recorded_bodies(recordings)
    for body in (bodies[0], bodies[-1]):
        reading = read_exposition(body)
        assert reading.problems == {}
        samples = [s for family in text_string_to_metric_families(body) for s in family.samples]
        for name, found in reading.values.items():
            whole = {tuple(sorted(s.labels.items())): s.value for s in samples if s.name == name}
            assert dict(found) == whole
        for name, histograms in reading.histograms.items():
            ((_, found_histogram),) = histograms.items()
            assert sum(found_histogram.counts) == next(s.value for s in samples if s.name == name + "_count")
            bounds = [s.labels["le"] for s in samples if s.name == name + "_bucket"]
            assert [f"{bound / 1000}" for bound in found_histogram.bounds_ms] == bounds[:-1]
    assert reading.values.keys() >= {"vllm:request_success_total", "vllm:iteration_tokens_total_count"}


def test_a_tracker_survives_any_cut_of_a_real_body(recordings: Path) -> None:
    body = recorded_bodies(recordings)[-1]
    tracker = EngineTracker("chat", "chat-0")
    tracker.observe(scrape(0, body))
    for second, end in enumerate(range(0, len(body), 997), start=1):
        tracker.observe(scrape(second, body[:end]))
    samples = tracker.observe(scrape(1000, body)).samples
    assert sum(s.output_tokens or 0 for s in samples) == 0


def recorded_bodies(folder: Path) -> list[str]:
    with gzip.open(folder / "vllm-recording" / "idle-overload-hang-death.jsonl.gz", "rt") as file:
        lines = [json.loads(line) for line in file]
    return [line["body"] for line in lines if line["kind"] == "/metrics" and line.get("code") == 200]


def test_readings_are_values() -> None:
    body = vllm_body({"generation_tokens_total": 5}, ttft=(1, 0, 0))
    assert read_exposition(body) == read_exposition(body)
    assert isinstance(read_exposition(body), Reading)
