"""The folder of an embedded broker: its ports, settings, logs and formatted data."""

import json
import random
import shutil
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.exit_codes import CannotRunError, ExitCode, code_of_path

LOGGING = Path(__file__).with_name("broker_log4j2.properties")

_STACK = ("\tat ", "\t... ")

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    # One node: one copy of everything, few partitions of Kafka's own topics.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # After SIGKILL a start waits until the old registration has run out: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # A small machine: the defaults are for servers (128 MB of heap for the log cleaner alone).
    "log.cleaner.dedupe.buffer.size": "8388608",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
}


class Ports(NamedTuple):
    """On 127.0.0.1. The controller's is written into the data when it is formatted, and stays."""

    clients: int
    controller: int


class BrokerFolder:
    """What lies where; `properties` are the caller's own settings and win over those here."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.settings = folder / "server.properties"
        self.log = folder / "broker.log"
        self.output = folder / "broker.out"
        self._ports = folder / "ports.json"
        self._properties = properties

    def choose_ports(self, clients: int) -> Ports:
        """The folder's ports, with `clients` instead of the remembered one where it is not 0; free ones at first."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            known = json.loads(self._ports.read_text()) if self._ports.exists() else {}
            ports = Ports(clients or known.get("clients") or free_port(), known.get("controller") or free_port())
            self._ports.write_text(json.dumps(ports._asdict()))
        except ValueError as error:
            raise CannotRunError(f"{self._ports} cannot be used: {error}", ExitCode.STORAGE) from error
        except OSError as error:
            raise self._useless(error) from error
        return ports

    def logging(self) -> list[str]:
        """Java's options that send Kafka's log to `broker.log`, in pieces of 10 MB."""
        return [f"-Dlog4j2.configurationFile={LOGGING}", f"-Dheadrace.broker.log={self.log}"]

    def prepare(self, java: Path, jars: Path, ports: Ports, options: Sequence[str] = ()) -> None:
        """Write the settings, and format the data the first time, by a JVM with these `options`.

        Raises CannotRunError where it cannot be written.
        """
        try:
            if not (self.data / "meta.properties").exists():
                self._format(java, jars, ports, options)
            self._write_settings(ports, self.data)
        except OSError as error:
            raise self._useless(error) from error

    def _useless(self, error: OSError) -> CannotRunError:
        return CannotRunError(f"The broker's folder {self.folder} cannot be used: {error}", code_of_path(error))

    def last_lines(self, count: int = 12) -> str:
        """The end of both logs, for a message."""
        told: list[str] = []
        for path in (self.log, self.output):
            if path.exists():
                lines = path.read_text(errors="replace").splitlines()
                told += [f"  {line}" for line in lines if not line.startswith(_STACK)][-count:]
        return "\n".join(told) or "  (nothing was written)"

    def _format(self, java: Path, jars: Path, ports: Ports, options: Sequence[str]) -> None:
        """Format into a folder beside the data's place: one that was killed half-way is begun anew."""
        fresh = self.folder / "data.new"
        for leftover in (fresh, self.data):
            shutil.rmtree(leftover, ignore_errors=True)
        self._write_settings(ports, fresh)
        # Not with a dash in front: the tool would take it for an option.
        cluster_id = "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "--cluster-id", cluster_id]
        java_options = ["-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options, *self.logging()]
        command = [str(java), *java_options, "-cp", f"{jars}/*", *tool]
        with self.output.open("wb") as output:
            done = subprocess.run([*command, "-c", str(self.settings)], stdout=output, stderr=output, check=False)
        if done.returncode:
            raise CannotRunError(
                f"The broker's folder {self.folder} could not be formatted:\n{self.last_lines()}", ExitCode.STORAGE
            )
        fresh.rename(self.data)

    def _write_settings(self, ports: Ports, data: Path) -> None:
        clients = f"PLAINTEXT://127.0.0.1:{ports.clients}"
        settings = {
            **_SETTINGS,
            "listeners": f"{clients},CONTROLLER://127.0.0.1:{ports.controller}",
            "advertised.listeners": clients,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports.controller}",
            "log.dirs": str(data),
            **self._properties,
        }
        self.settings.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on, below the range of outgoing connections where there is room.

    Inside that range a client that keeps knocking at a dead broker's port may be given it as its own, connect to
    itself, and keep the broker from coming back.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
