"""The demo from its first process to its summary."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor

from rich.console import Console

from headrace.children import Children
from headrace.clock import monotonic_s
from headrace.demo.answers import tell_audit, tell_questions, tell_reasons
from headrace.demo.audit import TopicAudit
from headrace.demo.console import say
from headrace.demo.engine.crowd import Crowd
from headrace.demo.engine.line import EngineLine
from headrace.demo.engine.queries import QUESTIONS
from headrace.demo.engine.screen import Screen, Standing, open_screen
from headrace.demo.engine.script import ENDPOINTS, phase_at
from headrace.demo.engine.summary import tell_how_to_go_on, tell_tokens
from headrace.demo.feed import Feed
from headrace.demo.guards import REFRESH_S, guarded, in_time
from headrace.demo.plan import DemoPlan
from headrace.demo.settle import settle
from headrace.exit_codes import ExitCode
from headrace.load import LoadCounts


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came of the load by endpoint, and of its records by topic."""

    told: Mapping[str, LoadCounts]
    audits: list[TopicAudit]


async def run_show(plan: DemoPlan, seconds: float, console: Console) -> ExitCode:
    """All of it, with `seconds` of load; INCOMPLETE where the count at the end is not as it must be.

    Raises CannotRunError, KafkaError.
    """
    async with Children(plan.data / "logs") as children:
        line = EngineLine(plan, children, lambda text: say(console, text))
        await line.start()
        with open_screen(console) as screen:
            feed = Feed(line.line.access, plan.names, screen.show_tick)
            played = await guarded(_play(plan, seconds, line, feed, screen), children.watch(), feed.run())
        return await asyncio.to_thread(_tell, plan, line, played, console)


async def _play(plan: DemoPlan, seconds: float, line: EngineLine, feed: Feed, screen: Screen) -> Played:
    """The load with everything running, then the end in order, then the count."""
    await line.start_collectors()
    replicas = [replica for one in ENDPOINTS for replica in one.replicas]
    # The first sample of a replica has gauges alone: what is counted is counted from then on.
    await in_time(feed.until_sampled(replicas, 0), "a first sample of every replica")
    crowds = {one.name: Crowd(one, line.engines[one.name], monotonic_s) for one in ENDPOINTS}
    await _perform(seconds, crowds, screen)
    last_s = floor(plan.clock.now_s()) + 1
    await in_time(feed.until_sampled(replicas, last_s), "samples of the last answers")
    await in_time(feed.until_ticked((one.name for one in ENDPOINTS), last_s), "decisions on the last samples")
    await line.drain_producers()
    audits = await settle(plan, line.line.access, line.line.drain_sink)
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


def _tell(plan: DemoPlan, line: EngineLine, played: Played, console: Console) -> ExitCode:
    is_exact = tell_audit(console, played.audits)
    agree = tell_tokens(console, plan.tables, played.told)
    tell_reasons(console, plan.tables)
    tell_questions(console, plan.tables, QUESTIONS)
    tell_how_to_go_on(console, plan, line.line.bootstrap)
    return ExitCode.OK if is_exact and agree else ExitCode.INCOMPLETE
