"""The fleet's API over real HTTP: what is answered, what is refused, and that the journal has all of it."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from simulation.faults import FaultRequest
from simulation.fleet import Fleet
from simulation.journal import Journal
from simulation.scale_api import ACTUATOR_HEADER, BODY_BYTES_MAX, DECISION_HEADER, make_app
from simulation.scale_target import Refused, ScaleTarget

NOW_S = 1_700_000_000.25
UIDS = {"chat": "6f1c1a52-0000-5000-8000-000000000001", "code": "6f1c1a52-0000-5000-8000-000000000002"}

Answer = tuple[int, Any]


@dataclass
class Plain:
    """An endpoint without anything that serves."""

    name: str
    target: ScaleTarget
    faults: list[FaultRequest] = field(default_factory=list)

    @property
    def replica_names(self) -> Iterable[str]:
        return [f"{self.name}-{number}" for number in range(self.target.target.spec_replicas)]

    def inject(self, fault: FaultRequest) -> Refused | None:
        if fault.replica is not None and fault.replica not in self.replica_names:
            return Refused(error=f"replica: '{fault.replica}', allowed: {', '.join(self.replica_names)}")
        self.faults.append(fault)
        return None


class Api:
    """A client of the API on a real port."""

    def __init__(self, client: Any, endpoints: Mapping[str, Plain]) -> None:
        self.client = client
        self.endpoints = endpoints

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        async with self.client.request(method, path, json=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def send(self, method: str, path: str, content: bytes) -> Answer:
        async with self.client.request(method, path, data=content) as answer:
            return answer.status, await answer.json()

    async def scale(self, endpoint: str, spec: int, version: str, decision: str | None = None) -> Answer:
        body = {"spec_replicas": spec, "resource_version": version, "decision_id": decision, "actuator": "a"}
        return await self.call("PUT", f"/v1/targets/{endpoint}/scale", body)

    async def version(self, endpoint: str = "chat") -> str:
        _, target = await self.call("GET", f"/v1/targets/{endpoint}")
        return str(target["resource_version"])

    async def journal(self, query: str = "") -> list[dict[str, Any]]:
        status, told = await self.call("GET", f"/v1/journal{query}")
        assert status == 200
        return list(told["entries"])


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    endpoints = {name: Plain(name, ScaleTarget(name, 2, 10, uid)) for name, uid in UIDS.items()}
    app = make_app(Fleet(endpoints, Journal(5)), lambda after: {"after": after}, lambda: NOW_S)
    async with TestClient(TestServer(app)) as client:
        yield Api(client, endpoints)


async def test_targets_are_told_as_the_contract_says(api: Api) -> None:
    status, chat = await api.call("GET", "/v1/targets/chat")
    assert status == 200
    assert chat == {
        "endpoint": "chat",
        "spec_replicas": 2,
        "status_replicas": 2,
        "ready_replicas": 2,
        "uid": UIDS["chat"],
        "resource_version": chat["resource_version"],
        "generation": 1,
        "observed_generation": 1,
        "decision_id": None,
    }
    status, told = await api.call("GET", "/v1/targets")
    assert (status, [target["endpoint"] for target in told["targets"]]) == (200, ["chat", "code"])
    assert told["targets"][0] == chat


async def test_a_change_is_accepted_once_and_an_old_version_is_not(api: Api) -> None:
    old = await api.version()
    status, target = await api.scale("chat", 5, old, "d1")
    assert (status, target["spec_replicas"], target["generation"], target["decision_id"]) == (200, 5, 2, "d1")
    assert await api.scale("chat", 5, old, "d1") == (200, target)
    status, told = await api.scale("chat", 4, old, "d2")
    assert (status, told["target"]) == (409, target)
    assert told["error"].startswith(f"resource_version: '{old}', the current one is '{target['resource_version']}'")
    shown = ("number", "call", "endpoint", "decision_id", "requested", "result", "spec_before", "spec_after")
    assert [tuple(entry[name] for name in shown) for entry in await api.journal("?after=1")] == [
        (2, "scale", "chat", "d1", 5, "ok", 2, 5),
        (3, "scale", "chat", "d1", 5, "ok", 5, 5),
        (4, "scale", "chat", "d2", 4, "conflict", 5, 5),
    ]
    first = (await api.journal())[1]
    assert (first["at_s"], first["actuator"], first["resource_version"]) == (NOW_S, "a", old)
    assert first["version_after"] == target["resource_version"]


REFUSED = [
    pytest.param({"spec_replicas": 11}, "spec_replicas: 11, allowed: 0 to 10", id="above"),
    pytest.param({"spec_replicas": -1}, "spec_replicas: -1: Expected `int` >= 0 (out_of_range)", id="below"),
    pytest.param({"spec_replicas": "3"}, 'spec_replicas: "3": Expected `int`, got `str` (wrong_type)', id="text"),
    pytest.param({"spec_replicas": 2.5}, "spec_replicas: 2.5: Expected `int`, got `float` (wrong_type)", id="part"),
    pytest.param({"spec_replicas": True}, "spec_replicas: true: Expected `int`, got `bool` (wrong_type)", id="bool"),
    pytest.param({"spec_replicas": None}, "spec_replicas: null: Expected `int`, got `null`", id="null"),
    pytest.param({"resource_version": None}, "resource_version: null: Expected `str`", id="no-version"),
    pytest.param({"decision": "d"}, "Object contains unknown field `decision`", id="unknown-field"),
]


@pytest.mark.parametrize(("wrong", "said"), REFUSED)
async def test_a_wrong_value_is_named_with_what_is_allowed(api: Api, wrong: dict[str, object], said: str) -> None:
    body = {"spec_replicas": 3, "resource_version": await api.version(), **wrong}
    status, told = await api.call("PUT", "/v1/targets/chat/scale", body)
    assert status == 422
    assert said in told["error"]
    (entry,) = await api.journal("?after=1")
    assert (entry["result"], entry["spec_before"], entry["spec_after"]) == ("refused", 2, 2)
    assert said in entry["detail"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "Input data was truncated"), (b"{", "truncated"), (b"[]", "Expected `object`"), (b"\xff", "malformed")],
)
async def test_a_body_that_is_no_object_is_refused(api: Api, content: bytes, said: str) -> None:
    for method, path in (("PUT", "scale"), ("POST", "drain"), ("POST", "faults")):
        status, told = await api.send(method, f"/v1/targets/chat/{path}", content)
        assert status == 422
        assert said in told["error"]
    assert [entry["call"] for entry in await api.journal()] == ["scale", "drain", "fault"]


async def test_an_endpoint_that_is_not_there_is_told_with_those_that_are(api: Api) -> None:
    for method, path, body in (
        ("GET", "/v1/targets/chta", None),
        ("PUT", "/v1/targets/chta/scale", {"spec_replicas": 1, "resource_version": "v"}),
        ("POST", "/v1/targets/chta/drain", {"replicas": ["a"]}),
        ("POST", "/v1/targets/chta/faults", {"kind": "fail_starts"}),
        ("PUT", "/v1/targets/chta/scale", {}),
    ):
        assert await api.call(method, path, body) == (404, {"error": "endpoint: 'chta', allowed: chat, code"})
    assert [(entry["endpoint"], entry["result"]) for entry in await api.journal()] == [("chta", "not_found")] * 5


async def test_marks_are_told_with_those_that_are_not_there(api: Api) -> None:
    body = {"replicas": ["chat-1", "chat-7"], "deadline_s": 45, "decision_id": "d", "actuator": "a"}
    for _ in range(2):
        status, told = await api.call("POST", "/v1/targets/chat/drain", body)
        assert (status, told["marked"], told["unknown"]) == (200, ["chat-1"], ["chat-7"])
    marks = api.endpoints["chat"].target.marks(NOW_S)
    assert [(mark.replica, mark.deadline_s) for mark in marks] == [("chat-1", 45)]
    entries = await api.journal()
    assert [entry["requested"] for entry in entries] == [{"replicas": ["chat-1", "chat-7"], "deadline_s": 45}] * 2
    assert entries[0]["detail"] == "not there: chat-7"


async def test_a_drain_of_nothing_or_for_ever_is_refused(api: Api) -> None:
    for body, said in (
        ({"replicas": []}, "replicas: []: Expected `array` of length >= 1"),
        ({"replicas": ["a"], "deadline_s": -1}, "deadline_s: -1: Expected `float` >= 0"),
        ({"replicas": ["a"], "deadline_s": 1e9}, "deadline_s: 1000000000.0: Expected `float` <= 86400.0"),
    ):
        status, told = await api.call("POST", "/v1/targets/chat/drain", body)
        assert status == 422
        assert said in told["error"]


async def test_faults_are_brought_about_or_refused(api: Api) -> None:
    slow = {"kind": "slow", "replica": "chat-1", "factor": 3}
    assert (await api.call("POST", "/v1/targets/chat/faults", slow))[0] == 200
    assert [(fault.kind, fault.factor) for fault in api.endpoints["chat"].faults] == [("slow", 3.0)]
    status, told = await api.call("POST", "/v1/targets/chat/faults", {"kind": "hang", "replica": "chat-9"})
    assert (status, told) == (422, {"error": "replica: 'chat-9', allowed: chat-0, chat-1"})
    status, told = await api.call("POST", "/v1/targets/chat/faults", {"kind": "explode"})
    assert status == 422
    assert 'kind: "explode": Invalid enum value' in told["error"]
    assert [entry["result"] for entry in await api.journal()] == ["ok", "refused", "refused"]


async def test_headers_name_the_caller(api: Api) -> None:
    await api.call("GET", "/v1/targets/chat", None, **{ACTUATOR_HEADER: "act-1", DECISION_HEADER: "d9"})
    (entry,) = await api.journal()
    assert (entry["call"], entry["actuator"], entry["decision_id"]) == ("get", "act-1", "d9")
    assert entry["resource_version"] == entry["version_after"]


async def test_a_callers_name_that_is_no_text_is_told_as_well_as_it_can_be(api: Api) -> None:
    """It must not keep a change out of the journal, nor the journal from being read."""
    body = f'{{"spec_replicas": 5, "resource_version": "{await api.version()}"}}'.encode()
    head = f"PUT /v1/targets/chat/scale HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    reader, writer = await asyncio.open_connection(api.client.host, api.client.port)
    writer.write(
        head.encode() + f"{ACTUATOR_HEADER}: a\xff\r\n{DECISION_HEADER}: d\xfe\r\n\r\n".encode("latin-1") + body
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    entry = (await api.journal())[-1]
    assert (entry["actuator"], entry["decision_id"], entry["spec_after"]) == ("a\ufffd", "d\ufffd", 5)


async def test_what_is_wrong_is_not_kept_in_full_length(api: Api) -> None:
    names = [f"chat-{number}" for number in range(1001)]
    long = "x" * 100_000
    for path, body in (("drain", {"replicas": names}), ("faults", {"kind": "hang", "replica": long})):
        status, told = await api.call("POST", f"/v1/targets/chat/{path}", body)
        assert status == 422
        assert len(told["error"]) < 1100
    _, told = await api.call("POST", "/v1/targets/chat/drain", {"replicas": names[1:]})
    assert len(told["unknown"]) == 999
    assert [len(entry["detail"]) < 1100 for entry in await api.journal()] == [True] * 3
    assert (await api.journal())[-1]["detail"].endswith("chat-21 and 979 more")


async def test_a_compressed_body_is_refused(api: Api) -> None:
    content = gzip.compress(b'{"kind": "fail_starts"}')
    headers = {"Content-Encoding": "gzip"}
    async with api.client.post("/v1/targets/chat/faults", data=content, headers=headers) as answer:
        told = await answer.json()
    assert (answer.status, told) == (422, {"error": "content-encoding: 'gzip', allowed: none, or identity"})


async def test_the_journal_says_what_fell_out_and_is_read_in_parts(api: Api) -> None:
    for _ in range(8):
        await api.call("GET", "/v1/targets/chat")
    _, told = await api.call("GET", "/v1/journal")
    assert (told["first_number"], told["last_number"]) == (4, 8)
    assert [entry["number"] for entry in told["entries"]] == [4, 5, 6, 7, 8]
    assert [entry["number"] for entry in await api.journal("?after=5&limit=2")] == [6, 7]
    assert await api.journal("?after=8") == []


@pytest.mark.parametrize("query", ["?after=-1", "?after=x", "?after=1.5", "?after=", f"?limit={10**30}"])
async def test_a_wrong_query_is_named(api: Api, query: str) -> None:
    status, told = await api.call("GET", f"/v1/journal{query}")
    assert status == 422
    assert "allowed: 0 to" in told["error"]


async def test_the_summary_is_asked_with_and_without_seconds(api: Api) -> None:
    assert await api.call("GET", "/v1/summary") == (200, {"after": None})
    assert await api.call("GET", "/v1/summary?after=17") == (200, {"after": 17})


async def test_what_the_server_itself_refuses_is_json_too(api: Api) -> None:
    assert (await api.call("GET", "/v1/nothing"))[0] == 404
    status, told = await api.call("DELETE", "/v1/targets/chat")
    assert (status, told) == (405, {"error": "DELETE /v1/targets/chat: Method Not Allowed"})
    assert (await api.send("PUT", "/v1/targets/chat/scale", b" " * (BODY_BYTES_MAX + 1)))[0] == 413


async def test_a_connection_cut_in_the_middle_of_a_body_changes_nothing(api: Api) -> None:
    _, writer = await asyncio.open_connection(api.client.host, api.client.port)
    writer.write(b'PUT /v1/targets/chat/scale HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\n{"spec_replicas": 9')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await api.version()
    assert [entry["call"] for entry in await api.journal()] == ["get"]


async def test_many_clients_at_once_lose_no_update(api: Api) -> None:
    """Each adds one when nobody came in between; all that were accepted are in the count."""
    accepted = 0

    async def add(number: int) -> None:
        nonlocal accepted
        _, target = await api.call("GET", "/v1/targets/chat")
        status, _ = await api.scale(
            "chat", target["spec_replicas"] + 1, target["resource_version"], f"decision-{number}"
        )
        assert status in (200, 409)
        accepted += status == 200

    for batch in range(2):
        await asyncio.gather(*(add(4 * batch + number) for number in range(4)))
    _, target = await api.call("GET", "/v1/targets/chat")
    assert target["spec_replicas"] == 2 + accepted
    assert accepted >= 2
