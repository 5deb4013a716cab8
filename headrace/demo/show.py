"""The demo from its first process to its summary."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any, TypeVar

from rich.console import Console

from headrace.children import Children
from headrace.clock import monotonic_s
from headrace.demo.audit import TopicAudit, audit, read_sent
from headrace.demo.crowd import Crowd
from headrace.demo.feed import Feed
from headrace.demo.line import DemoLine, DemoPlan
from headrace.demo.screen import Screen, Standing, open_screen, say
from headrace.demo.script import ENDPOINTS, phase_at
from headrace.demo.summary import tell_audit, tell_how_to_go_on, tell_questions, tell_reasons, tell_tokens
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.load import LoadCounts

SETTLE_S = 120.0
"""Longest wait for the line to work on what it was sent, or for the sink to keep it: minutes on a crowded machine."""
REFRESH_S = 0.25

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of the load by endpoint, and of its records by topic."""

    told: Mapping[str, LoadCounts]
    audits: list[TopicAudit]


async def run_show(plan: DemoPlan, console: Console) -> ExitCode:
    """All of it; INCOMPLETE where the count at the end is not as it must be. Raises CannotRunError, KafkaError."""
    async with Children(plan.data / "logs") as children:
        line = DemoLine(plan, children, lambda text: say(console, text))
        await line.start()
        with open_screen(console) as screen:
            feed = Feed(line.access, plan.names, screen.show_tick)
            played = await _guarded(_play(plan, line, feed, screen), children.watch(), feed.run())
        return await asyncio.to_thread(_tell, plan, line, played, console)


async def _play(plan: DemoPlan, line: DemoLine, feed: Feed, screen: Screen) -> Played:
    """The load with everything running, then the end in order, then the count."""
    await line.start_collectors()
    replicas = [replica for one in ENDPOINTS for replica in one.replicas]
    # The first sample of a replica has gauges alone: what is counted is counted from then on.
    await _in_time(feed.until_sampled(replicas, 0), "a first sample of every replica")
    crowds = {one.name: Crowd(one, line.engines[one.name], monotonic_s) for one in ENDPOINTS}
    await _perform(plan.seconds, crowds, screen)
    last_s = floor(plan.clock.now_s()) + 1
    await _in_time(feed.until_sampled(replicas, last_s), "samples of the last answers")
    await _in_time(feed.until_ticked((one.name for one in ENDPOINTS), last_s), "decisions on the last samples")
    await line.drain_producers()
    audits = await _settle(plan, line, screen)
    return Played(told={name: crowd.counts for name, crowd in crowds.items()}, audits=audits)


async def _perform(seconds: float, crowds: Mapping[str, Crowd], screen: Screen) -> None:
    """Return when the time is over and every request was answered."""
    sending = asyncio.gather(*(crowd.run(seconds) for crowd in crowds.values()))
    begin_s = monotonic_s()
    try:
        while (done_s := monotonic_s() - begin_s) < seconds or not sending.done():
            counts = {name: crowd.counts for name, crowd in crowds.items()}
            phase, _ = phase_at(done_s, seconds)
            screen.show_standing(
                Standing(done_s=min(done_s, seconds), seconds=seconds, phase=phase.name, counts=counts)
            )
            await asyncio.sleep(REFRESH_S)
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _settle(plan: DemoPlan, line: DemoLine, screen: Screen) -> list[TopicAudit]:
    """Wait until the tables have what is in Kafka, end the sink, and count; nothing is written to Kafka any more."""
    sent = await read_sent(line.access, plan.names)
    deadline_s = monotonic_s() + SETTLE_S
    screen.say("sink: waiting for the last rows")
    while monotonic_s() < deadline_s:
        audits = await asyncio.to_thread(audit, sent, plan.names, plan.tables)
        if not any(one.missing for one in audits):
            break
        await asyncio.sleep(REFRESH_S)
    await line.drain_sink()
    return await asyncio.to_thread(audit, sent, plan.names, plan.tables)


def _tell(plan: DemoPlan, line: DemoLine, played: Played, console: Console) -> ExitCode:
    is_exact = tell_audit(console, played.audits)
    agree = tell_tokens(console, plan.tables, played.told)
    tell_reasons(console, plan.tables)
    tell_questions(console, plan.tables)
    tell_how_to_go_on(console, plan, line.bootstrap)
    return ExitCode.OK if is_exact and agree else ExitCode.INCOMPLETE


async def _in_time(wait: Coroutine[Any, Any, None], what: str) -> None:
    try:
        async with asyncio.timeout(SETTLE_S):
            await wait
    except TimeoutError:
        raise CannotRunError(f"no {what} came within {SETTLE_S:g} s; see the logs", ExitCode.UNAVAILABLE) from None


async def _guarded(work: Coroutine[Any, Any, R], *guards: Coroutine[Any, Any, None]) -> R:
    """What `work` returns; a guard that ends before it ends it, with the guard's exception."""
    working = asyncio.create_task(work)
    guarding = [asyncio.create_task(guard) for guard in guards]
    try:
        await asyncio.wait([working, *guarding], return_when=asyncio.FIRST_COMPLETED)
        for guard in guarding:
            if guard.done():
                guard.result()
        return await working
    finally:
        for task in (working, *guarding):
            task.cancel()
        await asyncio.gather(working, *guarding, return_exceptions=True)
