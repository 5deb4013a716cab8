"""The end of the closed loop: what it did, what it cost, where everything is, and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shlex import quote

from rich.console import Console

from headrace.demo.answers import new_table, tell_audit, tell_head, tell_questions, tell_reasons
from headrace.demo.audit import TopicAudit
from headrace.demo.console import say
from headrace.demo.fleet.evidence import Verdict, read_evidence, remedy
from headrace.demo.fleet.facts import BurstFacts, burst_facts
from headrace.demo.fleet.history import EndpointHistory, read_histories
from headrace.demo.fleet.line import FleetPlan
from headrace.demo.fleet.memory import MemoryWatch
from headrace.demo.fleet.page.render import PageContent, render_page
from headrace.demo.fleet.queries import QUESTIONS
from headrace.demo.fleet.screen import is_busy
from headrace.demo.fleet.script import BURST, ENDPOINTS
from headrace.demo.fleet.served import Served
from headrace.demo.fleet.watch import Behind
from headrace.demo.fleet.words import burst_words, service_words
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.own_name import own_name
from records.enums import OutcomeResult, ScalingAction
from records.policy import EndpointPolicy

BURSTING = "burst"
"""The endpoint that has the burst."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that is known at the end. The histories are read from the tables when they are first asked for."""

    plan: FleetPlan
    policies: Sequence[EndpointPolicy]
    served: Mapping[str, Served]
    first_s: int
    audits: Sequence[TopicAudit]
    memory: MemoryWatch
    behind: Behind
    bootstrap: str

    @cached_property
    def histories(self) -> dict[str, EndpointHistory]:
        """By endpoint. Raises StorageError."""
        gpus = {one.name: one.gpus for one in ENDPOINTS}
        return {history.name: history for history in read_histories(self.plan.tables, self.policies, gpus)}

    @cached_property
    def verdict(self) -> Verdict:
        """Raises StorageError."""
        return Verdict(
            evidence=read_evidence(self.plan.tables, self.policies),
            is_exact=all(one.is_exact for one in self.audits),
            speed=self.plan.speed,
        )

    @property
    def is_comparable(self) -> bool:
        """What it cost compares with a static fleet's: decisions followed the load, and were carried out."""
        return self.plan.acts and self.verdict.is_fresh

    @cached_property
    def burst(self) -> BurstFacts:
        seconds = self.plan.event_s
        begins_s = self.first_s + round(BURST.begins_s(seconds))
        return burst_facts(self.histories[BURSTING], begins_s, self.first_s + round(BURST.ends_s(seconds)))

    def words(self, name: str) -> str:
        """An endpoint's paragraphs."""
        history, served = self.histories[name], self.served.get(name)
        if name == BURSTING:
            return burst_words(history, self.burst, served, self.plan.acts)
        return service_words(history, served, self.plan.acts)


def page_of(data: Path) -> Path:
    """Where a run with this folder writes its page."""
    return data / "page.html"


def tell_report(console: Console, report: Report) -> ExitCode:
    """Tell the verdict, then everything, and write the page; blocking. Raises StorageError, CannotRunError.

    INCOMPLETE where rows are not where they belong, or decisions were not made from fresh signals.
    """
    console.print()
    say(console, report.verdict.words)
    tell_audit(console, report.audits)
    tell_reasons(console, report.plan.tables)
    tell_questions(console, report.plan.tables, QUESTIONS)
    _tell_what_came(console, report)
    _write_page(report)
    _tell_how_to_go_on(console, report)
    return ExitCode.OK if report.verdict.is_good else ExitCode.INCOMPLETE


def _tell_what_came(console: Console, report: Report) -> None:
    for name in report.histories:
        tell_head(console, name)
        for sentence in report.words(name).split("\n"):
            say(console, sentence)
    _tell_cost(console, report)
    peak = report.memory.peak_bytes / 2**30
    say(console, f"Memory of all processes at its most: {peak:.2f} GiB, shared pages counted once.")
    behind = report.behind
    say(
        console,
        f"At their most, samples were {behind.samples_s:.0f} and decisions {behind.decisions_s:.0f} event seconds "
        "behind the clock.",
    )
    if is_busy(behind.samples_s):
        say(console, f"For a while this machine was too busy for this speed; {remedy(report.plan.speed)}.")


def _tell_cost(console: Console, report: Report) -> None:
    tell_head(console, "What the clients got, and what it cost")
    got = ("endpoint", "requests", "SLO kept", "turned away", "given up", "GPU-hours")
    table = new_table((*got, "peak", "static fleet", "saved") if report.is_comparable else got)
    for name, history in report.histories.items():
        served = report.served[name]
        cells = [
            name,
            f"{served.requests:,}",
            "-" if served.slo_share is None else f"{100 * served.slo_share:.1f} %",
            f"{served.turned_away:,}",
            f"{served.given_up:,}",
            f"{history.gpu_hours:.2f}",
            str(history.peak_replicas),
            f"{history.static_gpu_hours:.2f}",
            f"{history.saved_percent} %",
        ]
        table.add_row(*cells[: len(table.columns)])
    console.print(table)
    if report.is_comparable:
        words = "A static fleet has the replicas that the busiest minute needed (peak), all the time"
        if any(served.turned_away for served in report.served.values()):
            words += "; it waits for no start-up, and would have turned away fewer"
        say(console, f"{words}.")


def _write_page(report: Report) -> None:
    html = render_page(
        PageContent(
            histories=list(report.histories.values()),
            served=report.served,
            is_comparable=report.is_comparable,
            titles={one.name: one.what for one in ENDPOINTS},
            words={name: report.words(name) for name in report.histories},
            notes=_notes(report),
            lead=_lead(report),
            commands=commands(report),
        )
    )
    try:
        page_of(report.plan.data).write_text(html)
    except OSError as error:
        raise CannotRunError(f"{page_of(report.plan.data)}: {error.strerror}", ExitCode.STORAGE) from error


def _notes(report: Report) -> dict[str, str]:
    share = report.burst.within_slo_after
    return {} if share is None else {BURSTING: f"{100 * share:.1f} % once there were enough replicas"}


def _lead(report: Report) -> str:
    plan = report.plan
    acting = "" if plan.acts else " The actuator was off: nothing that was decided was carried out."
    return (
        f"{plan.event_s / 60:.0f} minutes of traffic to a simulated fleet of three endpoints, {plan.speed:g} times as "
        "fast as real ones. The replicas are simulated; Kafka, the workers that decided, the actuator that carried "
        f"decisions out, and the tables are what production runs.{acting} {report.verdict.words}"
    )


def commands(report: Report) -> list[tuple[str, str]]:
    """Commands that work on what is left, to be pasted as they are, each with what it is for ("": as the last)."""
    us, tables = own_name(), quote(report.plan.tables.address)
    asked = [
        (f"Why was {one.name} scaled {'up' if one.action == 'scale_up' else 'down'} then?", one.at_s, one.name)
        for one in _worth_asking(report)
    ]
    return [
        *((title, f"{us} explain {name} --tables {tables} --at {_iso(at_s)}") for title, at_s, name in asked),
        ("What is in the tables?", f"{us} tables --tables {tables}"),
        (
            "Any question in SQL:",
            f'{us} tables query --tables {tables} "SELECT at, endpoint, action, reason, current, desired '
            'FROM decisions_scaling ORDER BY at"',
        ),
        ("Is each record there once?", f"{us} tables check --tables {tables}"),
    ]


@dataclass(frozen=True, kw_only=True)
class _Asked:
    name: str
    action: str
    at_s: int


def _worth_asking(report: Report) -> list[_Asked]:
    """The burst's first change and the largest one down that were carried out, or at least decided."""
    changes = report.histories[BURSTING].decisions
    decisions = [one for one in changes if one.result == OutcomeResult.APPLIED] or changes
    down = [one for one in decisions if one.action == ScalingAction.SCALE_DOWN]
    chosen = [*decisions[:1], *sorted(down, key=lambda one: one.desired - one.current)[:1]]
    return [_Asked(name=BURSTING, action=one.action, at_s=one.at_s) for one in chosen]


def _tell_how_to_go_on(console: Console, report: Report) -> None:
    """What is no command is not indented."""
    tell_head(console, "How to go on")
    for title, command in commands(report):
        say(console, title)
        say(console, f"    {command}")
    prefix = report.plan.kafka.topic_prefix
    where = f"--bootstrap {report.bootstrap}" + (f" --topic-prefix {prefix}" if prefix else "")
    us, data = own_name(), report.plan.data
    if report.plan.kafka.bootstrap is None:
        say(console, f"The same Kafka again; wait until it prints its address, {report.bootstrap}, before you go on:")
        say(console, f"    {us} broker --data {quote(str(data / 'broker'))} &")
    file = quote(str(data / "burst.jsonl.gz"))
    say(console, "What the workers read of the burst, and when; then the same decisions from it, ids included:")
    say(console, f"    {us} export --endpoint {BURSTING} {where} --out {file}")
    say(console, f"    {us} replay --telemetry {file}")


def _iso(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"
