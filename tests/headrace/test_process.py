"""The frame of a long-running process, in a process of its own: signals, health, metrics, exit codes."""

import contextlib
import json
import resource
import signal
import socket
from pathlib import Path

import psutil

from headrace.exit_codes import ExitCode
from headrace.few_connections import CONNECTIONS_MAX
from tests.headrace.example_process import WAITS, Run, address, get


def test_health_readiness_and_metrics_are_served_where_the_file_says(run: Run, tmp_path: Path) -> None:
    process = run(WAITS)
    where = address(tmp_path)
    assert get(f"http://{where}/healthz") == (200, '{"process": "example", "ok": true, "problems": {}}')
    status, body = get(f"http://{where}/readyz")
    assert status == 503
    assert json.loads(body)["problems"] == {"kafka": "not connected yet"}
    _, exposed = get(f"http://{where}/metrics")
    assert "headrace_examples_total 7.0" in exposed
    assert "process_resident_memory_bytes" in exposed

    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert events == ["health_served", "stop_asked", "process_ended"]
    assert not (tmp_path / "health").exists()


def test_a_second_interrupt_ends_a_process_that_does_not_stop(run: Run, tmp_path: Path) -> None:
    process = run("async def main(process):\n    print('here', flush=True)\n    await asyncio.Event().wait()\n")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "stop_asked" in next(line for line in process.stderr if "stop_asked" in line)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.returncode == ExitCode.INTERRUPTED


def test_a_users_mistake_ends_it_with_its_message_and_code(run: Run) -> None:
    process = run("async def main(process):\n    raise CannotRunError('no such thing', ExitCode.PARTITIONS)\n")
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.PARTITIONS
    assert "no such thing" in logged.splitlines()
    assert "Traceback" not in logged


def test_a_reader_of_its_output_that_has_ended_is_no_bug(run: Run, tmp_path: Path) -> None:
    process = run(
        "from headrace.standard_output import watch_output\n"
        "watch_output()\n"
        "async def main(process):\n    await process.stop.wait()\n    print('here', flush=True)\n"
    )
    address(tmp_path)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    logged = process.stderr.read()
    assert process.wait(60) == ExitCode.READER_GONE
    assert "Traceback" not in logged


def test_variables_that_nothing_reads_are_named_once(run: Run) -> None:
    process = run("async def main(process):\n    pass\n", HEADRACE_HOME="/opt")
    _, logged = process.communicate(timeout=60)
    told = [line for line in map(json.loads, logged.splitlines()) if line["event"] == "unread_variables"]
    assert [line["names"] for line in told] == [["HEADRACE_HOME"]]


def test_a_bug_of_ours_is_logged_with_its_traceback(run: Run) -> None:
    process = run("async def main(process):\n    raise KeyError('oops')\n")
    _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.BUG
    failed = next(json.loads(line) for line in logged.splitlines() if "process_failed" in line)
    assert "KeyError: 'oops'" in failed["exception"]


def test_a_taken_port_is_named(run: Run) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        process = run(WAITS, HEADRACE_HEALTH_PORT=str(port))
        _, logged = process.communicate(timeout=60)
    assert process.returncode == ExitCode.UNAVAILABLE
    assert f"--health-port: 127.0.0.1:{port} cannot be used" in logged


def test_work_is_cancelled_when_the_process_is_asked_to_stop(run: Run) -> None:
    body = """
async def work():
    try:
        print("working", flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)
async def main(process):
    await until_stopped(process, work())
"""
    process = run(body)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    assert told == "cleaned up\n"


def test_idle_connections_keep_nobody_out(run: Run, tmp_path: Path) -> None:
    process = run(WAITS)
    host, port = address(tmp_path).rsplit(":", 1)
    with contextlib.ExitStack() as held:
        idle = [
            held.enter_context(socket.create_connection((host, int(port)), timeout=60))
            for _ in range(CONNECTIONS_MAX + 20)
        ]
        assert get(f"http://{host}:{port}/healthz")[0] == 200
        assert idle[0].recv(1) == b"", "the oldest is closed"
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle[-1].recv(12) == b"HTTP/1.1 200"
        files = psutil.Process(process.pid).net_connections("tcp")
        assert len([each for each in files if each.status == psutil.CONN_ESTABLISHED]) <= CONNECTIONS_MAX
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK


def test_a_process_without_files_left_does_not_fill_its_log(run: Run, tmp_path: Path) -> None:
    process = run(WAITS)
    host, port = address(tmp_path).rsplit(":", 1)
    allowed = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1, allowed[1]))
    with socket.create_connection((host, int(port)), timeout=60):
        assert process.stderr is not None
        refused = next(line for line in process.stderr if "out of system resource" in line)
        assert json.loads(refused)["logger"] == "asyncio"
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, allowed)
        assert get(f"http://{host}:{port}/healthz")[0] == 200
    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    assert "out of system resource" not in logged


def test_requests_that_are_no_http_are_refused_with_a_line_and_without_a_traceback(run: Run, tmp_path: Path) -> None:
    process = run(WAITS)
    host, port = address(tmp_path).rsplit(":", 1)
    bad = (b"\x16\x03\x01\x00\x05hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /healthz HTTP/1.1\r\n: x\r\n\r\n")
    for sent in bad * 5:
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(sent)
            assert b"400 Bad Request" in client.recv(4096)
    assert get(f"http://{host}:{port}/healthz")[0] == 200
    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    assert "Traceback" not in logged
    refused = [line for line in map(json.loads, logged.splitlines()) if line["event"] == "bad_http_request"]
    assert len(refused) == 1
    assert refused[0]["logger"] == "aiohttp.server"
