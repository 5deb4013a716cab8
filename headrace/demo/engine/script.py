"""What the demo plays: two endpoints, their policies, and how many users each has in each phase."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from headrace.load import TokenRange

POLICY_CHAT = """\
# Two engines. Four requests in flight are what one replica shall have; the windows are short, as the demo is.
endpoint: chat
scaleTargetRef: {kind: Deployment, name: chat}
mode: advise                 # decide, and leave the replicas to someone else
minReplicas: 1
maxReplicas: 12
metrics:
  - {name: inflight_requests, target: 4}
  - {name: queue_depth, target: 4}
scaleUp: {windowSeconds: 10}
scaleDown: {windowSeconds: 20}
"""

POLICY_SEARCH = """\
# One engine with little to do from beginning to end: what chat goes through does not touch it.
endpoint: search
scaleTargetRef: {kind: Deployment, name: search}
mode: advise
minReplicas: 1
maxReplicas: 4
metrics:
  - {name: inflight_requests, target: 4}
  - {name: queue_depth, target: 4}
scaleUp: {windowSeconds: 10}
scaleDown: {windowSeconds: 20}
"""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A part of the show: `share` of its seconds."""

    name: str
    share: float


PHASES = (
    Phase(name="idle", share=1 / 12),
    Phase(name="light", share=2 / 12),
    Phase(name="overload", share=3 / 12),
    Phase(name="calm", share=6 / 12),
)


@dataclass(frozen=True, kw_only=True)
class Users:
    """So many who each send a request, wait for its answer, think for `think_s`, and send the next."""

    count: int
    think_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DemoEndpoint:
    """One endpoint: its policy as YAML, its engines' names, lengths of requests in tokens, users by phase."""

    name: str
    policy: str
    replicas: tuple[str, ...]
    prompts: TokenRange
    outputs: TokenRange
    users: Mapping[str, Users]


ENDPOINTS = (
    DemoEndpoint(
        name="chat",
        policy=POLICY_CHAT,
        replicas=("chat-0", "chat-1"),
        prompts=TokenRange(least=16, most=96),
        outputs=TokenRange(least=100, most=300),
        users=MappingProxyType(
            {
                "idle": Users(count=0),
                "light": Users(count=6),
                "overload": Users(count=60),
                "calm": Users(count=1, think_s=1.0),
            }
        ),
    ),
    DemoEndpoint(
        name="search",
        policy=POLICY_SEARCH,
        replicas=("search-0",),
        prompts=TokenRange(least=32, most=128),
        outputs=TokenRange(least=4, most=16),
        users=MappingProxyType({phase.name: Users(count=2, think_s=0.3) for phase in PHASES}),
    ),
)


def phase_at(done_s: float, seconds: float) -> tuple[Phase, float]:
    """The phase `done_s` after the beginning of a show of `seconds`, and when it ends; the last one from its end on."""
    end_s = 0.0
    for phase in PHASES:
        end_s += phase.share * seconds
        if done_s < end_s:
            break
    return phase, end_s
