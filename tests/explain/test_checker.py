"""The checker sees what is wrong: every number, word and sentence that is changed or left out."""

import re
from collections.abc import Iterator
from datetime import UTC

import pytest

from headrace.explain.case import Case
from headrace.explain.explanation import explain, text_lines
from tests.decisions.ticks import T0
from tests.explain.cases import disagreements, records_of, texts, told
from tests.explain.checker.check import check_lines, check_object, sentences_of
from tests.explain.whole_cases import GOLDEN, STORIES, down, held, printed, up


def cases() -> Iterator[tuple[str, Case]]:
    for name, make in STORIES.items():
        yield name, make()


def changed_numbers(line: str) -> Iterator[str]:
    """The line with one number changed, once for each: its last digit one higher, or lower for a nine."""
    for found in re.finditer(r"\d+(?:\.\d+)?", line):
        digits = found.group()
        last = str(int(digits[-1]) - 1 if digits[-1] == "9" else int(digits[-1]) + 1)
        yield line[: found.start()] + digits[:-1] + last + line[found.end() :]


@pytest.mark.parametrize("name", STORIES)
def test_the_text_is_the_golden_one(name: str) -> None:
    """Renewed by `python -m tests.explain.whole_cases`; read the difference as a user would."""
    assert printed(STORIES[name]()) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", STORIES)
def test_any_changed_number_is_seen(name: str) -> None:
    case = STORIES[name]()
    lines, records = texts(case), records_of(told(case))
    assert check_lines(lines, records) == []
    unseen = [
        changed
        for index, line in enumerate(lines)
        for changed in changed_numbers(line)
        if not check_lines([*lines[:index], changed, *lines[index + 1 :]], records)
    ]
    assert unseen == []


@pytest.mark.parametrize("name", STORIES)
def test_any_sentence_that_is_left_out_is_seen(name: str) -> None:
    case = STORIES[name]()
    lines, records = texts(case), records_of(told(case))
    unseen = [line for index, line in enumerate(lines) if not check_lines(lines[:index] + lines[index + 1 :], records)]
    assert unseen == []


SWAPS = {
    "the direction": ("Scale up from 5", "Scale down from 5"),
    "the replicas": ("from 5 to 10 replicas", "from 10 to 5 replicas"),
    "the reason": ("Reason metric:", "Reason minimum:"),
    "the bound": ("Bound up_limit:", "Bound maximum:"),
    "the outcome": ("Applied by fleet-1", "Superseded by a newer decision, as fleet-1 reports"),
    "the actuator": ("Applied by fleet-1", "Applied by fleet-2"),
    "whether again": ("it may be tried again", "for good"),
    "the state": ("fresh", "partial"),
    "the unit": ("ms, fresh", "requests, fresh"),
    "who decided": ("it decided", "it did not decide: ttft asks for more"),
    "the metric": ("ttft p95 over 20 s asks for 156, more", "inflight_requests over 20 s asks for 156, more"),
    "the mode": ("mode act", "mode off"),
    "the counterfactual's way": ("gone up from 5 to 40", "gone down from 5 to 40"),
    "the counterfactual's bound": ("Without up_limit", "Without maximum"),
    "the record's words": ("limited by up_limit", "limited by maximum"),
    "the floors": ("minimum 1, maximum 40", "minimum 1"),
}


@pytest.mark.parametrize(("right", "wrong"), SWAPS.values(), ids=SWAPS.keys())
def test_a_swapped_word_is_seen(right: str, wrong: str) -> None:
    lines, records = texts(up()), records_of(told(up()))
    changed = [line.replace(right, wrong, 1) for line in lines]
    assert changed != lines, f"{right} is not in {lines}"
    assert check_lines(changed, records)


def test_a_missing_bound_is_seen() -> None:
    lines = [line for line in texts(up()) if not line.startswith("Bound up_limit")]
    found = disagreements(up(), [*lines, "No limit changed the number."])
    assert [str(it) for it in found] == ["the record has up_limit: No limit changed the number."]


def test_a_reason_against_the_record_is_seen_in_a_hold() -> None:
    lines = [line.replace("Not down (insufficient_evidence)", "Not down (rollout)") for line in texts(held())]
    assert [it.problem for it in disagreements(held(), lines)] == [
        "reason rollout, the record has insufficient_evidence"
    ]


def test_an_unknown_sentence_and_one_said_twice_are_seen() -> None:
    assert [it.problem for it in disagreements(down(), [*texts(down()), "All is well."])] == [
        "a sentence of no known form"
    ]
    seen = next(line for line in texts(down()) if "% heard" in line)
    assert disagreements(down(), [*texts(down()), seen])


def test_a_counterfactual_that_was_computed_wrongly_is_seen_by_arithmetic() -> None:
    object_told = told(up())
    for it in object_told["counterfactuals"]:
        it["desired"] += it["without"] == "up_limit"
    for sentence in object_told["sentences"]:
        sentence["text"] = sentence["text"].replace("up from 5 to 40.", "up from 5 to 41.")
    assert [it.problem for it in check_object(object_told, UTC)] == [
        "without up_limit: 41, by the record's candidates it is 40"
    ]


def test_the_printed_text_is_the_sentences() -> None:
    for _, case in cases():
        printed = "\n".join(text_lines(explain(case, UTC), T0 + 50, UTC))
        assert sentences_of(printed) == texts(case)


def test_what_is_no_number_of_the_record_is_in_no_sentence() -> None:
    """`numbers` has all that the text says in digits, but those of names and of quoted words."""
    quoted = re.compile(r"The record says: .*|it says: .*|\([0-9a-f]{12}\)|p\d\d|fleet-1|chat-\d|it did not decide: .*")
    for _, case in cases():
        for sentence in explain(case, UTC).sentences:
            text = quoted.sub("", sentence.text)
            digits = re.findall(r"\d\d:\d\d:\d\d|\d[\d.]*(?<!\.)", re.sub(r"\d{4}-\d\d-\d\d", "", text))
            assert len(digits) >= len(sentence.numbers), sentence
            assert bool(digits) == bool(sentence.numbers), sentence
