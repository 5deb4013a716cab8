"""`headrace sink` and `headrace tables` as a user runs them."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from deltalake import DeltaTable, write_deltalake
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from headrace.commands.explain import ExplainSettings
from headrace.commands.tables import ListSettings, QuerySettings
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.settings import Settings, load
from sinks.catalog import query
from sinks.root import TableRoot
from tests.conftest import REFUSED_SESSION_S, SESSIONS_TOLD
from tests.sinks.deployment import Deployment, keep_everything, request_samples
from tests.sinks.readers import identities

REQUESTS = "telemetry_requests"


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "headrace.main", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


async def test_sigterm_commits_what_was_read(deployment: Deployment, tmp_path: Path) -> None:
    await deployment.send(request_samples(200))
    address = tmp_path / "address"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace.main", "sink"),
        f"--bootstrap={deployment.access.bootstrap}",
        f"--topic-prefix={deployment.names.prefix}",
        f"--tables={deployment.folder}",
        "--flush-seconds=3600",
        "--ready-lag=0",
        f"--health-file={address}",
    )
    try:
        await until_ready(address)
        assert DeltaTable(str(deployment.folder / REQUESTS)).count() == 0
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == ExitCode.OK
    finally:
        if process.returncode is None:
            process.kill()
    assert set(identities(deployment.folder, REQUESTS).values()) == {1}
    assert identities(deployment.folder, REQUESTS).total() == 200


async def until_ready(address: Path) -> None:
    """Returns when /readyz says so; checks that /metrics has the sink's."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        base = f"http://{await asyncio.to_thread(written, address)}"
        status = 0
        while status != 200:
            await asyncio.sleep(0.05)
            async with session.get(f"{base}/readyz") as response:
                status = response.status
        async with session.get(f"{base}/metrics") as response:
            assert re.search(r"^headrace_sink_lag_offsets(\{.*\})? 0\.0$", await response.text(), re.MULTILINE)


def written(path: Path) -> str:
    """What is in a file, once it is there."""
    for attempt in Retrying(retry=retry_if_exception_type(OSError), wait=wait_fixed(0.05), stop=stop_after_delay(30)):
        with attempt:
            text = path.read_text().strip()
    return text


async def test_missing_topics_have_a_status(deployment: Deployment) -> None:
    found = await asyncio.to_thread(
        headrace,
        "sink",
        f"--bootstrap={deployment.access.bootstrap}",
        "--topic-prefix=none.",
        f"--tables={deployment.folder}",
    )
    assert found.returncode == ExitCode.PARTITIONS
    assert "topics are missing: none.telemetry.requests" in found.stderr
    assert "Traceback" not in found.stderr


async def test_a_session_timeout_that_kafka_refuses_is_told_with_its_range(deployment: Deployment) -> None:
    found = await asyncio.to_thread(
        headrace,
        "sink",
        f"--bootstrap={deployment.access.bootstrap}",
        f"--topic-prefix={deployment.names.prefix}",
        f"--tables={deployment.folder}",
        f"--session-timeout-seconds={REFUSED_SESSION_S}",
    )
    assert found.returncode == ExitCode.USAGE
    assert SESSIONS_TOLD in found.stderr
    assert "Traceback" not in found.stderr


def test_settings_are_refused_all_at_once() -> None:
    found = headrace("sink", "--topics=signal,policies", "--flush-seconds=0", "--tables=x", "--storage-options=key")
    assert found.returncode == ExitCode.USAGE
    said = found.stderr.splitlines()
    assert {line.partition(":")[0] for line in said} == {
        "--topics",
        "--flush-seconds",
        "--storage-options",
        "--bootstrap",
    }
    assert "did you mean signals?" in found.stderr
    assert "KEY=VALUE" in found.stderr


@pytest.fixture
async def filled(deployment: Deployment) -> Path:
    await deployment.send(request_samples(60, endpoints=2))
    async with deployment.producer() as sender:
        await sender.raw("policies", None, b"endpoint-1", 0)
    await keep_everything(deployment.plan())
    return deployment.folder


async def test_tables_are_listed_queried_and_checked(filled: Path) -> None:
    listed = await asyncio.to_thread(headrace, "tables", f"--tables={filled}")
    (line,) = [line.split() for line in listed.stdout.splitlines() if REQUESTS in line]
    assert line[:3] == [REQUESTS, "60", "1"]
    assert line[-3:] == ["2026-09-21", "14:14:19", "UTC"]
    sql = f"SELECT endpoint, count(*) AS n, max(at) AS last FROM {REQUESTS} GROUP BY endpoint ORDER BY endpoint"
    answered = await asyncio.to_thread(headrace, "tables", "query", sql, f"--tables={filled}", "--format=json")
    found = [json.loads(line) for line in answered.stdout.splitlines()]
    assert [(row["endpoint"], row["n"]) for row in found] == [("endpoint-0", 30), ("endpoint-1", 30)]
    checked = await asyncio.to_thread(headrace, "tables", "check", f"--tables={filled}")
    assert checked.returncode == ExitCode.OK
    assert f"{REQUESTS}: 60 rows, none doubled" in checked.stdout.splitlines()


async def test_maps_are_objects_in_json(filled: Path) -> None:
    sql = "SELECT MAP(['20'], [1]) AS windows"
    answered = await asyncio.to_thread(headrace, "tables", "query", sql, f"--tables={filled}", "--format=json")
    assert json.loads(answered.stdout) == {"windows": {"20": 1}}


async def test_doubled_rows_are_found(filled: Path) -> None:
    table = DeltaTable(str(filled / REQUESTS))
    write_deltalake(table, table.to_pyarrow_table().slice(0, 3), mode="append")
    checked = await asyncio.to_thread(headrace, "tables", "check", f"--tables={filled}")
    assert checked.returncode == ExitCode.INCOMPLETE
    assert f"{REQUESTS}: 63 rows, 3 doubled" in checked.stdout.splitlines()
    assert len([line for line in checked.stderr.splitlines() if line.endswith(": 2 times")]) == 3


async def test_bad_sql_is_told_without_a_traceback(filled: Path) -> None:
    answered = await asyncio.to_thread(
        headrace, "tables", "query", "SELECT nothing FROM policies", f"--tables={filled}"
    )
    assert answered.returncode == ExitCode.USAGE
    assert "nothing" in answered.stderr
    assert "Traceback" not in answered.stderr


@pytest.mark.parametrize(
    "sql",
    ["COPY (SELECT 1) TO 'x.json'", "-- SELECT\nDROP TABLE signals", "/* */ (create table x AS SELECT 1)", "", ";"],
)
def test_what_is_no_query_is_refused(sql: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allowed: a query: SELECT, WITH, VALUES"):
        query(TableRoot(address=str(tmp_path)), sql)


def test_a_query_may_begin_with_a_comment_or_in_parentheses(tmp_path: Path) -> None:
    answer = query(TableRoot(address=str(tmp_path)), "-- one\n/* two */ (select 3 AS three)")
    assert answer.to_pylist() == [{"three": 3}]


async def test_text_that_looks_like_markup_is_shown_whole_in_a_pipe(filled: Path) -> None:
    sql = f"""SELECT DISTINCT '[/x]' AS "[/head]", '[red]' || repeat('w', 300) AS wide FROM {REQUESTS}"""
    answered = await asyncio.to_thread(headrace, "tables", "query", sql, f"--tables={filled}")
    assert answered.returncode == ExitCode.OK, answered.stderr
    assert [line.split() for line in answered.stdout.splitlines()] == [
        ["[/head]", "wide"],
        ["[/x]", "[red]" + "w" * 300],
    ]


async def test_an_unknown_table_is_answered_with_those_there_are(filled: Path) -> None:
    answered = await asyncio.to_thread(headrace, "tables", "query", "SELECT * FROM nope", f"--tables={filled}")
    assert answered.returncode == ExitCode.USAGE
    assert "nope" in answered.stderr
    assert REQUESTS in answered.stderr


def test_a_folder_that_is_not_there_has_a_status(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    ended = headrace("tables", f"--tables={nowhere}")
    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.startswith(f"--tables: {nowhere} is not there, allowed: ")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "given"),
    [(ListSettings, {}), (QuerySettings, {"sql": "SELECT 1"}), (ExplainSettings, {"endpoint": "chat"})],
    ids=["list", "query", "explain"],
)
def test_a_wrong_path_is_told_by_every_command_that_reads_tables(
    model: type[Settings], given: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    for wrong, said in ((tmp_path / "nowhere", "is not there"), (file, "is no folder")):
        with pytest.raises(CannotRunError) as caught:
            load(model, {**given, "tables": str(wrong)}, None, {})
        assert caught.value.code is ExitCode.USAGE
        assert caught.value.message.startswith(f"--tables: {wrong} {said}, allowed: ")
    load(model, {**given, "tables": str(tmp_path)}, None, {})
    load(model, {**given, "tables": "s3://bucket/tables"}, None, {})


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"PAR1")], ids=["gone", "damaged"])
async def test_a_table_whose_files_cannot_be_read_has_a_status(filled: Path, damage: Callable[[Path], object]) -> None:
    """As where somebody tidied the folder by hand."""
    for file in (filled / REQUESTS).rglob("*.parquet"):
        damage(file)
    for command in (["query", f"SELECT DISTINCT endpoint FROM {REQUESTS}"], ["check"]):
        answered = await asyncio.to_thread(headrace, "tables", *command, f"--tables={filled}")
        assert answered.returncode == ExitCode.STORAGE, answered.stderr
        assert "cannot be read: " in answered.stderr
        assert len(answered.stderr.splitlines()) == 1
