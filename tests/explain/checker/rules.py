"""One rule for each form of sentence: how it is read, and what of the record it must agree with.

These rules know the text and the records, and none of the code that writes the text: whoever changes a sentence there
changes the rule here by hand, and so reads it twice.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.explain.checker.records import Record, Records
from tests.explain.checker.words import (
    AMOUNT,
    CLOCK,
    NUMBER,
    SPAN,
    is_amount,
    is_counted,
    is_full_time,
    is_number,
    is_percent,
    is_span,
    is_time,
    metric_words,
    plain,
)

Found = Iterator[str]
Judge = Callable[[re.Match[str], Records], Found]

Rules = list[tuple[str, re.Pattern[str], Judge]]
"""The kind of sentence, its form, and what is wrong with one of that form."""

MOVE = r"(?P<verb>[Ss]cale up|[Ss]cale down) from (?P<current>\d+) to (?P<desired>\d+) replicas?"
METRIC = r"(?P<metric>[a-z_0-9 ]+ over \d+ s)"


def registrar(rules: Rules) -> Callable[[str, str], Callable[[Judge], Judge]]:
    """A decorator that adds a judge, under its kind and form, to a module's rules."""

    def rule(kind: str, form: str) -> Callable[[Judge], Judge]:
        def register(judge: Judge) -> Judge:
            rules.append((kind, re.compile(form), judge))
            return judge

        return register

    return rule


RULES: Rules = []
rule = registrar(RULES)


def unless(holds: bool, problem: str) -> Found:
    if not holds:
        yield problem


def number(name: str, said: str | None, true: float | None) -> Found:
    """A number that may be left out where the record has none."""
    if said is None:
        yield from unless(true is None, f"{name} is missing, the record has {true}")
    else:
        yield from unless(is_number(said, true), f"{name} is told as {said}, the record has {true}")


def moment(name: str, said: str | None, true_s: float | None, records: Records) -> Found:
    if said is None:
        yield from unless(true_s is None, f"{name} is missing, the record has {true_s}")
    else:
        agrees = is_time(said, true_s, records.at_s, records.zone)
        yield from unless(agrees, f"{name} is told as {said}, the record has {true_s}")


def span(name: str, said: str, true_s: float) -> Found:
    yield from unless(is_span(said, true_s), f"{name} is told as {said}, the records have {true_s} s")


def move(found: re.Match[str], decision: Record) -> Found:
    """Direction and replicas of a decision that is no hold."""
    verb = found["verb"].lower().replace(" ", "_")
    yield from unless(verb == decision["action"], f"told as {verb}, the record has {decision['action']}")
    yield from number("current", found["current"], decision["current"])
    yield from number("desired", found["desired"], decision["desired"])


def told_metric(said: str, records: Records) -> Record | None:
    return next((it for it in records.candidates if metric_words(it) == said), None)


@rule(
    "decided",
    rf"{MOVE}(?: \((?P<gpus>\d+) GPUs?\))?, at (?P<at>.+); mode (?P<mode>\w+)(?:, which nobody carries out)?\.",
)
def _decided(found: re.Match[str], records: Records) -> Found:
    yield from move(found, records.decision)
    yield from _when_and_mode(found, records)


@rule(
    "decided",
    r"Hold at (?P<current>\d+) replicas?(?: \((?P<gpus>\d+) GPUs?\))?, at (?P<at>.+); "
    r"mode (?P<mode>\w+)(?:, which nobody carries out)?\.",
)
def _held(found: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["action"] == "hold", f"told as a hold, it is {records.decision['action']}")
    yield from number("current", found["current"], records.decision["current"])
    yield from _when_and_mode(found, records)


def _when_and_mode(found: re.Match[str], records: Records) -> Found:
    decision = records.decision
    yield from number("gpus", found["gpus"], decision["gpus"])
    yield from unless(is_full_time(found["at"], records.at_s, records.zone), f"time: {found['at']}")
    yield from unless(found["mode"] == decision["mode"], f"mode {found['mode']}, the record has {decision['mode']}")


@rule(
    "victim",
    rf"(?P<head>.+?) is to leave: (?P<why>[a-z ]+)(?:, (?P<load>{NUMBER}) requests in flight)?"
    rf"(?:, with (?P<time>{NUMBER}) s to finish)?\.",
)
def _victim(found: re.Match[str], records: Records) -> Found:
    victims = [it for it in records.decision["victims"] if plain(it["replica"]) == found["head"]]
    if not victims:
        yield f"{found['head']} is no victim of the record"
        return
    yield from number("load", found["load"], victims[0]["inflight"])
    yield from number("deadline", found["time"], records.decision["drain_deadline_s"])
    yield from unless(found["why"] == victims[0]["reason"], f"reason {found['why']}")


@rule("detail", r"The record says: (?P<detail>.*)")
def _detail(found: re.Match[str], records: Records) -> Found:
    yield from unless(found["detail"] == plain(records.decision["detail"]), "not the record's detail")


@rule("seen", rf"{METRIC}: (?:no value|(?P<value>{AMOUNT})), (?P<state>[a-z]+), (?P<heard>{NUMBER}) % heard\.")
def _seen(found: re.Match[str], records: Records) -> Found:
    candidate = told_metric(found["metric"], records)
    if candidate is None:
        yield "a metric and window that the record does not have"
        return
    observed = candidate["observed"]
    if found["value"] is None:
        yield from unless(observed is None, f"no value, the record has {observed}")
    else:
        yield from unless(
            is_amount(found["value"], candidate["metric"], observed), f"{found['value']}, the record has {observed}"
        )
    yield from unless(found["state"] == candidate["state"], f"{found['state']}, the record has {candidate['state']}")
    yield from unless(is_percent(found["heard"], candidate["coverage"]), f"coverage {found['heard']} %")


@rule(
    "proposed",
    rf"{METRIC} (?:proposes nothing|asks for (?P<proposed>\d+) replicas?) "
    rf"(?:without a target|at a target of (?P<target>{AMOUNT})(?P<each> a replica)?); "
    r"(?:it decided|it did not decide: (?P<why>.+))\.",
)
def _proposed(found: re.Match[str], records: Records) -> Found:
    candidate = told_metric(found["metric"], records)
    if candidate is None:
        yield "a metric and window that the record does not have"
        return
    metric, target = candidate["metric"], candidate["target"]
    yield from number("proposal", found["proposed"], candidate["proposed"])
    if found["target"] is None:
        yield from unless(target is None, f"no target, the record has {target}")
    else:
        yield from unless(is_amount(found["target"], metric, target), f"target {found['target']}, it is {target}")
        yield from unless((found["each"] is not None) == is_counted(metric), "whose target it is")
    yield from unless(found["why"] == candidate["rejected_because"], f"why: {found['why']}")


@rule(
    "supply",
    r"Replicas: (?P<ready>\d+) ready, (?P<starting>\d+) starting, (?P<draining>\d+) draining, "
    r"(?P<unschedulable>\d+) not schedulable, (?P<failed>\d+) failed\.",
)
def _supply(found: re.Match[str], records: Records) -> Found:
    for name, said in found.groupdict().items():
        yield from number(name, said, records.decision["supply"][name])


@rule(
    "starting",
    rf"Starting for (?P<least>{SPAN})(?: to (?P<most>{SPAN}))?; a start is expected within (?P<p95>{NUMBER}) s\.",
)
def _starting(found: re.Match[str], records: Records) -> Found:
    supply: Any = (records.signal or {}).get("supply", {})
    ages = [it["age_s"] for it in supply.get("starting_replicas", ())]
    if not ages:
        yield "no replica starts, as far as the signal tells"
        return
    yield from span("youngest", found["least"], min(ages))
    yield from span("oldest", found["most"] or found["least"], max(ages))
    yield from number("start-up p95", found["p95"], float(supply["startup_p95_s"]))


@rule("failed_starts", r"Starts that failed since the last that became ready: (?P<failed>\d+)\.")
def _failed_starts(found: re.Match[str], records: Records) -> Found:
    yield from number("failed starts", found["failed"], (records.signal or {}).get("supply", {}).get("failed_starts"))


@rule("inferred", r"The replicas are inferred from their samples: nobody reports their states\.")
def _inferred(_: re.Match[str], records: Records) -> Found:
    yield from unless((records.signal or {})["supply"]["source"] == "inferred", "the replicas were observed")


@rule("target", rf"The target had (?P<spec>\d+) replicas?(?:, as observed at (?P<at>{CLOCK}))?\.")
def _target(found: re.Match[str], records: Records) -> Found:
    signal = records.signal or {}
    yield from number("spec", found["spec"], signal.get("spec_replicas"))
    yield from moment("observed at", found["at"], signal.get("target_at_s"), records)


@rule("target", r"The target was not observed at this tick\.")
def _no_target(_: re.Match[str], records: Records) -> Found:
    yield from unless((records.signal or {}).get("spec_replicas") is None, "the target was observed")


@rule("target", r"The signal of this tick was not found; the decision alone tells of it\.")
def _no_signal(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.signal is None, "there is a signal")


@rule("rollout", r"A rollout was in progress\.")
def _rollout(_: re.Match[str], records: Records) -> Found:
    yield from unless(bool((records.signal or {}).get("rollout")), "there was none")


@rule(
    "source",
    rf"Not well: (?P<who>.+): (?P<state>fresh|partial|stale|unknown|suspect|undefined)"
    rf"(?:, its clock (?P<offset>{NUMBER}) s off)?(?:, (?P<late>\d+) samples? too late)?\.",
)
def _source(found: re.Match[str], records: Records) -> Found:
    for source in (records.signal or {}).get("sources", ()):
        replica = f" for {plain(source['replica'])}" if source["replica"] else ""
        reporter = "" if source["reporter"] is None else f", reported by {plain(source['reporter'])}"
        if f"{source['source']}{replica}{reporter}" == found["who"] and source["state"] == found["state"]:
            yield from number("offset", found["offset"], source["offset_s"])
            yield from number("late", found["late"], source["late"] or None)
            return
    yield f"no source {found['who']} that is {found['state']}"


@rule("unheard", r"Unheard for too long, counted as if at their target: (?P<names>.+?)(?: and (?P<more>\d+) more)?\.")
def _unheard(found: re.Match[str], records: Records) -> Found:
    unheard = list((records.signal or {}).get("unheard", ()))
    more = int(found["more"] or 0)
    shown = ", ".join(map(plain, unheard[: len(unheard) - more]))
    yield from unless(found["names"] == shown, f"the unheard are {', '.join(unheard)}")


@rule("blocker", rf"Going down was forbidden by (?P<kind>\w+)(?: of (?P<who>.+?))?(?: until (?P<until>{CLOCK}))?\.")
def _blocker(found: re.Match[str], records: Records) -> Found:
    for blocker in (records.signal or {}).get("down_blockers", ()):
        who = None if blocker["replica"] is None else plain(blocker["replica"])
        if (blocker["kind"], who) == (found["kind"], found["who"]):
            yield from moment("until", found["until"], blocker["until_s"], records)
            return
    yield f"no blocker {found['kind']} of {found['who']}"
