"""A scene's files through the replay, and its decisions as runs of equal ones."""

import gzip
from itertools import groupby
from typing import Any

import msgspec

from headrace.replay import Replay
from records.decisions import ScalingDecision
from records.policy import EndpointPolicy
from tests.scenarios.scene import FOLDER, START_S


def decisions_of(name: str) -> list[ScalingDecision]:
    """Replay the files of one scene; every line of them must be good."""
    policy = msgspec.yaml.decode((FOLDER / f"{name}.yaml").read_bytes(), type=EndpointPolicy)
    made: list[ScalingDecision] = []
    refused: list[msgspec.Struct] = []

    def write(topic: str, record: msgspec.Struct) -> None:
        if isinstance(record, ScalingDecision):
            made.append(record)
        elif topic == "deadletters":
            refused.append(record)

    replay = Replay([policy], write, source=f"file:{name}")
    for line in gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).splitlines():
        replay.take(line)
    replay.finish()
    assert not refused, refused[0]
    return made


def runs_of(made: list[ScalingDecision]) -> list[list[Any]]:
    """`[first second, last second, action, current, desired, reason, victims]` of equal decisions in a row."""
    runs = []
    for key, group in groupby(made, key=_key):
        ticks = [decision.at_s - START_S for decision in group]
        runs.append([ticks[0], ticks[-1], *key])
    return runs


def _key(decision: ScalingDecision) -> tuple[Any, ...]:
    victims = [victim.replica for victim in decision.victims]
    return decision.action.value, decision.current, decision.desired, decision.reason.value, victims
