"""A scene: a policy and lines of telemetry in the order of arrival, told in seconds since its start."""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

START_S = 1_700_000_100
"""Event time of a scene's second 0: a multiple of 300 s."""

FOLDER = Path(__file__).parent

ENGINE_MS = [10.0, 50.0, 100.0, 210.0, 220.0, 250.0, 500.0, 1000.0, 2500.0, 10000.0]


class Scene:
    """Lines are given by second; `write` sorts them by arrival, which is a second after the event unless told."""

    def __init__(self, says: str, **policy: Any) -> None:
        self.says = says
        self.policy: dict[str, Any] = {
            "endpoint": "chat",
            "scaleTargetRef": {"kind": "Deployment", "name": "chat"},
            "minReplicas": 1,
            "maxReplicas": 40,
            "metrics": [{"name": "inflight_requests", "target": 8}],
            "concurrency": {"target": 8, "auto": False},
        } | policy
        self._lines: list[tuple[float, dict[str, Any]]] = []
        self._inside: dict[tuple[str, str], float] = {}

    def line(self, topic: str, second: float, received: float | None = None, **fields: Any) -> None:
        arrives = START_S + (second + 1 if received is None else received)
        record = {"topic": topic, "received_s": arrives, "endpoint": "chat", "at_s": START_S + int(second)} | fields
        self._lines.append((arrives, record))

    def target(self, second: float, spec: int, **fields: Any) -> None:
        """The target as it is from this second on."""
        self.line("telemetry.targets", second, spec_replicas=spec, **fields)

    def replica(self, second: float, name: str, state: str = "ready", **fields: Any) -> None:
        self.line("telemetry.replicas", second, replica=name, epoch=fields.pop("epoch", "1"), state=state, **fields)

    def fleet(self, count: int, spec: int | None = None) -> None:
        """So many replicas, ready for an hour, and a target that agrees."""
        self.target(0, count if spec is None else spec)
        for name in names(count):
            self.replica(-3600, name, received=0.5)

    def engine(self, second: float, replica: str, running: float, received: float | None = None, **fields: Any) -> None:
        """One second of an engine: `running` in flight, arrivals and completions in balance with the second before.

        What else it says, or says against that, by name.
        """
        inside = running + fields.get("waiting", 0)
        teller = replica, fields.get("source", "engine")
        change = round(inside - self._inside.get(teller, inside))
        self._inside[teller] = inside
        least = 2 if inside else 0
        plain = {
            "epoch": "1",
            "source": "engine",
            "running": running,
            "waiting": 0,
            "arrivals": max(least, change),
            "completions": max(least, change) - change,
            "errors": 0,
            "aborted": 0,
            "rejections": 0,
        }
        self.line("telemetry.requests", second, received, replica=replica, **(plain | fields))

    def gateway(self, second: float, **fields: Any) -> None:
        """One second of a router's queue of requests that no replica has."""
        known = {"replica": "", "epoch": "1", "source": "router", "reporter": "gateway"}
        self.line("telemetry.requests", second, **(known | fields))

    def steady(self, seconds: Iterable[int], count: int, running: float, **fields: Any) -> None:
        """Each of `count` replicas with the same in flight, every second."""
        for second in seconds:
            for name in names(count):
                self.engine(second, name, running, **fields)

    def until(self, second: float) -> None:
        """Let time pass."""
        self._lines.append((START_S + second, {"topic": "clock", "received_s": START_S + second}))

    def lines(self) -> list[bytes]:
        """In order of arrival; of one instant as they were told."""
        return [msgspec.json.encode(record) for _, record in sorted(self._lines, key=lambda item: item[0])]

    def write(self, name: str) -> None:
        """The telemetry, packed without a time so that the same scene gives the same bytes, and the policy."""
        (FOLDER / f"{name}.jsonl.gz").write_bytes(gzip.compress(b"\n".join(self.lines()) + b"\n", mtime=0))
        policy = msgspec.json.format(msgspec.json.encode(self.policy), indent=2)
        (FOLDER / f"{name}.yaml").write_bytes(b"# " + self.says.encode() + b"\n" + policy + b"\n")


def names(count: int) -> list[str]:
    return [f"chat-{index}" for index in range(count)]


def millis(value_ms: float, count: int = 2) -> dict[str, Any]:
    """A histogram of `count` values in the bucket that holds `value_ms`."""
    bucket = sum(bound < value_ms for bound in ENGINE_MS)
    counts = [count if index == bucket else 0 for index in range(len(ENGINE_MS) + 1)]
    return {"explicit_bounds": ENGINE_MS, "bucket_counts": counts, "sum": value_ms * count}
