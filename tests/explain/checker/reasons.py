"""Rules for the sentences of reasons, bounds and holds: the contract's word, and the numbers behind it."""

import math
import re
from collections.abc import Callable

from tests.explain.checker.records import Records
from tests.explain.checker.rules import METRIC, Found, Rules, moment, number, registrar, told_metric, unless
from tests.explain.checker.words import CLOCK, NUMBER, metric_words

RULES: Rules = []
rule = registrar(RULES)

NEEDED = re.compile(r"but (\d+) were needed at (\d+), within (\d+) s")
CYCLE = re.compile(r"the next cycle is at (\d+)")
RESPECTED = re.compile(r"someone else set it, respected until (\d+)")
CHANGED = re.compile(r"someone else changed the target from (\d+) to")

Body = Callable[[re.Match[str], Records], Found]
REASONS: dict[str, list[tuple[re.Pattern[str], Body | None]]] = {}
"""The forms that may follow `Reason WORD: `; those without a judge have no number to compare."""
BOUNDS: dict[str, list[tuple[re.Pattern[str], Body | None]]] = {}


def told(pattern: re.Pattern[str], records: Records, group: int = 1) -> int | None:
    """A number that only the record's detail has."""
    found = pattern.search(records.decision["detail"])
    return None if found is None else int(found[group])


def form(table: dict[str, list[tuple[re.Pattern[str], Body | None]]], words: str, text: str) -> Callable[[Body], Body]:
    def register(body: Body) -> Body:
        for word in words.split():
            table.setdefault(word, []).append((re.compile(text), body))
        return body

    return register


def _plain(table: dict[str, list[tuple[re.Pattern[str], Body | None]]], word: str, text: str) -> None:
    table.setdefault(word, []).append((re.compile(re.escape(text)), None))


@rule("reason", r"Reason (?P<word>\w+): (?P<body>.*)\.")
def _reason(found: re.Match[str], records: Records) -> Found:
    said, true = found["word"], records.decision["reason"]
    yield from unless(said == true, f"reason {said}, the record has {true}")
    yield from _body(REASONS.get(said, []), found["body"], records)


@rule("bound", r"Bound (?P<word>\w+): (?P<body>.*)\.")
def _bound(found: re.Match[str], records: Records) -> Found:
    said, true = found["word"], records.decision["bound"]
    yield from unless(said == true, f"bound {said}, the record has {true}")
    yield from _body(BOUNDS.get(said, []), found["body"], records)


@rule("bound", r"No limit changed the number\.")
def _unbound(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["bound"] is None, f"the record has {records.decision['bound']}")


def _body(forms: list[tuple[re.Pattern[str], Body | None]], body: str, records: Records) -> Found:
    for pattern, judge in forms:
        found = pattern.fullmatch(body)
        if found is not None:
            if judge is not None:
                yield from judge(found, records)
            return
    yield f"unknown words: {body}"


@form(REASONS, "metric", rf"{METRIC} asks for (?P<proposed>\d+), more than the (?P<current>\d+) there are")
def _more(found: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["action"] == "scale_up", "more, but it is no scale_up")
    yield from _asked(found, records)


@form(
    REASONS,
    "metric",
    rf"the most that a metric asks for is (?P<proposed>\d+) \({METRIC}\), fewer than the (?P<current>\d+) there are",
)
def _fewer(found: re.Match[str], records: Records) -> Found:
    yield from unless(records.decision["action"] == "scale_down", "fewer, but it is no scale_down")
    yield from _asked(found, records)


def _asked(found: re.Match[str], records: Records) -> Found:
    candidate = told_metric(found["metric"], records)
    decides = candidate is not None and candidate["rejected_because"] is None
    yield from unless(decides, f"{found['metric']} did not decide")
    yield from number("proposal", found["proposed"], None if candidate is None else candidate["proposed"])
    yield from number("current", found["current"], records.decision["current"])


@form(REASONS, "metric", "no load is left to measure, so nothing asks for a replica")
def _no_load(_: re.Match[str], records: Records) -> Found:
    yield from unless(not list(records.deciders()), "a metric decided")


@form(
    REASONS,
    "minimum schedule forecast provisioned",
    r".+ (?:keeps|needs) at least (?:so many|(?P<floor>\d+))",
)
def _floor(found: re.Match[str], records: Records) -> Found:
    yield from number("floor", found["floor"], records.decision["floors"][records.decision["reason"]])


@form(REASONS, "maximum gpu_budget", r".+ (?:allows?|allow) (?P<desired>\d+) at most")
@form(BOUNDS, "maximum", r"the policy's maximum, (?P<desired>\d+), is the most there may be")
@form(BOUNDS, "gpu_budget", r"the GPUs there are allow (?P<desired>\d+)")
def _most(found: re.Match[str], records: Records) -> Found:
    yield from number("desired", found["desired"], records.decision["desired"])


@form(REASONS, "unknown insufficient_evidence suspect", r"(?:(?P<values>.+); )?[a-z ]+")
def _values(found: re.Match[str], records: Records) -> Found:
    states = {"unknown": ("unknown", "stale"), "insufficient_evidence": ("partial",), "suspect": ("suspect",)}
    wanted = states.get(records.decision["reason"], ())
    true = [f"{metric_words(it)} is {it['state']}" for it in records.candidates if it["state"] in wanted]
    yield from unless((found["values"] or "") == ", ".join(true), f"values: the record has {', '.join(true)}")


@form(
    REASONS,
    "stabilising",
    rf"(?P<needed>\d+) were needed at (?P<at>{CLOCK}), and whatever was needed within (?P<window>\d+) s still counts",
)
@form(
    BOUNDS,
    "stabilisation",
    rf"(?P<needed>\d+) were needed at (?P<at>{CLOCK}), within the last (?P<window>\d+) s",
)
def _needed(found: re.Match[str], records: Records) -> Found:
    yield from number("needed", found["needed"], told(NEEDED, records))
    yield from moment("needed at", found["at"], told(NEEDED, records, 2), records)
    yield from number("window", found["window"], told(NEEDED, records, 3))


@form(REASONS, "stabilising", rf"the next cycle that may change something is at (?P<at>{CLOCK})")
@form(BOUNDS, "stabilisation", rf"the next cycle is at (?P<at>{CLOCK})")
def _cycle(found: re.Match[str], records: Records) -> Found:
    yield from moment("next cycle", found["at"], told(CYCLE, records), records)


@form(BOUNDS, "stabilisation", rf"{METRIC} still asks for (?P<proposed>\d+)")
def _still(found: re.Match[str], records: Records) -> Found:
    candidate = told_metric(found["metric"], records)
    yield from number("proposal", found["proposed"], None if candidate is None else candidate["proposed"])


@form(REASONS, "starting", r"(?P<ready>\d+) are ready and (?P<starting>\d+) start, so no more are asked for")
@form(REASONS, "unschedulable", r"(?P<unschedulable>\d+) of those asked for cannot be scheduled, so no more are .+")
@form(REASONS, "failed_starts", r"(?P<failed>\d+) failed to start, so asking for more is of no use")
def _supply(found: re.Match[str], records: Records) -> Found:
    for name, said in found.groupdict().items():
        yield from number(name, said, records.decision["supply"][name])


@form(
    REASONS,
    "target_changed",
    r"someone else changed the target (?:from (?P<before>\d+) )?to (?P<current>\d+), and that is the new start",
)
def _changed(found: re.Match[str], records: Records) -> Found:
    yield from number("before", found["before"], told(CHANGED, records))
    yield from number("current", found["current"], records.decision["current"])


@form(REASONS, "manual", rf"someone else set (?P<current>\d+), which is respected(?: until (?P<until>{CLOCK}))?")
def _manual(found: re.Match[str], records: Records) -> Found:
    yield from number("current", found["current"], records.decision["current"])
    yield from moment("until", found["until"], told(RESPECTED, records), records)


@form(
    REASONS,
    "skipped",
    rf"the pipeline was away, (?:ticks (?P<first>{CLOCK}) to (?P<last>{CLOCK})|and ticks) were not decided",
)
def _skipped(found: re.Match[str], records: Records) -> Found:
    skipped = records.decision["skipped"] or {"first_tick": None, "last_tick": None}
    yield from moment("first tick", found["first"], skipped["first_tick"], records)
    yield from moment("last tick", found["last"], skipped["last_tick"], records)


@form(
    BOUNDS,
    "up_limit",
    rf"one step up from (?P<current>\d+) ends at (?P<desired>\d+)"
    rf"(?: \(maxFactor (?P<factor>{NUMBER}), maxStep (?P<step>\d+)\))?",
)
@form(
    BOUNDS,
    "max_fraction",
    rf"one step down from (?P<current>\d+) ends at (?P<desired>\d+)(?: \(maxFraction (?P<fraction>{NUMBER})\))?",
)
def _step(found: re.Match[str], records: Records) -> Found:
    yield from _from_to(found, records)
    yield from unless(records.policy is None or _is_at_limit(records), "the policy's limit lies farther")
    keys = {
        "factor": ("scaleUp", "maxFactor"),
        "step": ("scaleUp", "maxStep"),
        "fraction": ("scaleDown", "maxFraction"),
    }
    for name, said in found.groupdict().items():
        if name in keys:
            section, key = keys[name]
            true = None if records.policy is None else records.policy[section][key]
            yield from number(key, said, float(true) if name != "step" and true is not None else true)


@form(
    BOUNDS,
    "up_limit max_fraction",
    r"the step from (?P<current>\d+) to (?P<desired>\d+) was not seen carried out yet, and none goes past it",
)
def _under_way(found: re.Match[str], records: Records) -> Found:
    yield from _from_to(found, records)
    yield from unless(not _is_at_limit(records), "it is the policy's limit that holds")


def _from_to(found: re.Match[str], records: Records) -> Found:
    yield from number("current", found["current"], records.decision["current"])
    yield from number("desired", found["desired"], records.decision["desired"])


def _is_at_limit(records: Records) -> bool:
    """By arithmetic on the policy's own numbers: the step is as long as they let it be."""
    if records.policy is None:
        return False
    current, step = records.decision["current"], records.decision["desired"] - records.decision["current"]
    up, down = records.policy["scaleUp"], records.policy["scaleDown"]
    if step > 0:
        return bool(step == max(math.floor(current * up["maxFactor"]) - current, up["maxStep"]))
    return bool(-step == max(1, math.floor(current * down["maxFraction"])))


@form(
    BOUNDS,
    "minimum schedule forecast provisioned",
    r"(?:the policy's \w+|what is expected soon|the provisioned concurrency)(?:, (?P<floor>\d+),)? is the least .+",
)
def _least(found: re.Match[str], records: Records) -> Found:
    yield from number("floor", found["floor"], records.decision["floors"][records.decision["bound"]])


@rule("floor", r"Bounds in force: (?P<bounds>(?:[a-z]+ \d+(?:, )?)+)\.")
def _floors(found: re.Match[str], records: Records) -> Found:
    said = dict(pair.rsplit(" ", 1) for pair in found["bounds"].split(", "))
    true = {name: value for name, value in records.decision["floors"].items() if value is not None}
    if records.policy is not None:
        true["maximum"] = records.policy["maxReplicas"]
    yield from unless(said == {name: str(value) for name, value in true.items()}, f"the records have {true}")


for _word, _text in (
    ("within_target", "as many replicas as the metrics ask for are there"),
    ("stabilising", "the long window still asks for as many as there are"),
    ("rollout", "fewer would do, but a rollout is in progress"),
    ("flap_budget", "the direction changed too often within an hour, so it stays at the higher count"),
    ("contested", "someone else takes our changes back again and again, so nothing is done for a while"),
    ("woken", "a request came while there was no replica"),
    ("in_flight", "nothing arrives any more, but requests are still in flight"),
    ("gating", "on the way to zero, the gateway keeps what arrives"),
    ("draining", "on the way to zero, what is in flight is finished first"),
    ("zero", "nothing has arrived for long enough, so no replica is needed"),
    ("autoscaling_off", "the policy has autoscaling off, by its mode or by minReplicas equal to maxReplicas"),
):
    _plain(REASONS, _word, _text)
_plain(BOUNDS, "stabilisation", "the long window asks for more than the short one")
_plain(BOUNDS, "flap_budget", "the direction changed too often within an hour to go down now")
