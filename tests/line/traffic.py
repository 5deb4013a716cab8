"""Traffic of several endpoints for as long as a test wants, and the replay of what was decided about it."""

import asyncio
import json
import random
from pathlib import Path

from tests.line.deployment import Line, Sender

ENDPOINTS = [f"e{number}" for number in range(6)]
POLICY = """
endpoint: {name}
scaleTargetRef: {{kind: Deployment, name: {name}}}
minReplicas: 1
maxReplicas: 30
metrics: [{{name: inflight_requests, target: 4}}, {{name: queue_depth, target: 2}}]
"""


class Load:
    """Two replicas an endpoint, a sample a second each, changing enough that decisions go up and down."""

    def __init__(self, line: Line, dice: random.Random) -> None:
        self._line = line
        self._dice = dice
        self.sent = 0
        self.stop = asyncio.Event()
        self._begin_s = 0

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
            await sender.flush()
            self.sent = sender.sent_to["telemetry.requests"]

    async def _tell_supply(self, sender: Sender, at_s: int) -> None:
        """What a watcher of the cluster repeats: the replicas' states and the target's count, which changes once."""
        for endpoint in ENDPOINTS:
            for replica in ("r1", "r2"):
                fields = {"replica": replica, "epoch": "1", "state": "ready", "seq": at_s}
                await sender.send_record("telemetry.replicas", endpoint=endpoint, at_s=at_s, **fields)
            spec = 2 if at_s - self._begin_s < 30 else 3
            await sender.send_record("telemetry.targets", endpoint=endpoint, at_s=at_s, seq=at_s, spec_replicas=spec)

    def _sample(self, endpoint: str, replica: str, at_s: int) -> dict[str, object]:
        running = 3 + self._dice.randrange(4) + (12 if at_s // 40 % 2 else 0)
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
