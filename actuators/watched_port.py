"""A port that counts its calls, and knows whether the other side answers."""

from typing import TypeVar

from actuators import metrics
from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    Marked,
    ObservedTarget,
    Refused,
    ScaleTargetPort,
    TargetRef,
    Unanswered,
)
from wire.zero_counts import begin_at_zero

A = TypeVar("A", bound=ObservedTarget | Applied | Marked | Conflict | Refused | Unanswered)

_WORDS = {
    ObservedTarget: "ok",
    Applied: "ok",
    Marked: "ok",
    Conflict: "conflict",
    Refused: "refused",
    Unanswered: "unanswered",
}
_RESULTS = {
    "get": ("ok", "refused", "unanswered"),
    "compare_and_set": ("ok", "conflict", "refused", "unanswered"),
    "drain": ("ok", "refused", "unanswered"),
}


class WatchedPort:
    """`why_not` is the newest call's trouble that may pass, None after any other answer."""

    def __init__(self, port: ScaleTargetPort) -> None:
        self._port = port
        self.why_not: str | None = None
        for call, results in _RESULTS.items():
            begin_at_zero(metrics.calls, call=[call], result=results)

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        return self._seen("get", await self._port.get(target, context))

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        return self._seen("compare_and_set", await self._port.compare_and_set(target, change, context))

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        return self._seen("drain", await self._port.drain(target, drain, context))

    def _seen(self, call: str, answer: A) -> A:
        metrics.calls.add(1, {"call": call, "result": _WORDS[type(answer)]})
        match answer:
            case Unanswered() | Refused(retryable=True):
                self.why_not = answer.detail
            case _:
                self.why_not = None
        return answer
