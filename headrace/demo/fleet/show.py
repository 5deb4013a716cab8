"""The closed loop from its first process to its summary."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from headrace.children import Children
from headrace.demo.audit import TopicAudit
from headrace.demo.console import say
from headrace.demo.feed import Feed, Tick
from headrace.demo.fleet.evidence import too_busy
from headrace.demo.fleet.line import FleetLine, FleetPlan
from headrace.demo.fleet.memory import MemoryWatch
from headrace.demo.fleet.report import Report, tell_report
from headrace.demo.fleet.screen import Screen, Standing, is_busy, open_screen
from headrace.demo.fleet.script import BURST, ENDPOINTS
from headrace.demo.fleet.served import Served
from headrace.demo.fleet.watch import Behind, Watch
from headrace.demo.guards import REFRESH_S, guarded, in_time
from headrace.demo.settle import settle
from headrace.exit_codes import CannotRunError, ExitCode

TICK_S = 5


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of the run: what clients got by endpoint, the first second of traffic, the rows by topic, the lag."""

    served: Mapping[str, Served]
    first_s: int
    audits: list[TopicAudit]
    behind: Behind


async def run_show(plan: FleetPlan, console: Console) -> ExitCode:
    """All of it; INCOMPLETE where the verdict at the end is not good.

    Raises CannotRunError, KafkaError, StorageError.
    """
    async with Children(plan.data / "logs") as children:
        line = FleetLine(plan, children, lambda text: say(console, text))
        memory = MemoryWatch()
        watching = asyncio.create_task(memory.run())
        try:
            await line.start()
            with open_screen(console) as screen:
                watch = Watch(line.policies)

                def on_tick(tick: Tick) -> None:
                    watch.tick(tick)
                    screen.show_tick(tick)

                feed = Feed(line.line.access, plan.names, on_tick, watch.samples)
                played = await guarded(_play(line, feed, watch, screen), children.watch(), feed.run())
        finally:
            watching.cancel()
        report = Report(
            plan=line.plan,
            policies=line.policies,
            served=played.served,
            first_s=played.first_s,
            audits=played.audits,
            memory=memory,
            behind=played.behind,
            bootstrap=line.line.bootstrap,
        )
        return await asyncio.to_thread(tell_report, console, report)


async def _play(line: FleetLine, feed: Feed, watch: Watch, screen: Screen) -> Played:
    """The traffic with everything running, then the end in order, then the count."""
    names = [one.name for one in ENDPOINTS]
    first_s = await line.start_fleet()
    last_s = first_s + line.plan.event_s - 1
    await _perform(line, first_s, watch, screen)
    sampled = feed.until_sampled_anywhere(names, last_s)
    await in_time_or_busy(line.plan.speed, watch.behind_s, sampled, "samples of the last second")
    served = await line.drain_fleet()
    # A tick falls due by the clock, too, where no more samples come.
    ticked = feed.until_ticked(names, last_s // TICK_S * TICK_S)
    await in_time_or_busy(line.plan.speed, watch.behind_s, ticked, "decisions on the last samples")
    await line.line.drain_workers()
    audits = await settle(line.plan, line.line.access, line.line.drain_sink)
    return Played(served=served, first_s=first_s, audits=audits, behind=watch.behind)


async def in_time_or_busy(speed: float, behind_s: float, wait: Coroutine[Any, Any, None], what: str) -> None:
    """Wait. Raises CannotRunError: INCOMPLETE with the cure where the machine was too busy, UNAVAILABLE else."""
    try:
        await in_time(wait, what)
    except CannotRunError as error:
        if not is_busy(behind_s):
            raise
        told = f"samples were {behind_s:.0f} event seconds behind, and {error.message}"
        raise CannotRunError(too_busy(speed, told), ExitCode.INCOMPLETE) from None


async def _perform(line: FleetLine, first_s: int, watch: Watch, screen: Screen) -> None:
    """Return when the traffic's time is over."""
    clock, seconds = line.plan.clock, line.plan.event_s
    while (done_s := clock.now_s() - first_s) < seconds:
        standing = Standing(
            done_s=done_s,
            seconds=seconds,
            phase=_phase(done_s, seconds),
            now_s=clock.now_s(),
            behind_s=watch.behind_s,
            endpoints=watch.standings(),
        )
        screen.show_standing(standing)
        watch.look(standing.now_s)
        await asyncio.sleep(REFRESH_S)


def _phase(done_s: float, seconds: float) -> str:
    """In the words of the burst."""
    if done_s < BURST.begins_s(seconds):
        return "before the burst"
    return "burst" if done_s < BURST.ends_s(seconds) + BURST.ramp_s else "after the burst"
