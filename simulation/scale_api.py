"""The fleet's API over HTTP: targets to read and to scale by compare-and-set, faults, the journal, what was served."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from simulation.faults import FaultRequest
from simulation.fleet import CallContext, Caller, Fleet, Injected, Marked, NotFound
from simulation.journal import ANSWER_MAX, ENTRIES_MAX, Call
from simulation.scale_target import Accepted, Conflict, DrainRequest, Refused, ScaleRequest, Target
from wire.codec import UNREADABLE, explain

ACTUATOR_HEADER = "x-headrace-actuator"
DECISION_HEADER = "x-headrace-decision-id"
BODY_BYTES_MAX = 1024 * 1024
_TEXT_MAX = 253
_ERROR_MAX = 1000
"""A message names the wrong value, which may be a whole body."""

R = TypeVar("R")
Summary = Callable[[int | None], Mapping[str, Any]]
"""What was served so far, with the seconds after the given one; None: without seconds."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_encode = msgspec.json.Encoder().encode


def make_app(fleet: Fleet, summary: Summary, now_s: Callable[[], float]) -> web.Application:
    """The application; each call takes effect whole, at the moment `now_s` (UNIX seconds of the line's clock)."""
    calls = _Calls(fleet, summary, now_s)
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[_errors_as_json])
    app.add_routes(
        [
            web.get("/v1/targets", calls.targets),
            web.get("/v1/targets/{endpoint}", calls.get),
            web.put("/v1/targets/{endpoint}/scale", calls.scale),
            web.post("/v1/targets/{endpoint}/drain", calls.drain),
            web.post("/v1/targets/{endpoint}/faults", calls.fault),
            web.get("/v1/journal", calls.journal),
            web.get("/v1/summary", calls.summary),
        ]
    )
    return app


class _Calls:
    """Nothing is awaited between the reading of a body and the answer: calls cannot mix."""

    def __init__(self, fleet: Fleet, summary: Summary, now_s: Callable[[], float]) -> None:
        self._fleet = fleet
        self._summary = summary
        self._now_s = now_s

    async def targets(self, request: web.Request) -> web.Response:
        return _answer(200, {"targets": self._fleet.targets(_caller(request), self._now_s())})

    async def get(self, request: web.Request) -> web.Response:
        return _result(self._fleet.get(_endpoint(request), _caller(request), self._now_s()))

    async def scale(self, request: web.Request) -> web.Response:
        body = await _read(request, ScaleRequest)
        if isinstance(body, str):
            return self._unreadable(request, Call.SCALE, body)
        return _result(self._fleet.scale(_endpoint(request), body, _caller(request), self._now_s()))

    async def drain(self, request: web.Request) -> web.Response:
        body = await _read(request, DrainRequest)
        if isinstance(body, str):
            return self._unreadable(request, Call.DRAIN, body)
        return _result(self._fleet.drain(_endpoint(request), body, _caller(request), self._now_s()))

    async def fault(self, request: web.Request) -> web.Response:
        body = await _read(request, FaultRequest)
        if isinstance(body, str):
            return self._unreadable(request, Call.FAULT, body)
        return _result(self._fleet.fault(_endpoint(request), body, _caller(request), self._now_s()))

    async def journal(self, request: web.Request) -> web.Response:
        after = _query_number(request, "after", default=0, most=2**63 - 1)
        limit = _query_number(request, "limit", default=ANSWER_MAX, most=ENTRIES_MAX)
        journal = self._fleet.journal
        told = {"first_number": journal.first_number, "last_number": journal.last_number}
        return _answer(200, {**told, "entries": journal.after(after, limit)})

    async def summary(self, request: web.Request) -> web.Response:
        has_after = "after" in request.query
        after = _query_number(request, "after", default=0, most=2**63 - 1) if has_after else None
        return _answer(200, self._summary(after))

    def _unreadable(self, request: web.Request, call: Call, error: str) -> web.Response:
        context = CallContext(call=call, endpoint=_endpoint(request), caller=_caller(request), now_s=self._now_s())
        return _result(self._fleet.unreadable(context, error))


def _result(result: Target | Accepted | Conflict | Refused | NotFound | Marked | Injected) -> web.Response:
    match result:
        case Target():
            return _answer(200, result)
        case Accepted(target=target) | Injected(target=target):
            return _answer(200, target)
        case Marked():
            return _answer(200, {"target": result.target, "marked": result.marked, "unknown": result.unknown})
        case Conflict():
            return _answer(409, {"error": result.error, "target": result.target})
        case Refused():
            return _answer(422, {"error": result.error})
        case NotFound():
            return _answer(404, {"error": result.error})


def _answer(status: int, body: Any) -> web.Response:
    return web.Response(status=status, body=_encode(body) + b"\n", content_type="application/json")


async def _read(request: web.Request, model: type[R]) -> R | str:
    """The body as a value; what is wrong with it where it is none."""
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() != "identity":
        return f"content-encoding: {_whole(encoding)[:_TEXT_MAX]!r}, allowed: none, or identity"
    content = await request.read()
    try:
        return msgspec.json.decode(content, type=model)
    except UNREADABLE as error:
        said = str(explain(content, error))
        return said if len(said) <= _ERROR_MAX else f"{said[:_ERROR_MAX]} … (of {len(said)} characters)"


def _endpoint(request: web.Request) -> str:
    return request.match_info["endpoint"][:_TEXT_MAX]


def _caller(request: web.Request) -> Caller:
    return Caller(actuator=_header(request, ACTUATOR_HEADER), decision_id=_header(request, DECISION_HEADER))


def _header(request: web.Request, name: str) -> str | None:
    text = request.headers.get(name)
    return _whole(text)[:_TEXT_MAX] if text else None


def _whole(text: str) -> str:
    """A header's bytes that are no UTF-8 come as lone surrogates, which neither JSON nor a file can have."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _query_number(request: web.Request, name: str, default: int, most: int) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
        error = _encode({"error": f"{name}: {text[:_TEXT_MAX]!r}, allowed: 0 to {most}"}).decode()
        raise web.HTTPUnprocessableEntity(text=error, content_type="application/json")
    return int(text)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What aiohttp itself refuses (no such path or method, a body that is too large) is told as all else is."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.content_type == "application/json" or error.status < 400:
            raise
        told = _answer(error.status, {"error": f"{request.method} {request.path}: {error.reason}"})
        if "Allow" in error.headers:
            told.headers["Allow"] = error.headers["Allow"]
        return told
