"""The planned load and the engine under it."""

from pathlib import Path

import pytest

from headrace.clock import monotonic_s
from headrace.engine import LlamaServer
from headrace.exit_codes import CannotRunError
from headrace.load import LoadGenerator, LoadPhase, TokenRange, plan_load
from headrace.tiny_model import write_tiny_model

PHASES = [LoadPhase(duration_s=10, requests_per_s=5), LoadPhase(duration_s=5, requests_per_s=0)]
PHASES += [LoadPhase(duration_s=10, requests_per_s=200)]


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan_load(PHASES, seed=1) == plan_load(PHASES, seed=1)
    assert plan_load(PHASES, seed=1) != plan_load(PHASES, seed=2)


def test_a_plan_keeps_its_rates_and_ranges() -> None:
    plan = plan_load(PHASES, seed=4, prompts=TokenRange(least=3, most=9), outputs=TokenRange(least=2, most=2))
    times = [request.at_s for request in plan]
    assert times == sorted(times)
    slow = sum(time < 10 for time in times)
    assert 20 < slow < 80
    assert not [time for time in times if 10 <= time < 15]
    assert 1800 < len(times) - slow < 2200
    assert times[-1] < 25
    assert {len(request.prompt) for request in plan} == set(range(3, 10))
    assert {request.output_tokens for request in plan} == {2}


def test_the_model_is_the_same_file_for_the_same_seed(tmp_path: Path) -> None:
    first, second = write_tiny_model(tmp_path / "a.gguf"), write_tiny_model(tmp_path / "b.gguf")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf", "b.gguf"]


async def test_a_server_that_dies_is_counted_by_its_clients(tmp_path: Path) -> None:
    server = LlamaServer(tmp_path)
    await server.start()
    url = server.url
    server.kill()
    assert not server.is_running
    plan = plan_load([LoadPhase(duration_s=0.1, requests_per_s=100)], seed=1)
    counts = await LoadGenerator([url], plan, monotonic_s).run()
    assert counts.failed == counts.planned == len(plan) > 0
    assert (counts.completed, counts.in_flight) == (0, 0)
    await server.start()
    assert server.url == url, "a restart keeps the port"
    server.stop()


async def test_a_port_that_is_taken_is_told_with_the_log(tmp_path: Path) -> None:
    async with LlamaServer(tmp_path / "one") as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(CannotRunError, match=r"llama\.cpp's server ended"):
            await LlamaServer(tmp_path / "two", port=port).start()


async def test_refused_requests_are_counted(tmp_path: Path) -> None:
    async with LlamaServer(tmp_path) as server:
        plan = plan_load(
            [LoadPhase(duration_s=0.05, requests_per_s=100)], seed=3, prompts=TokenRange(least=900, most=900)
        )
        counts = await LoadGenerator([server.url], plan, monotonic_s).run()
    assert counts.refused == counts.planned > 0


async def test_where_a_server_listens_is_told_apart_from_what_it_logs(tmp_path: Path) -> None:
    """Its logging thread writes lines in pieces, with whatever else is printed between them."""
    async with LlamaServer(tmp_path) as server:
        assert (tmp_path / "llama-server.address").read_text() == server.url + "\n"
        assert int(server.url.rpartition(":")[2]) < 32_768, "no port that clients are given as their own"
