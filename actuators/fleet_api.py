"""The simulated fleet's HTTP scale API as scale targets.

Whether a call was carried out is known where it was answered, and where no connection came about; a status of 500,
502 or 504 to a change says as little as no answer.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, Self
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Meta
from yarl import URL

from actuators.port import (
    Applied,
    CallContext,
    Change,
    Conflict,
    Drain,
    Marked,
    ObservedTarget,
    Refused,
    TargetRef,
    Unanswered,
)
from records.fields import Count, Name
from wire.web_logins import login_of

CALL_S = 5.0
ANSWER_BYTES_MAX = 1024 * 1024
MARKS_MAX = 1000
"""Replicas of one drain call."""
DETAIL_CHARS_MAX = 500
_DOUBTFUL = frozenset({500, 502, 504})
_BUSY = frozenset({408, 425, 429, 503})


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer must have of a target."""

    endpoint: Name
    spec_replicas: Count
    resource_version: Annotated[str, Meta(min_length=1)]
    decision_id: str | None = None


class _Error(msgspec.Struct, frozen=True, kw_only=True):
    error: str


@dataclass(frozen=True, kw_only=True)
class _Answer:
    status: int
    body: bytes

    @property
    def detail(self) -> str:
        """What the answer says went wrong."""
        try:
            told = msgspec.json.decode(self.body, type=_Error).error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            told = self.body.decode(errors="replace").strip()
        return f"HTTP status {self.status}: {told}"[:DETAIL_CHARS_MAX].rstrip(": ")


class FleetApi:
    """An asynchronous context; a ScaleTargetPort inside it. `timeout_s` is for a whole call, real seconds.

    The URL may hold a user and a password (basic authentication): they are sent, and never told.
    """

    def __init__(self, url: str, timeout_s: float = CALL_S) -> None:
        self._url, login = login_of(url.rstrip("/"))
        self._headers = {} if login is None else {"authorization": aiohttp.encode_basic_auth(*login)}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A kept connection that the server closes meanwhile would look like a lost answer.
        connector = aiohttp.TCPConnector(force_close=True)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def reach(self, actuator: str) -> str | None:
        """Ask for all targets; why that did not work, None where it did."""
        answer = await self._call("GET", self._at("/v1/targets"), CallContext(actuator=actuator, decision_id=""))
        if not isinstance(answer, _Answer):
            return answer.detail
        return None if answer.status == 200 else answer.detail

    async def get(self, target: TargetRef, context: CallContext) -> ObservedTarget | Refused | Unanswered:
        """See ScaleTargetPort. Reading changes nothing, so it is refused or done and never in doubt."""
        answer = await self._call("GET", self._target(target), context)
        match answer:
            case Refused():
                return answer
            case Unanswered():
                return Refused(retryable=True, detail=answer.detail)
            case _Answer(status=200):
                return _observed(target, answer) or Refused(retryable=True, detail=_unreadable(answer))
            case _Answer():
                return Refused(retryable=_is_for_now(answer.status), detail=answer.detail)

    async def compare_and_set(
        self, target: TargetRef, change: Change, context: CallContext
    ) -> Applied | Conflict | Refused | Unanswered:
        """See ScaleTargetPort."""
        body = {
            "spec_replicas": change.spec_replicas,
            "resource_version": change.resource_version,
            "decision_id": context.decision_id,
            "actuator": context.actuator,
        }
        answer = await self._call("PUT", self._target(target, "/scale"), context, body)
        match answer:
            case Refused() | Unanswered():
                return answer
            case _Answer(status=200):
                observed = _observed(target, answer)
                if observed is None:
                    return Unanswered(detail=_unreadable(answer))
                if observed.decision_id != context.decision_id:
                    # Something between may answer for the API, as a cache does: the next look at the target tells.
                    return Unanswered(detail=f"an answer about another decision, {observed.decision_id}")
                return Applied(target=observed)
            case _Answer(status=409):
                return Conflict(detail=answer.detail)
            case _Answer():
                return _refused_or_doubtful(answer)

    async def drain(self, target: TargetRef, drain: Drain, context: CallContext) -> Marked | Refused | Unanswered:
        """See ScaleTargetPort."""
        for start in range(0, len(drain.replicas), MARKS_MAX):
            body = {
                "replicas": drain.replicas[start : start + MARKS_MAX],
                "deadline_s": drain.deadline_s,
                "decision_id": context.decision_id,
                "actuator": context.actuator,
            }
            answer = await self._call("POST", self._target(target, "/drain"), context, body)
            if not isinstance(answer, _Answer):
                return answer
            if answer.status != 200:
                return _refused_or_doubtful(answer)
        return Marked()

    def _at(self, path: str) -> URL:
        return URL(self._url + path, encoded=True)

    def _target(self, target: TargetRef, rest: str = "") -> URL:
        return self._at(f"/v1/targets/{quote(target.endpoint, safe='')}{rest}")

    async def _call(
        self, method: str, url: URL, context: CallContext, body: Mapping[str, Any] | None = None
    ) -> _Answer | Refused | Unanswered:
        """The whole answer. Refused: nothing was sent. Unanswered: it may have arrived."""
        assert self._session is not None, "a FleetApi is used inside its context"
        headers = {**self._headers, "x-headrace-actuator": context.actuator}
        if context.decision_id:
            headers["x-headrace-decision-id"] = context.decision_id
        data = None if body is None else msgspec.json.encode(body)
        if data is not None:
            headers["content-type"] = "application/json"
        try:
            async with self._request(method, url, headers, data) as response:
                content = await response.content.read(ANSWER_BYTES_MAX + 1)
                while len(content) <= ANSWER_BYTES_MAX and not response.content.at_eof():
                    content += await response.content.read(ANSWER_BYTES_MAX + 1 - len(content))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Refused(retryable=True, detail=f"no connection to {self._url}: {_told(error)}")
        except TimeoutError:
            return Unanswered(detail=f"no answer from {self._url} within {self._timeout_s:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Unanswered(detail=f"no answer from {self._url}: {_told(error)}")
        if len(content) > ANSWER_BYTES_MAX:
            return Unanswered(detail=f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        return _Answer(status=response.status, body=content)

    def _request(
        self, method: str, url: URL, headers: Mapping[str, str], data: bytes | None
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None, "a FleetApi is used inside its context"
        return self._session.request(method, url, headers=headers, data=data, allow_redirects=False)


def _observed(target: TargetRef, answer: _Answer) -> ObservedTarget | None:
    """The target in an answer; None where it is unreadable, or another one."""
    try:
        read = msgspec.json.decode(answer.body, type=_Target)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if read.endpoint != target.endpoint:
        return None
    return ObservedTarget(
        endpoint=read.endpoint,
        spec_replicas=read.spec_replicas,
        resource_version=read.resource_version,
        decision_id=read.decision_id,
    )


def _unreadable(answer: _Answer) -> str:
    return f"an answer that is no target: {answer.body[:200].decode(errors='replace')!r}"


def _is_for_now(status: int) -> bool:
    return status in _BUSY or status >= 500


def _refused_or_doubtful(answer: _Answer) -> Refused | Unanswered:
    if answer.status in _DOUBTFUL:
        return Unanswered(detail=answer.detail)
    return Refused(retryable=_is_for_now(answer.status), detail=answer.detail)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:DETAIL_CHARS_MAX].rstrip(": ")
