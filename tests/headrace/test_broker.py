"""The embedded broker against a real Java, Maven and Kafka."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from headrace.broker import EmbeddedBroker
from headrace.broker_classes import archive_option
from headrace.broker_jars import fetch_jars, find_java
from headrace.exit_codes import CannotRunError, ExitCode
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.kafka

STARTS_AND_WAITS = """
import sys, threading
from pathlib import Path
from headrace.broker import EmbeddedBroker
broker = EmbeddedBroker(Path(sys.argv[1]), quick_start=True)
starter = threading.Thread(target=broker.start)   # its thread ends; the broker must not
starter.start()
starter.join()
print(broker.pid, flush=True)
sys.stdin.read()
"""


async def write(bootstrap: str, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(count)]


async def make_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()


async def test_acknowledged_records_survive_sigkill(broker_factory: BrokerFactory) -> None:
    """The same folder gives the same broker again, to another object too."""
    first = await asyncio.to_thread(broker_factory)
    first_pid = first.pid
    await make_topic(first.bootstrap, "kept")
    written = [uuid.uuid4().bytes for _ in range(100)]
    await write(first.bootstrap, "kept", written)

    first.kill()
    assert not psutil.pid_exists(first_pid)
    second = await asyncio.to_thread(broker_factory, first.folder)

    assert second.bootstrap == first.bootstrap
    assert second.pid != first_pid
    await write(second.bootstrap, "kept", [b"after"])
    assert await read(second.bootstrap, "kept", 101) == [*written, b"after"]


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    java = psutil.Process(int(parent.stdout.readline()))
    assert java.is_running()
    assert "java" in java.name()
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs([java], timeout=60)
    assert [process.pid for process in gone] == [java.pid]
    assert alive == []


def test_classes_are_archived_once(tmp_path: Path) -> None:
    """And where no archive comes of it, that is not tried at every start."""
    trained: list[str] = []

    def train(options: list[str]) -> None:
        trained.extend(options)
        Path(options[0].partition("=")[2]).write_bytes(b"classes")

    used = [archive_option(find_java(), tmp_path / "jars", train) for _ in range(2)]
    archive = next(tmp_path.glob("jars-*.jsa"))
    assert used == [[f"-XX:SharedArchiveFile={archive}"]] * 2
    assert len(trained) == 1

    in_vain: list[str] = []
    assert [archive_option(find_java(), tmp_path / "others", in_vain.extend) for _ in range(2)] == [[], []]
    assert len(in_vain) == 1
    assert archive_option(find_java(), tmp_path / "nowhere" / "jars", train) == []


def test_resident_memory_stays_under_600_mb(tmp_path: Path) -> None:
    """As users run it, with its compiler and from the archive of its classes; after 60 MB of records."""
    with EmbeddedBroker(tmp_path) as broker:
        assert ".jsa" in Path(f"/proc/{broker.pid}/maps").read_text().replace("classes.jsa", "")
        asyncio.run(make_topic(broker.bootstrap, "load"))
        asyncio.run(write(broker.bootstrap, "load", [os.urandom(30_000)] * 2_000))
        assert psutil.Process(broker.pid).memory_info().rss < 600e6


def test_the_second_start_needs_no_network_and_no_maven(
    broker_factory: BrokerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a frozen broker thaws."""
    fetch_jars()
    (tmp_path / "java").symlink_to(find_java())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    broker = broker_factory()
    broker.freeze()
    assert os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WNOWAIT) is not None
    broker.thaw()
    asyncio.run(make_topic(broker.bootstrap, "thawed"))


def test_without_java_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(CannotRunError, match=r"needs Java 17.*no `java` on PATH(.|\n)*--bootstrap") as caught:
        EmbeddedBroker(tmp_path).start()
    assert caught.value.code is ExitCode.UNAVAILABLE


def test_an_older_java_is_refused_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(CannotRunError, match=r'needs Java 17(.|\n)*version "11\.0\.2"'):
        find_java()


def test_without_maven_the_message_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotRunError, match=rf"not in {tmp_path} yet.*no `mvn` on PATH") as caught:
        fetch_jars(tmp_path)
    assert caught.value.code is ExitCode.UNAVAILABLE


def test_a_fetch_that_fails_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no network here'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    cache = tmp_path / "cache"
    with pytest.raises(CannotRunError, match=r"exit status 1(.|\n)*no network here"):
        fetch_jars(cache)
    assert [path.suffix for path in cache.iterdir()] == [".lock"]


def test_several_processes_fetch_once(tmp_path: Path) -> None:
    """The first to hold the lock fetches; a counter beside a stand-in for Maven tells how often that was."""
    maven = tmp_path / "mvn"
    maven.write_text(
        "#!/bin/sh\n"
        f"echo fetched >> {tmp_path}/fetches\n"
        'for argument; do case "$argument" in -DoutputDirectory=*) out="${argument#*=}";; esac; done\n'
        'mkdir -p "$out" && touch "$out/kafka_2.13-4.jar"\n'
    )
    maven.chmod(0o755)
    program = "import sys; from pathlib import Path; from headrace.broker_jars import fetch_jars; "
    program += "print(fetch_jars(Path(sys.argv[1])))"
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = [sys.executable, "-c", program, str(tmp_path / "cache")]
    fetching = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = {process.communicate()[0] for process in fetching}
    assert len(told) == 1
    assert (tmp_path / "fetches").read_text() == "fetched\n"


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotRunError, match=rf"Port {port} on 127\.0\.0\.1 .*in use") as caught:
            EmbeddedBroker(tmp_path, port=port).start()
    assert caught.value.code is ExitCode.UNAVAILABLE


def test_a_wrong_setting_is_told_with_the_log(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(start=False, properties={"num.io.threads": "none"})
    with pytest.raises(CannotRunError, match=r"num\.io\.threads") as caught:
        broker.start()
    assert not broker.is_running
    assert str(broker.folder) in caught.value.message


def test_a_broker_that_dies_at_start_is_told_with_its_last_lines(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(start=False)
    (broker.folder / "data").mkdir()
    (broker.folder / "data" / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=7\n")
    with pytest.raises(CannotRunError, match=r"ended with status(.|\n)*node id 7") as caught:
        broker.start()
    assert str(broker.log_path) in caught.value.message


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotRunError, match=r"folder .*file/broker cannot be used") as caught:
        EmbeddedBroker(tmp_path / "file" / "broker").start()
    assert caught.value.code is ExitCode.USAGE


def test_a_parent_killed_while_starting_leaves_no_java(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    launched = tmp_path / "data" / "__cluster_metadata-0"
    deadline_s = time.monotonic() + 60
    while not launched.exists() and time.monotonic() < deadline_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            parent.wait(0.05)
    assert launched.exists(), "it was not killed while starting"
    parent.kill()
    parent.wait()
    settings = str(tmp_path / "server.properties")
    ours = [process for process in psutil.process_iter(["cmdline"]) if settings in (process.info["cmdline"] or ())]
    assert psutil.wait_procs(ours, timeout=60)[1] == []


def test_the_command_prints_its_address_and_ends_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.main", "broker", "--data", str(tmp_path / "broker")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    bootstrap = process.stdout.readline().strip()
    asyncio.run(make_topic(bootstrap, "made"))
    (java,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    assert psutil.wait_procs([java], timeout=60)[1] == []


def test_ctrl_c_while_it_starts_ends_it_soon(tmp_path: Path) -> None:
    health = tmp_path / "health"
    command = [sys.executable, "-m", "headrace.main", "broker", "--data", str(tmp_path / "broker")]
    process = subprocess.Popen([*command, "--health-file", str(health)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline_s = time.monotonic() + 60
    while not health.exists() and time.monotonic() < deadline_s:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    assert health.exists()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == ExitCode.OK
    assert b"Traceback" not in told
    ours = [
        found for found in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(found.info["cmdline"] or ())
    ]
    assert psutil.wait_procs(ours, timeout=60)[1] == []


def test_a_broker_that_dies_ends_the_command_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.main", "broker", "--data", str(tmp_path / "broker")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    (java,) = psutil.Process(process.pid).children()
    java.kill()
    _, told = process.communicate(timeout=60)
    assert process.returncode == ExitCode.CHILD_ENDED
    assert f"ended unexpectedly with signal SIGKILL; its log: {tmp_path}/broker/broker.log" in told
