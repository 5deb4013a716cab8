"""Tables in an object store: the address and the options reach it. The store here only listens, and refuses."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from headrace.commands.sink import SinkSettings
from headrace.settings import load
from sinks.delta_table import AppendTable
from sinks.errors import StorageError
from sinks.rows import table_spec


@dataclass
class Listening:
    port: int = 0
    heard: list[tuple[str, str]] = field(default_factory=list)

    async def refuse(self, request: web.Request) -> web.Response:
        self.heard.append((request.path_qs, request.headers.get("Authorization", "")))
        return web.Response(status=403)


@pytest.fixture
async def store() -> AsyncIterator[Listening]:
    listening = Listening()
    application = web.Application()
    application.router.add_route("*", "/{any:.*}", listening.refuse)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    listening.port = runner.addresses[0][1]
    yield listening
    await runner.cleanup()


async def test_the_options_of_a_store_reach_it(store: Listening) -> None:
    options = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store.port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "nowhere-1",
        "AWS_ACCESS_KEY_ID": "the-key",
        "AWS_SECRET_ACCESS_KEY": "the-secret",
    }
    given = {
        "HEADRACE_BOOTSTRAP": "127.0.0.1:9092",
        "HEADRACE_TABLES": "s3://lake/deep/tables",
        "HEADRACE_STORAGE_OPTIONS": ",".join(f"{key}={value}" for key, value in options.items()),
    }
    plan = load(SinkSettings, {}, environment=given).plan()
    assert "the-secret" not in repr(plan)
    table = AppendTable(plan.root, table_spec("outcomes"), patience_s=0.5)
    with pytest.raises(StorageError, match="s3://lake/deep/tables/outcomes cannot be written"):
        await asyncio.to_thread(table.ensure)
    assert all("the-key/" in authorization and "/nowhere-1/s3/" in authorization for _, authorization in store.heard)
    assert any(
        path.startswith("/lake") and "deep/tables/outcomes" in path.replace("%2F", "/") for path, _ in store.heard
    )
