"""Stands for vLLM beside a collector: its `/metrics`, some 50 KB of it, with counters that go up, and `/health`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from aiohttp import web

from headrace.broker_files import free_port
from simulation.vllm_bounds import VLLM_BOUNDS_MS

BODY_BYTES = 50_000
LABELS = 'engine="0",model_name="llama-3.1-70b"'
COUNTERS = ("prompt_tokens_total", "prefix_cache_hits_total", "generation_tokens_total", "num_preemptions_total")
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
HISTOGRAMS = {
    "time_to_first_token_seconds": "ttft_ms",
    "request_time_per_output_token_seconds": "tpot_ms",
    "e2e_request_latency_seconds": "e2e_ms",
    "request_queue_time_seconds": "queue_ms",
}


def exposition(scrape: int) -> str:
    """The engine's counters at the time of its `scrape`-th scrape: 20 requests a second."""
    done = 20 * scrape
    lines = ["# TYPE process_start_time_seconds gauge", "process_start_time_seconds 1.7e9"]
    lines.append(f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} {done}.0')
    lines += [f"vllm:{name}{{{LABELS}}} {done * 37}.0" for name in COUNTERS]
    lines += [f"vllm:{name}{{{LABELS}}} {scrape % 7 / 10}" for name in GAUGES]
    for name, field in HISTOGRAMS.items():
        bounds = [*(bound / 1000 for bound in VLLM_BOUNDS_MS[field]), "+Inf"]
        for place, bound in enumerate(bounds, 1):
            lines.append(f'vllm:{name}_bucket{{{LABELS},le="{bound}"}} {done * place // len(bounds)}.0')
        lines += [f"vllm:{name}_count{{{LABELS}}} {done}.0", f"vllm:{name}_sum{{{LABELS}}} {done * 0.25}"]
    size = sum(map(len, lines)) + len(lines)
    for number in count():
        if size >= BODY_BYTES:
            return "\n".join(lines) + "\n"
        lines.append(f'vllm:request_params_n_bucket{{{LABELS},le="{number}.0"}} {done}.0')
        size += len(lines[-1]) + 1
    raise AssertionError("count() has an end")


@asynccontextmanager
async def engine() -> AsyncIterator[str]:
    """Its URL, while it answers."""
    scrapes = count(1)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=exposition(next(scrapes)))

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/health", health)])
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
