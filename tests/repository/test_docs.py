"""The pages say what is: links lead somewhere, commands parse, examples run, tables are those of the program."""

import asyncio
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from aiokafka import TopicPartition

from bench.__main__ import TABLE_BEGIN, TABLE_END
from bench.registry import BENCHES
from decisions.metrics import METRICS
from headrace import metric_table, setting_table, variables
from headrace.exit_codes import ExitCode
from headrace.main import COMMANDS
from headrace.policies import load_policies
from records.enums import ScalingBound, ScalingReason, ValueState
from tests.conftest import Kafka
from tests.repository.markdown import (
    PAGES,
    ROOT,
    Block,
    Command,
    anchors,
    between,
    blocks,
    commands,
    links,
    table_rows,
)
from wire.admin import TopicSettings, create_topics
from wire.batches import FrameRun, JsonRun, decode_batch
from wire.kafka import KafkaAccess, open_consumer
from wire.topics import TopicNames

DOCS = ROOT / "docs"
PYTHON = [block for block in blocks() if block.kind == "python"]
RUNNING = [block for block in PYTHON if block.mark.startswith("runs:")]
POLICIES = [block for block in blocks() if block.kind == "yaml" and block.text.startswith("endpoint:")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in links(page):
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        waiting += [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
    assert [page.name for page in PAGES if page not in reached] == []


@pytest.mark.parametrize("command", sorted(set(commands()), key=str), ids=str)
def test_every_command_parses(command: Command) -> None:
    if command.arguments == ("--help",):
        return
    assert command.arguments[0] in COMMANDS
    module = importlib.import_module(f"headrace.commands.{command.arguments[0]}")
    parser = typer.main.get_command(module.app)
    arguments = list(command.arguments[1:])
    if arguments == ["--help"]:
        return
    context = parser.make_context(command.arguments[0], arguments)
    if hasattr(parser, "resolve_command"):
        name, leaf, rest = parser.resolve_command(context, [*context._protected_args, *context.args])
        leaf.make_context(name, rest)


def test_a_flag_that_is_not_there_would_be_seen() -> None:
    wrong = Command(DOCS / "cluster.md", ("topics", "create", "--partition-count", "3"))
    with pytest.raises(Exception, match="No such option"):
        test_every_command_parses(wrong)


def test_the_commands_of_the_pages_are_found() -> None:
    used = {command.arguments[0] for command in commands()}
    assert used >= {"up", "topics", "policy", "worker", "sink", "collect", "replay", "export", "tables"}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docker-compose.yml"], ids=lambda page: page.name)
def test_every_environment_variable_exists(page: Path) -> None:
    text = page.read_text()
    named = set(re.findall(r"HEADRACE_[A-Z_]*[A-Z]", text))
    mistyped = set(re.findall(r"^(HEADRACE_\w+): nothing reads", text, re.MULTILINE))
    assert named - mistyped - variables.SETTINGS - variables.OTHERS == set()


def test_the_variables_and_sections_that_are_known_are_those_that_settings_read() -> None:
    assert {use.variable for use in setting_table.uses()} == variables.SETTINGS
    assert {use.section for use in setting_table.uses()} == variables.SECTIONS


def test_the_settings_are_those_of_the_program() -> None:
    marks = "<!-- settings: python -m headrace.setting_table -->\n", "<!-- end of settings -->"
    assert between((DOCS / "settings.md").read_text(), *marks) == setting_table.tables()


def test_the_exit_codes_are_those_of_the_program() -> None:
    text = between((DOCS / "cluster.md").read_text(), "<!-- exit codes -->", "<!-- end of exit codes -->")
    assert table_rows(text) == [[str(code.value), code.meaning] for code in ExitCode]


def test_the_metrics_are_those_of_the_program() -> None:
    text = (DOCS / "health.md").read_text()
    marks = "<!-- metrics: python -m headrace.metric_table -->\n", "<!-- end of metrics -->"
    assert between(text, *marks) == metric_table.table()
    watched = set(re.findall(r"`(headrace_\w+)`", between(text, "## What to watch", "## Over OTLP")))
    told = set(re.findall(r"headrace_\w+_total", (DOCS / "telemetry.md").read_text()))
    exposed = {metric.exposed_name for metric in metric_table.METRICS}
    assert watched - exposed == set()
    assert "headrace_samples_read_total" in told
    assert told - exposed == set()


def test_the_policy_metrics_are_those_of_the_program() -> None:
    text = between((DOCS / "policies.md").read_text(), "## Metrics", "## What is refused")
    told = {name for row in table_rows(text) for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {name.value for name in METRICS}


def test_the_benches_are_those_of_the_program() -> None:
    text = (DOCS / "performance.md").read_text()
    told = {row[0].strip("`") for row in table_rows(text.partition(TABLE_BEGIN)[0])}
    assert told == set(BENCHES)
    rows = table_rows(between(text, TABLE_BEGIN, TABLE_END))
    assert {(row[0], row[1]) for row in rows} == {
        (name, figure) for name in BENCHES for figure in BENCHES[name].figures
    }
    assert text.count(TABLE_BEGIN) == text.count(TABLE_END) == 1


@pytest.mark.parametrize(
    ("begin", "end", "words"),
    [("## States of a value", "## Reasons", ValueState), ("## Bounds", "## Carrying", ScalingBound)],
)
def test_the_words_of_a_decision_are_those_of_the_contract(
    begin: str, end: str, words: type[ValueState] | type[ScalingBound]
) -> None:
    text = between((DOCS / "decisions.md").read_text(), begin, end)
    told = {name for row in table_rows(text) for name in re.findall(r"`(\w+)`", row[0])}
    assert told <= {word.value for word in words}
    assert told >= {word.value for word in words if words is ValueState or _is_used(f"ScalingBound.{word.name}")}


def test_every_reason_that_is_given_is_explained() -> None:
    text = between((DOCS / "decisions.md").read_text(), "## Reasons", "## Bounds")
    told = {name for row in table_rows(text) for name in re.findall(r"`(\w+)`", row[0])}
    bounds = {word.value for word in ScalingBound if _is_used(f"ScalingBound.{word.name}")}
    given = {word.value for word in ScalingReason if word.value in bounds or _is_used(f"ScalingReason.{word.name}")}
    limits_alone = {"up_limit", "max_fraction", "stabilisation"}
    assert told == given - limits_alone


def _is_used(word: str) -> bool:
    return any(re.search(rf"{word}\b", file.read_text()) for file in (ROOT / "decisions").glob("*.py"))


@pytest.mark.parametrize("block", POLICIES, ids=lambda block: block.page.name)
def test_the_policies_of_the_pages_are_good(block: Block, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(block.text)
    assert [policy.endpoint for policy in load_policies(tmp_path)] == ["chat"]


def test_the_model_file_of_the_pages_is_good(tmp_path: Path) -> None:
    (model,) = [block for block in blocks() if block.kind == "yaml" and block.text.startswith("name:")]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.yaml").write_text(model.text)
    metrics = "metrics: [{name: model_unit_utilization}]\nmodel: {name: llama-3.1-70b, hardware: H100x4}\n"
    (tmp_path / "chat.yaml").write_text(POLICIES[0].text.partition("metrics:")[0] + metrics)
    (policy,) = load_policies(tmp_path)
    assert policy.model.coefficients is not None


def test_the_replay_lines_of_the_page_are_good(tmp_path: Path) -> None:
    (lines,) = [block for block in blocks() if block.page.name == "replay.md" and block.kind == "json"]
    (tmp_path / "telemetry.jsonl").write_text(lines.text)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "chat.yaml").write_text(POLICIES[0].text)
    command = [sys.executable, "-m", "headrace.main", "replay", "--policies", str(tmp_path / "policies")]
    command += ["--telemetry", str(tmp_path / "telemetry.jsonl")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert '"action":' in result.stdout


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.page.name)
def test_the_python_of_the_pages_compiles(block: Block) -> None:
    compile(block.text, str(block.page), "exec")


@pytest.mark.kafka
@pytest.mark.parametrize("block", RUNNING, ids=lambda block: block.text.splitlines()[0].strip('".'))
async def test_the_producers_of_the_pages_run(block: Block, kafka: Kafka, tmp_path: Path) -> None:
    wanted, topic = re.fullmatch(r"runs: (\d+) records on (\S+)", block.mark).groups()  # type: ignore[union-attr]  # a mark of another form is an error of the page
    access = KafkaAccess(bootstrap=kafka.bootstrap)
    await create_topics(access, TopicNames(), TopicSettings(partitions=3))
    (tmp_path / "example.py").write_text(block.text)
    async with open_consumer(access) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(3)]
        consumer.assign(partitions)
        before = await consumer.end_offsets(partitions)
        environment = os.environ | {"HEADRACE_BOOTSTRAP": kafka.bootstrap, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(tmp_path / "example.py")]
        example = await asyncio.create_subprocess_exec(*command, env=environment)
        assert await asyncio.wait_for(example.wait(), 60) == 0
        after = await consumer.end_offsets(partitions)
        read = 0
        for partition in partitions:
            consumer.seek(partition, before[partition])
            while await consumer.position(partition) < after[partition]:
                for messages in (await consumer.getmany(partition, timeout_ms=1000)).values():
                    batch = decode_batch(topic, partition.partition, messages)
                    assert batch.errors == []
                    read += sum(_count(run) for run in batch.runs)
    assert read == int(wanted)


def _count(run: object) -> int:
    match run:
        case JsonRun():
            return len(run.records)
        case FrameRun():
            return len(run.rows)
        case _:
            raise AssertionError(run)
