"""Traffic of several endpoints for as long as a test wants, and the replay of what was decided about it."""

import asyncio
import json
import random
from pathlib import Path

from tests.line.audit import TICK_S
from tests.line.deployment import Line, Sender

ENDPOINTS = [f"e{number}" for number in range(6)]
POLICY = """
endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
minReplicas: 1
maxReplicas: 30
metrics: [{{name: inflight_requests, target: 4}}, {{name: queue_depth, target: 2}}]
"""


QUIET_S = 40
"""Quiet and busy stretches of this length take turns, from the load's beginning on."""
SPECS = (5, 6)
"""The targets' count until 30 s after the beginning, and from then on: a change that nobody here decided."""


class Load:
    """Two replicas an endpoint, a sample a second each; what is decided about a stretch is certain.

    Quiet, at most 8 requests are in flight on a replica, 16 in all: 4 replicas of POLICY, fewer than there are, and
    coming down takes minutes: a hold. Busy, at least 15 a replica, 30 in all: 8 replicas, more than there are.
    """

    def __init__(self, line: Line, dice: random.Random) -> None:
        self._line = line
        self._dice = dice
        self.sent = 0
        self.stop = asyncio.Event()
        self._begin_s = 0
        self._seconds = 0
        self._went_on = asyncio.Condition()

    @property
    def last_tick_s(self) -> int:
        """The newest tick for which all samples are there."""
        return (self._begin_s + self._seconds) // TICK_S * TICK_S

    async def until_sent(self, seconds: int) -> None:
        """Return when the samples of so many seconds were sent."""
        async with self._went_on:
            await self._went_on.wait_for(lambda: self._seconds >= seconds)

    async def run(self) -> None:
        clock = self._line.clock
        second = self._begin_s = int(clock.now_s())
        async with self._line.sender() as sender:
            while not self.stop.is_set():
                await clock.sleep(second + 1 - clock.now_s())
                for endpoint in ENDPOINTS:
                    for replica in ("r1", "r2"):
                        await sender.send_record("telemetry.requests", **self._sample(endpoint, replica, second))
                if second % 7 == 0:
                    await sender.send("telemetry.requests", ENDPOINTS[0], b"{")
                if second % 10 == 0:
                    await self._tell_supply(sender, second)
                second += 1
                async with self._went_on:
                    self._seconds = second - self._begin_s
                    self._went_on.notify_all()
            await sender.flush()
            self.sent = sender.sent_to["telemetry.requests"]

    async def _tell_supply(self, sender: Sender, at_s: int) -> None:
        """What a watcher of the cluster repeats: the replicas' states and the target's count, which changes once."""
        for endpoint in ENDPOINTS:
            for replica in ("r1", "r2"):
                fields = {"replica": replica, "epoch": "1", "state": "ready", "seq": at_s}
                await sender.send_record("telemetry.replicas", endpoint=endpoint, at_s=at_s, **fields)
            spec = SPECS[0] if at_s - self._begin_s < 30 else SPECS[1]
            await sender.send_record("telemetry.targets", endpoint=endpoint, at_s=at_s, seq=at_s, spec_replicas=spec)

    def _sample(self, endpoint: str, replica: str, at_s: int) -> dict[str, object]:
        is_busy = (at_s - self._begin_s) // QUIET_S % 2 == 1
        running = 3 + self._dice.randrange(4) + (12 if is_busy else 0)
        return {
            "endpoint": endpoint,
            "replica": replica,
            "epoch": "1",
            "at_s": at_s,
            "source": "engine",
            "running": running,
            "waiting": self._dice.randrange(3),
        }


async def replayed(line: Line, endpoint: str, policies: Path) -> list[dict[str, object]]:
    """The decisions of an export's replay."""
    exported, out = line.folder / f"{endpoint}.jsonl", line.folder / f"{endpoint}.out.jsonl"
    await line.run("export", "--endpoint", endpoint, "--out", str(exported))
    await line.run("replay", "--policies", str(policies), "--telemetry", str(exported), "--out", str(out))
    decisions = [json.loads(text) for text in out.read_text().splitlines()]
    return [{key: value for key, value in decision.items() if key != "topic"} for decision in decisions]
