"""Rules for what became of a decision, for the one before it, and for what would have been otherwise."""

import math
import re

from records.fields import TICK_S
from tests.explain.checker.records import Record, Records
from tests.explain.checker.rules import MOVE, Found, Rules, moment, move, number, registrar, span, unless
from tests.explain.checker.words import CLOCK, SPAN, metric_words, plain

RULES: Rules = []
rule = registrar(RULES)

RESULTS = {
    "applied": re.compile(r"Applied by (?P<who>.+)"),
    "refused": re.compile(r"Refused \((?P<again>it may be tried again|for good)\), as (?P<who>.+) reports"),
    "unknown": re.compile(r"Unknown whether it was carried out, as (?P<who>.+) reports"),
    "superseded": re.compile(r"Superseded by a newer decision, as (?P<who>.+) reports"),
    "dry_run": re.compile(r"Tried without changing anything by (?P<who>.+)"),
}


@rule("no_outcome", r"Nothing is to be carried out\.")
def _nothing(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["action"] == "hold", f"it is a {records.decision['action']}")


@rule("no_outcome", r"Not carried out yet: no actuator has answered\.")
def _unanswered(_: re.Match[str], records: Records) -> Found:
    yield from unless(not records.outcomes, "an actuator has answered")
    yield from unless(records.decision["action"] != "hold", "it is a hold")


@rule("no_outcome", r"No actuator carries it out: it is advice\.")
def _advice(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["mode"] == "advise", f"its mode is {records.decision['mode']}")
    yield from unless(not records.outcomes, "an actuator has answered")


@rule("shown", rf"The target was seen with (?P<desired>\d+) at (?P<at>{CLOCK}), (?P<after>{SPAN}) after the tick\.")
def _shown(found: re.Match[str], records: Records) -> Found:
    yield from number("desired", found["desired"], records.decision["desired"])
    yield from moment("seen at", found["at"], records.shown_s, records)
    if records.shown_s is not None:
        yield from span("after the tick", found["after"], records.shown_s - records.at_s)


@rule(
    "outcome",
    rf"(?P<result>.+?) at (?P<at>{CLOCK}), (?P<after>{SPAN}) after the tick"
    rf"(?:; the target then had (?P<observed>\d+))?(?:; it says: (?P<detail>.+))?\.",
)
def _outcome(found: re.Match[str], records: Records) -> Found:
    """There must be one outcome that this sentence tells without a mistake; else the nearest one's are given."""
    best = ["no outcome is like this"]
    for outcome in records.outcomes:
        problems = list(_compare(found, outcome, records))
        if not problems:
            return
        best = min(best, problems, key=len) if best != ["no outcome is like this"] else problems
    yield from best


def _compare(found: re.Match[str], outcome: Record, records: Records) -> Found:
    result = RESULTS[outcome["result"]].fullmatch(found["result"])
    if result is None or result["who"] != plain(outcome["actuator"]):
        yield f"{found['result']}, the record has {outcome['result']} by {outcome['actuator']}"
    elif outcome["result"] == "refused":
        again = result["again"] == "it may be tried again"
        yield from unless(again == outcome["retryable"], "whether it may be tried again")
    yield from moment("answered at", found["at"], outcome["at_s"], records)
    yield from span("after the tick", found["after"], outcome["at_s"] - records.at_s)
    yield from number("observed", found["observed"], outcome["observed"])
    yield from unless((found["detail"] or "") == plain(outcome["detail"]), f"detail {found['detail']}")


@rule("last", r"No earlier decision is known that was no hold\.")
def _no_last(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.last is None, "there is one")


@rule(
    "last",
    rf"(?P<head>It repeats the one before|The last decision that was no hold): {MOVE}, at (?P<at>{CLOCK}), "
    rf"(?P<ago>{SPAN}) earlier \((?P<id>[0-9a-f]+)\); (?P<fate>.+)\.",
)
def _last(found: re.Match[str], records: Records) -> Found:
    if records.last is None:
        yield "no earlier decision is given"
        return
    last = records.last["decisions"][-1]
    yield from move(found, last)
    yield from moment("decided at", found["at"], last["at_s"], records)
    yield from span("earlier", found["ago"], records.at_s - last["at_s"])
    yield from unless(last["decision_id"].startswith(found["id"]), "another id")
    same = all(last[name] == records.decision[name] for name in ("current", "desired"))
    repeats = same and last["decision_id"] == records.decision["previous_id"]
    yield from unless(repeats == found["head"].startswith("It repeats"), "whether it is a repeat")
    yield from _fate(found["fate"], last, records.last, records)


def _fate(said: str, last: Record, told: Record, records: Records) -> Found:
    form = re.fullmatch(
        rf"it was not seen carried out|(?:(?P<who>.+) reports (?P<result>\w+) at (?P<at>{CLOCK}))?"
        rf"(?:; )?(?:the target was seen with (?P<desired>\d+) at (?P<shown>{CLOCK}))?",
        said,
    )
    if form is None:
        yield f"unknown words: {said}"
        return
    outcomes = told["outcomes"]
    applied = [it for it in outcomes if it["result"] == "applied"]
    counts = (applied[:1] or outcomes[-1:] or [None])[0]
    if counts is None:
        yield from unless(form["who"] is None, "an outcome that is not given")
    elif form["who"] is None:
        yield f"the outcome {counts['result']} is missing"
    else:
        agrees = (form["who"], form["result"]) == (plain(counts["actuator"]), counts["result"])
        yield from unless(agrees, f"{form['who']} {form['result']}, the record has {counts['result']}")
        yield from moment("answered at", form["at"], counts["at_s"], records)
    yield from moment("seen at", form["shown"], told["shown_s"], records)
    yield from unless(form["desired"] in (None, str(last["desired"])), f"seen with {form['desired']}")


@rule(
    "otherwise",
    r"(?P<without>Without .+?|Had .+?|Were .+?), it would have "
    r"(?:stayed at (?P<stayed>\d+)|gone (?P<way>up|down) from (?P<current>\d+) to (?P<desired>\d+))\.",
)
def _otherwise(found: re.Match[str], records: Records) -> Found:
    current = records.decision["current"]
    then = int(found["stayed"] or found["desired"])
    if found["stayed"] is None:
        yield from number("current", found["current"], current)
        yield from unless((found["way"] == "up") == (then > current), f"{found['way']} from {current} to {then}")
    else:
        yield from number("current", found["stayed"], current)
    word = word_of(found["without"])
    told = [it["desired"] for it in records.counterfactuals if it["without"] == word]
    yield from unless(told == [then], f"without {word}: {then}, computed were {told}")
    expected = reckoned(word, records)
    yield from unless(expected in (None, then), f"without {word}: {then}, by the record's candidates it is {expected}")


def word_of(without: str) -> str:
    """The counterfactual's word for the sentence's beginning."""
    circumstances = {
        "Had every value been heard whole and nothing been missing before": "gaps",
        "Without the rollout": "rollout",
        "Had no start failed": "failed_starts",
        "Had the count been set by nobody else": "others",
        "Were the policy's mode not off": "mode_off",
        "Had this tick been decided": "skipped",
    }
    bounds = ("up_limit", "max_fraction", "stabilisation", "minimum", "maximum", "provisioned")
    word = without.removeprefix("Without ")
    return circumstances.get(without) or (word if word in bounds else f"metric:{word.replace(' ', ':')}")


def reckoned(word: str, records: Records) -> int | None:
    """What the policy's own numbers make of a scale-up with this bound or metric away, by arithmetic on the record.

    Null where it is no plain scale-up by metrics, at a cycle of each tick.
    """
    decision, policy = records.decision, records.policy
    if policy is None or decision["action"] != "scale_up" or decision["reason"] != "metric":
        return None
    if policy["scaleUp"]["everySeconds"] != TICK_S:
        return None
    metrics = [it for it in records.short_window if _word(it) != word]
    asked, current = records.most_asked(metrics), decision["current"]
    if asked is None or asked <= current:
        return None
    up, floors = policy["scaleUp"], decision["floors"]
    if word != "up_limit":
        asked = min(asked, max(math.floor(current * up["maxFactor"]), current + up["maxStep"]))
    for floor in ("provisioned", "minimum"):
        if word != floor:
            asked = max(asked, floors[floor] or 0)
    return asked if word == "maximum" else min(asked, policy["maxReplicas"])


def _word(candidate: Record) -> str:
    return "metric:" + metric_words(candidate).rpartition(" over ")[0].replace(" ", ":")


@rule("unsaid", r"What it would have done had all been heard cannot be said: no value of (?P<metrics>.+)\.")
def _unsaid(found: re.Match[str], records: Records) -> Found:
    silent = [metric_words(it) for it in records.candidates if it["observed"] is None and it["state"] != "undefined"]
    yield from unless(found["metrics"] == ", ".join(silent), f"without a value are {', '.join(silent)}")


@rule(
    "earliest",
    rf"It may go down at (?P<at>{CLOCK}) at the earliest, (?P<after>{SPAN}) after this tick, "
    r"if the load stays as it is\.",
)
def _earliest(found: re.Match[str], records: Records) -> Found:
    yield from moment("earliest", found["at"], records.earliest_down_s, records)
    if records.earliest_down_s is not None:
        yield from span("after this tick", found["after"], records.earliest_down_s - records.at_s)
        yield from unless(records.earliest_down_s > records.at_s, "it is over already")
