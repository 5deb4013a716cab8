"""Folders of policies: what is refused, where, with what hint; what is accepted and resolved."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.policies import PolicyError, load_folder, load_policies
from records.enums import MetricName, Mode
from records.policy import EndpointPolicy

FULL = """\
endpoint: chat-70b                        # required
scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, namespace: serving, name: chat-70b}
mode: act
model: {name: llama-3.1-70b, hardware: H100x4, startupSeconds: 300}
workloads: [{name: gold, guaranteedModelUnitsPerMinute: 600}, {name: best-effort}]
minReplicas: 1
maxReplicas: 40
provisionedConcurrency: 0
concurrency: {target: 8, min: 2, max: 64, auto: true}
metrics:
  - {name: inflight_requests}
  - {name: model_unit_utilization, target: 0.75}
  - {name: ttft, percentile: p95, target: 500}
scaleUp:   {windowSeconds: 20,  everySeconds: 5, maxFactor: 2.0, maxStep: 4}
scaleDown: {windowSeconds: 300, everySeconds: 5, maxFraction: 0.5}
patienceSeconds: 600
scaleToZero: {afterSeconds: 900, cost: null}
forecast: {enabled: true, horizon: startup_p95}
schedules: [{zone: Europe/Berlin, days: mon-fri, from: "07:30", to: "19:00", min: 6}]
roles: null
slo: {ttftP95Ms: 500, tpotP95Ms: 50}
health: {probeAfterIdleSeconds: 10, probeTimeoutSeconds: 10, failures: 3}
routing: {sticky: true, subsetMax: 4}
respectManualSeconds: 0
"""
MODEL = "name: llama-3.1-70b\nhardware: H100x4\na: 0.001\nb: 0.01\nsource: a benchmark\nerror: 0.04\n"
SMALL = """\
endpoint: chat
scaleTargetRef: {kind: Deployment, name: chat}
minReplicas: 1
maxReplicas: 8
metrics: [{name: inflight_requests}]
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes files into one folder, by name; the folder."""

    def into(**files: str | bytes) -> Path:
        for name, content in files.items():
            path = tmp_path / (name.replace("__", "/") + ".yaml")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return into


def problems_of(folder: Path) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(PolicyError) as caught:
        load_policies(folder)
    assert caught.value.message.splitlines() == [str(problem) for problem in caught.value.problems]
    return [line.replace(f"{folder}/", "") for line in caught.value.message.splitlines()]


def changed(text: str, **lines: str) -> str:
    """The policy with each named key's line replaced (`None`-like empty text: left out), or added at the end."""
    kept = [line for line in text.splitlines() if line.split(":")[0] not in lines]
    return "\n".join([*kept, *(line for line in lines.values() if line)]) + "\n"


def test_the_document_of_the_contract_is_accepted_and_its_model_resolved(write: Write) -> None:
    (policy,) = load_policies(write(chat=FULL, models__llama=MODEL))
    assert policy.endpoint == "chat-70b"
    assert policy.mode is Mode.ACT
    assert [metric.name for metric in policy.metrics][1] is MetricName.MODEL_UNIT_UTILIZATION
    assert policy.model.coefficients is not None
    assert (policy.model.coefficients.a, policy.model.coefficients.b) == (0.001, 0.01)
    assert policy.schedules[0].from_ == "07:30"


def test_everything_but_the_required_keys_has_the_default_of_the_contract(write: Write) -> None:
    small = changed(FULL, model="", workloads="", metrics="metrics: [{name: inflight_requests}]", schedules="")
    (given_all,) = load_policies(write(chat=small.replace("  - {", "  # {")))
    (defaults,) = load_policies(
        write(
            chat="endpoint: chat-70b\nscaleTargetRef: {kind: Deployment, namespace: serving, name: chat-70b}\n"
            "minReplicas: 1\nmaxReplicas: 40\nmetrics: [{name: inflight_requests}]\n"
            "slo: {ttftP95Ms: 500, tpotP95Ms: 50}\n"
        )
    )
    assert given_all == defaults


REFUSED = {
    "an unknown key": (
        {"minReplica": "minReplica: 2"},
        ["chat.yaml:6: minReplica: unknown key, allowed: the keys of the contract (hint: did you mean minReplicas?)"],
    ),
    "an unknown metric": (
        {"metrics": "metrics: [{name: inflight_request}]"},
        ['chat.yaml:5: metrics[0].name: "inflight_request", allowed: inflight_requests, gpu_utilization, '],
    ),
    "an unknown zone": (
        {"schedules": 'schedules: [{zone: Europe/Berln, days: mon, from: "07:00", to: "08:00", min: 1}]'},
        ['chat.yaml:6: schedules[0].zone: "Europe/Berln", allowed: a name of the IANA time zones'],
    ),
    "unknown days": (
        {"schedules": 'schedules: [{zone: UTC, days: "mon-fry,sat", from: "07:00", to: "08:00", min: 1}]'},
        ['chat.yaml:6: schedules[0].days: "mon-fry,sat", allowed: a comma list of mon'],
    ),
    "an hour that does not exist": (
        {"schedules": 'schedules: [{zone: UTC, days: mon, from: "24:00", to: "08:00", min: 1}]'},
        ['chat.yaml:6: schedules[0].from: "24:00", allowed: HH:MM'],
    ),
    "a schedule above the maximum": (
        {"schedules": 'schedules: [{zone: UTC, days: mon, from: "07:00", to: "08:00", min: 9}]'},
        ["chat.yaml:6: schedules[0].min: 9, allowed: 0 to maxReplicas, 8"],
    ),
    "minReplicas above maxReplicas": (
        {"minReplicas": "minReplicas: 9"},
        ["chat.yaml:5: minReplicas: 9, allowed: 0 to maxReplicas, 8"],
    ),
    "windowSeconds under everySeconds": (
        {"scaleUp": "scaleUp: {windowSeconds: 10, everySeconds: 20}"},
        ["chat.yaml:6: scaleUp.windowSeconds: 10, allowed: everySeconds, 20, or more"],
    ),
    "a default window under everySeconds": (
        {"scaleDown": "scaleDown: {everySeconds: 305}"},
        ["chat.yaml:6: scaleDown.windowSeconds: 300 by default, allowed: everySeconds, 305, or more"],
    ),
    "everySeconds no multiple of 5": (
        {"scaleUp": "scaleUp: {everySeconds: 7}"},
        ["chat.yaml:6: scaleUp.everySeconds: 7, allowed: a multiple of 5"],
    ),
    "a utilisation above 1": (
        {"metrics": "metrics: [{name: model_unit_utilization, target: 75}]"},
        [
            "chat.yaml:1: model: name and hardware missing, allowed: one of models/*.yaml (none there)",
            "chat.yaml:5: metrics[0].target: 75, allowed: above 0 to 1 (hint: a fraction: 80 % is 0.8)",
        ],
    ),
    "a utilisation of 0": (
        {"metrics": "metrics: [{name: gpu_utilization, target: 0}]"},
        ["chat.yaml:5: metrics[0].target: 0, allowed: a number, above 0"],
    ),
    "a utilisation that no load can reach": (
        {"metrics": "metrics: [{name: gpu_utilization, target: 0.95}]"},
        ["chat.yaml:5: metrics[0].target: 0.95, allowed: above 0 to 0.9 (hint: no load can reach it"],
    ),
    "an in-flight target above concurrency.max": (
        {"metrics": "metrics: [{name: inflight_requests, target: 65}]"},
        ["chat.yaml:5: metrics[0].target: 65, allowed: up to concurrency.max, 64"],
    ),
    "different in-flight targets without auto": (
        {
            "metrics": "metrics: [{name: inflight_requests, target: 9}]",
            "concurrency": "concurrency: {target: 8, auto: false}",
        },
        ["chat.yaml:5: metrics[0].target: 9, allowed: concurrency.target, 8 (hint: with auto: false"],
    ),
    "a concurrency target outside its bounds": (
        {"concurrency": "concurrency: {target: 1}"},
        ["chat.yaml:6: concurrency.target: 1, allowed: concurrency.min to concurrency.max, 2 to 64"],
    ),
    "a floor that load 0 cannot leave": (
        {"provisionedConcurrency": "provisionedConcurrency: 65"},
        ["chat.yaml:6: provisionedConcurrency: 65, allowed: 0 to 64 (hint: its replicas are a floor that load 0"],
    ),
    "zero that no metric can leave": (
        {"minReplicas": "minReplicas: 0", "metrics": "metrics: [{name: ttft}]"},
        ["chat.yaml:5: metrics: a list of 1, allowed: with minReplicas 0 one of inflight_requests"],
    ),
    "no metric that scales": (
        {"metrics": "metrics: [{name: cache_hit_rate}]"},
        ["chat.yaml:5: metrics: a list of 1, allowed: one that scales besides"],
    ),
    "a metric twice": (
        {"metrics": "metrics: [{name: ttft}, {name: ttft, percentile: p95, target: 3}]"},
        ['chat.yaml:5: metrics[1].name: "ttft", allowed: each metric once (hint: also in metrics[0])'],
    ),
    "a percentile of a total": (
        {"metrics": "metrics: [{name: inflight_requests, percentile: p99}]"},
        ['chat.yaml:5: metrics[0].percentile: "p99", allowed: none; only for ttft, decoding_speed, e2e_latency'],
    ),
    "a metric without any target": (
        {"metrics": "metrics: [{name: e2e_latency}]"},
        ["chat.yaml:5: metrics[0].target: missing, allowed: above 0, ms"],
    ),
    "roles": (
        {
            "roles": "roles: {prefill: {scaleTargetRef: {kind: D, name: p}, min: 1, max: 8}, "
            "decode: {scaleTargetRef: {kind: D, name: d}, min: 1, max: 8}}",
            "minReplicas": "",
            "maxReplicas": "",
            "scaleTargetRef": "",
        },
        ["chat.yaml:3: roles: a mapping, allowed: null; this version does not decide by roles"],
    ),
    "no scale target": (
        {"scaleTargetRef": ""},
        ["chat.yaml:1: scaleTargetRef: missing, allowed: a mapping with kind, name, apiVersion, namespace"],
    ),
    "a model without coefficients": (
        {"metrics": "metrics: [{name: model_unit_utilization}]", "model": "model: {name: llama, hardware: H100}"},
        ["chat.yaml:6: model: llama on H100, allowed: one of models/*.yaml (none there)"],
    ),
    "coefficients by hand": (
        {"model": "model: {name: m, hardware: h, coefficients: {name: m, hardware: h, a: 1}}"},
        ["chat.yaml:6: model.coefficients: given, allowed: no coefficients here (hint: they come from models/*.yaml"],
    ),
    "text for a number": (
        {"minReplicas": 'minReplicas: "1"'},
        ['chat.yaml:5: minReplicas: "1", allowed: a whole number, 0 to 100000 (hint: numbers stand without quotes)'],
    ),
    "not a number": (
        {"concurrency": "concurrency: {target: .nan}"},
        ["chat.yaml:6: concurrency.target: .nan, allowed: a number, above 0 to 1000000"],
    ),
    "a section without a value": (
        {"concurrency": "concurrency:"},
        ["chat.yaml:6: concurrency: null, allowed: a mapping with target, min, max, auto (hint: leave the key out"],
    ),
    "a workload twice": (
        {"workloads": "workloads: [{name: a}, {name: a}]"},
        ['chat.yaml:6: workloads[1].name: "a", allowed: each name once'],
    ),
}


@pytest.mark.parametrize(("lines", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_contract_refuses(write: Write, lines: dict[str, str], expected: list[str]) -> None:
    told = problems_of(write(chat=changed(SMALL, **lines)))
    assert len(told) == len(expected), told
    for line, wanted in zip(told, expected, strict=True):
        assert line.startswith(wanted)


def test_all_errors_of_all_files_come_at_once(write: Write) -> None:
    folder = write(
        a=changed(SMALL, mode="mode: acts", minReplicas="minReplicas: 9", scaleUp="scaleUp: {everySeconds: 7}"),
        b="endpoint: b\n",
        models__m="name: m\nhardware: h\na: -1\n",
    )
    told = problems_of(folder)
    assert [line.split(": ")[0:2] for line in told] == [
        ["a.yaml:5", "mode"],
        ["a.yaml:6", "minReplicas"],
        ["a.yaml:7", "scaleUp.everySeconds"],
        ["b.yaml:1", "maxReplicas"],
        ["b.yaml:1", "metrics"],
        ["b.yaml:1", "minReplicas"],
        ["b.yaml:1", "scaleTargetRef"],
        ["models/m.yaml:3", "a"],
    ]


def test_a_rule_is_silent_about_values_that_are_wrong_themselves(write: Write) -> None:
    """minReplicas 9 may be fine: what maxReplicas is meant to be is not known."""
    told = problems_of(write(chat=changed(SMALL, minReplicas="minReplicas: 9", maxReplicas="maxReplicas: many")))
    assert [line.split(": ")[1] for line in told] == ["maxReplicas"]


def test_two_policies_of_one_endpoint_or_one_target_are_refused(write: Write) -> None:
    told = problems_of(write(a=SMALL, b=SMALL, c=SMALL.replace("endpoint: chat", "endpoint: other")))
    first, target = "a.yaml", "apps/v1 Deployment default chat"
    assert told == [
        f'b.yaml:1: endpoint: "chat", allowed: one policy each (hint: also in {first}:1)',
        f"b.yaml:2: scaleTargetRef: {target}, allowed: one policy each (hint: also in {first}:2)",
        f"c.yaml:2: scaleTargetRef: {target}, allowed: one policy each (hint: also in {first}:2)",
    ]


def test_models_of_one_name_and_hardware_and_models_that_cost_nothing_are_refused(write: Write) -> None:
    told = problems_of(write(chat=SMALL, models__a=MODEL, models__b=MODEL, models__c="name: free\nhardware: h\n"))
    assert told[0].startswith("models/b.yaml:1: name: llama-3.1-70b on H100x4, allowed: one file each")
    assert told[1].startswith("models/c.yaml:1: a to f are all 0, allowed: one above 0")


UNREADABLE = {
    "an empty file": (b"", 1, "an empty file"),
    "only a comment": (b"# nothing\n", 1, "an empty file"),
    "a list": (b"- a\n", 1, "a list"),
    "a word": (b"word\n", 1, "a single value"),
    "a key twice": (b"endpoint: a\nendpoint: b\n", 2, 'duplicate key "endpoint"'),
    "a tab": (b"endpoint: a\n\tmode: act\n", 2, "indent with spaces"),
    "no UTF-8": (b"mode: act\nendpoint: caf\xe9\n", 2, "byte 0xe9, allowed: text in UTF-8"),
    "an open bracket": (b"{", 1, "no YAML"),
    "two colons": (b"a: b: c\n", 1, "no YAML"),
    "two documents": (b"endpoint: a\n---\nendpoint: b\n", 3, "a second document"),
    "an alias of nothing": (b"a: *b\n", 1, "no YAML"),
    "a control character": (b"a: \x00\n", 1, "no YAML"),
    "keys that are no text": (b"1: x\n", 1, "key 1, allowed: keys that are text"),
    "a tag": (b"endpoint: !secret x\n", 1, "quote it"),
    "no date": (b"endpoint: 2024-99-99\n", 1, "no YAML"),
    "a custom resource": (b"apiVersion: v1\nkind: EndpointPolicy\nspec: {}\n", 1, "move the keys of its spec"),
    "deep brackets": (b"a: " + b"[" * 5_000, 1, "nested too deeply"),
    "deep lists": (b"a: " + b"[1, " * 40 + b"]" * 40, 1, "more than a policy can be"),
    "very deep lists": (b"a: " + b"[1, " * 400 + b"]" * 400, 1, "nested too deeply"),
    "a billion aliases": (
        b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"%c: &%c [%s]\n" % (k + 1, k + 1, b",".join([b"*%c" % k] * 9)) for k in range(ord("a"), ord("i"))),
        1,
        "more than a policy can be",
    ),
    "an alias of itself": (b"a: &a [*a]\n", 1, "unknown key"),
    "a megabyte": (b"#" * 1_100_000, 1, "1100000 bytes, allowed: up to 1048576"),
}


@pytest.mark.parametrize(("content", "line", "told"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_files_that_are_no_policies(write: Write, content: bytes, line: int, told: str) -> None:
    problems = problems_of(write(chat=content, good=SMALL))
    assert any(told in problem and ".yaml:" in problem for problem in problems), problems
    assert problems[0].startswith("chat.yaml:")
    if len(problems) == 1:
        assert problems[0].startswith(f"chat.yaml:{line}:")


@pytest.mark.timeout(300)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_a_file_holds_there_is_a_policy_or_a_message(tmp_path: Path, data: st.DataObject) -> None:
    """Mutations of a good document: cut, doubled, overwritten with any text."""
    good = FULL.encode()
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 40)))
    alphabet = st.sampled_from("{}[]:,-&*!|>'\"%@`#? \n\t\x85\ufeffabc019.~<")
    inserted = data.draw(st.text(alphabet, max_size=12) | st.text(max_size=6)).encode("utf-8", "surrogatepass")
    (tmp_path / "chat.yaml").write_bytes(good[:start] + inserted + good[end:])
    (tmp_path / "models").mkdir(exist_ok=True)
    (tmp_path / "models" / "m.yaml").write_text(MODEL)
    try:
        loaded = load_policies(tmp_path)
    except PolicyError as error:
        loaded, told = [], error.message
    else:
        told = ""
    assert bool(told) != bool(loaded)
    assert all(isinstance(policy, EndpointPolicy) for policy in loaded)


def test_folders_that_hold_no_policies(write: Write, tmp_path: Path) -> None:
    assert problems_of(tmp_path)[0].endswith("no policies, allowed: a folder with one *.yaml file for each endpoint")
    assert load_policies(tmp_path, empty_ok=True) == []
    assert "cannot be read: No such file" in problems_of(tmp_path / "absent")[0]
    (tmp_path / "README.md").write_text("not YAML: [")
    (tmp_path / ".hidden.yaml").write_text("not YAML: [")
    (policy,) = load_policies(write(chat=SMALL))
    assert policy.endpoint == "chat"
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing")
    told = problems_of(tmp_path)
    assert "no regular file" in told[0]
    assert "cannot be read: No such file" in told[1]


def test_what_this_version_does_not_act_on_is_noted(write: Write) -> None:
    zero = changed(FULL, minReplicas="minReplicas: 0")
    notes = load_folder(write(chat=zero, models__m=MODEL)).notes
    named = {note.split(": ")[1] for note in notes}
    assert named == {
        "schedules", "the forecast floor", "concurrency.auto", "workloads", "health", "routing", "minReplicas",
    }  # fmt: skip
    quiet = changed(SMALL, forecast="forecast: {enabled: false}", concurrency="concurrency: {auto: false}")
    (write(chat=quiet) / "models" / "m.yaml").unlink()
    assert load_folder(write(chat=quiet)).notes == ()


def test_merged_keys_and_anchors_are_followed(write: Write) -> None:
    text = SMALL.replace("{kind: Deployment, name: chat}", "&target {kind: Deployment, name: chat}") + (
        "scaleUp: &every {everySeconds: 10}\nscaleDown: {<<: *every, maxFraction: 0.25}\n"
    )
    (policy,) = load_policies(write(chat=text))
    assert (policy.scale_down.every_seconds, policy.scale_down.max_fraction) == (10, 0.25)
    told = problems_of(write(chat=text.replace("everySeconds: 10", "everySeconds: 7")))
    assert [line.split(":")[1] for line in told] == ["6", "7"]
