"""Scenario files: what is refused, with its line, all at once; and what a good one becomes."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headrace.fleet.scenario_file import load_scenario
from headrace.policies.problems import FileError
from simulation.engine_model import ENGINE_MODELS
from simulation.reporting_faults import ReportFaultKind
from simulation.scenario import (
    EndpointSpec,
    EngineSpec,
    LengthsSpec,
    RatePoint,
    ReportsSpec,
    Scenario,
    StartupSpec,
    TrafficSpec,
)
from simulation.startup import STARTUP_MODELS
from simulation.traffic import LENGTHS
from tests.repository.markdown import ROOT, blocks

GOOD = """\
seed: 7
endpoints:
  - endpoint: chat
    engine: {model: llama-3.1-8b, hardware: H100}
    startup: {like: sharded+compile-cache}
    replicas: 2
    maxReplicas: 64
    traffic:
      lengths: {like: conversation}
      rate: [{second: 0, requestsPerSecond: 10}, {second: 60, requestsPerSecond: 100}]
      patienceSeconds: 30
      burstiness: 0.5
  - endpoint: code
    engine: {model: llama-3.1-8b, hardware: L40S, waitingMax: 64, maxNumSeqs: 32}
    startup: {medianSeconds: 40, failureFraction: 0.1}
    replicas: 1
    reports: [{kind: late, share: 0.1, delaySeconds: 3}]
    sloTtftMs: 1000
    traffic:
      lengths:
        inputTokens: {fractions: [0, 0.5, 1], values: [10, 100, 1000]}
        outputTokens: {fractions: [0, 0.5, 1], values: [1, 20, 100]}
        cachedShare: {fractions: [0, 1], values: [0.2, 0.9]}
      rate: [{second: 0, requestsPerSecond: 3}]
"""

Load = Callable[[str], Scenario]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def from_text(text: str) -> Scenario:
        file = tmp_path / "fleet.yaml"
        file.write_text(text)
        return load_scenario(file)

    return from_text


def problems_of(load: Load, text: str) -> list[str]:
    with pytest.raises(FileError) as caught:
        load(text)
    return [line.rpartition("fleet.yaml:")[2] for line in caught.value.message.splitlines()]


def changed(**lines: str) -> str:
    """The good file with parts of lines replaced: `was=becomes`, `_` for the first endpoint's line of that key."""
    text = GOOD
    for was, becomes in lines.items():
        start = next(line for line in text.splitlines() if line.strip().removeprefix("- ").startswith(f"{was}:"))
        indent = start[: len(start) - len(start.lstrip(" -"))]
        text = text.replace(start, indent + becomes, 1)
    return text


def test_a_good_file_becomes_the_parts_of_a_fleet(load: Load) -> None:
    scenario = load(GOOD)
    assert (scenario.seed, [spec.endpoint for spec in scenario.endpoints]) == (7, ["chat", "code"])
    chat, code = scenario.endpoints
    assert chat.traffic.build().rate.at(30.0) == 55.0
    assert chat.traffic.build().rate.burstiness == 0.5
    assert chat.traffic.build().patience.median_s == 30.0
    assert chat.startup.build().median_s == pytest.approx(65.6)
    assert (chat.max_replicas, code.max_replicas, code.slo_ttft_ms) == (64, 1000, 1000.0)
    assert (code.engine.build().waiting_max, code.engine.build().max_num_seqs) == (64, 32)
    assert chat.engine.build().max_num_seqs == 128
    assert code.startup.build().median_s == 40.0
    assert code.traffic.build().lengths.output_tokens.values == (1.0, 20.0, 100.0)
    assert code.traffic.build().lengths.cached_share.mean == pytest.approx(0.55)
    assert [(fault.kind, fault.build().delay_s) for fault in code.reports] == [(ReportFaultKind.LATE, 3)]


REFUSED = [
    ("seed: -1", "1: seed: -1, allowed: a whole number, 0 to 9.22337203685478e+18"),
    ("endpoint: ''", '3: endpoints[0].endpoint: "", allowed: text of 1 to 240 characters'),
    (f"endpoint: {'x' * 241}", '3: endpoints[0].endpoint: "xxx'),
    (
        "engine: {model: llama-3.1-8, hardware: H100}",
        '4: endpoints[0].engine: "llama-3.1-8/H100", allowed: llama-3.1-70b/H100x4, llama-3.1-8b/H100, '
        "llama-3.1-8b/L40S (hint: did you mean llama-3.1-8b/H100?)",
    ),
    ("engine: {model: llama-3.1-8b}", "4: endpoints[0].engine.hardware: missing, allowed: text of 1 to 253 characters"),
    (
        "startup: {like: shardedd}",
        '5: endpoints[0].startup.like: "shardedd", allowed: baseline, compile-cache, sharded, sharded+compile-cache, '
        "streamed (hint: did you mean sharded?)",
    ),
    ("startup: {spread: 1}", "5: endpoints[0].startup: neither, allowed: one of like and medianSeconds"),
    (
        "startup: {like: sharded, medianSeconds: 3}",
        "5: endpoints[0].startup: both, allowed: one of like and medianSeconds",
    ),
    (
        "startup: {medianSeconds: 0}",
        "5: endpoints[0].startup.medianSeconds: 0, allowed: a number, above 0 to 86400",
    ),
    ("replicas: 65", "6: endpoints[0].replicas: 65, allowed: 0 to maxReplicas, 64"),
    ("replicas: two", '6: endpoints[0].replicas: "two", allowed: a whole number, 0 to 10000'),
    ("replica: 2", "6: endpoints[0].replica: unknown key, allowed: the keys of docs/fleet.md (hint: did you mean"),
    ("maxReplicas: 20000", "7: endpoints[0].maxReplicas: 20000, allowed: a whole number, 0 to 10000"),
    (
        "lengths: {like: conversations}",
        '9: endpoints[0].traffic.lengths.like: "conversations", allowed: code, conversation (hint: did you mean',
    ),
    ("lengths: {}", "9: endpoints[0].traffic.lengths: neither, allowed: like, or inputTokens and outputTokens"),
    ("rate: []", "10: endpoints[0].traffic.rate: a list of 0, allowed: a list of 1 to 3000"),
    (
        "rate: [{second: 9, requestsPerSecond: 1}, {second: 9, requestsPerSecond: 2}]",
        "10: endpoints[0].traffic.rate[1].second: 9.0, allowed: above the second before, 9",
    ),
    (
        "rate: [{second: 0, requestsPerSecond: -1}]",
        "10: endpoints[0].traffic.rate[0].requestsPerSecond: -1, allowed: a number, 0 to 100000",
    ),
    (
        "rate: [{second: 0, requestsPerSecond: .nan}]",
        "10: endpoints[0].traffic.rate[0].requestsPerSecond: .nan, allowed: a number, 0 to 100000",
    ),
    ("patienceSeconds: 30 s", '11: endpoints[0].traffic.patienceSeconds: "30 s", allowed: a number, above 0'),
    ("reports: [{kind: lost, share: 1}]", '17: endpoints[1].reports[0].kind: "lost", allowed: gap, late or duplicate'),
    ("sloTtftMs: 501", "18: endpoints[1].sloTtftMs: 501.0, allowed: a bound of vLLM's histogram: 1, 5, 10,"),
    (
        "inputTokens: {fractions: [0, 1], values: [10, 100, 1000]}",
        "21: endpoints[1].traffic.lengths.inputTokens.values: a list of 3, allowed: as many as fractions, 2",
    ),
    (
        "outputTokens: {fractions: [0, 0.5, 0.9], values: [1, 20, 100]}",
        "22: endpoints[1].traffic.lengths.outputTokens.fractions: [0.0, 0.5, 0.9], allowed: rising from 0 to 1",
    ),
    (
        "outputTokens: {fractions: [0, 1], values: [0, 20]}",
        "22: endpoints[1].traffic.lengths.outputTokens.values[0]: 0.0, allowed: 1 or more",
    ),
    (
        "outputTokens: {fractions: [0, 1], values: [30, x]}",
        '22: endpoints[1].traffic.lengths.outputTokens.values[1]: "x", allowed: a number, 0 to 1000000',
    ),
    (
        "cachedShare: {fractions: [0, 1], values: [0.5, 1.5]}",
        "23: endpoints[1].traffic.lengths.cachedShare.values[1]: 1.5, allowed: 0 to 1",
    ),
]


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line for line, _ in REFUSED])
def test_one_wrong_value_gives_one_message_with_its_line(load: Load, line: str, said: str) -> None:
    key = {"replica": "replicas"}.get(line.partition(":")[0], line.partition(":")[0])
    problems = problems_of(load, changed(**{key: line}))
    expected = 2 if line == "replica: 2" else 1  # replicas is then missing as well
    assert len(problems) == expected
    assert any(problem.startswith(said) for problem in problems), problems


def test_everything_wrong_is_told_at_once(load: Load) -> None:
    wrong = changed(seed="seed: x", endpoint="endpoint: code", replicas="replicas: 99", engine="engine: 7")
    said = problems_of(load, wrong)
    assert [problem.partition(",")[0] for problem in said] == [
        '1: seed: "x"',
        "4: endpoints[0].engine: 7",
        "6: endpoints[0].replicas: 99",
        '13: endpoints[1].endpoint: "code"',
    ]
    assert said[3].endswith("allowed: each endpoint once (hint: also in endpoints[0])")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: an empty file, allowed: one scenario, a mapping with endpoints"),
        ("- a\n", "1: a list, allowed: one scenario, a mapping with endpoints"),
        ("endpoints: [\n", "no YAML"),
        ("{}\n", "1: endpoints: missing, allowed: a list of 1 to 1000"),
        ("endpoints: []\n", "1: endpoints: a list of 0, allowed: a list of 1 to 1000"),
        ("endpoints: [7]\n", "1: endpoints[0]: 7, allowed: a mapping with endpoint, engine"),
    ],
)
def test_what_is_no_scenario_at_all_is_told(load: Load, text: str, said: str) -> None:
    assert said in problems_of(load, text)[0]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere.yaml:1: cannot be read: No such file"):
        load_scenario(tmp_path / "nowhere.yaml")


def test_the_scenario_of_the_page_is_good_and_its_keys_are_all_there(load: Load) -> None:
    (scenario,) = [block for block in blocks() if block.mark == "scenario"]
    assert [spec.endpoint for spec in load(scenario.text).endpoints] == ["chat"]
    page = (ROOT / "docs" / "fleet.md").read_text()
    sections = (Scenario, EndpointSpec, EngineSpec, StartupSpec, LengthsSpec, TrafficSpec, RatePoint, ReportsSpec)
    keys = {field.encode_name for section in sections for field in msgspec.structs.fields(section)}
    assert {key for key in keys if key not in page} == set()
    names = {*STARTUP_MODELS, *LENGTHS, *(part for name in ENGINE_MODELS for part in name.split("/"))}
    assert {name for name in names if f"`{name}`" not in page} == set()
