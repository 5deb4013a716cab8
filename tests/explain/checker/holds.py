"""Rules for why a hold went neither up nor down."""

import re

from tests.explain.checker.records import Records
from tests.explain.checker.rules import METRIC, Found, Rules, number, registrar, told_metric, unless

RULES: Rules = []
rule = registrar(RULES)


@rule(
    "hold",
    rf"Not (?P<way>up|down)(?: \((?P<reason>\w+)\), although|:) "
    rf"(?:no metric asks for more than (?P<least>\d+) \((?P<of>.+)\)|{METRIC} asks for (?P<proposed>\d+)), "
    rf"and there (?:is|are) (?P<current>\d+)\.",
)
def _not(found: re.Match[str], records: Records) -> Found:
    asked, current = records.most_asked(), records.decision["current"]
    metric = found["metric"] or found["of"]
    candidate = told_metric(metric, records)
    is_largest = candidate in records.short_window and candidate is not None and candidate["proposed"] == asked
    yield from unless(is_largest, f"{metric} does not ask for most")
    yield from number("proposal", found["proposed"] or found["least"], asked)
    yield from number("current", found["current"], current)
    yield from _although(found, records, asked is not None and _points(found["way"], asked, current))


@rule("hold", r"Not (?P<way>up|down)(?: \((?P<reason>\w+)\), although|:) no load is left to measure\.")
def _not_without_load(found: re.Match[str], records: Records) -> Found:
    yield from unless(records.most_asked() is None, f"a metric asks for {records.most_asked()}")
    yield from unless(any(it["state"] == "undefined" for it in records.short_window), "no value is undefined")
    yield from _although(found, records, found["way"] == "down")


@rule("hold", r"Not up: no metric proposes a number of replicas\.|Not down: nothing shows that fewer would do\.")
def _not_known(_: re.Match[str], records: Records) -> Found:
    yield from unless(records.most_asked() is None, f"a metric asks for {records.most_asked()}")


def _points(way: str, asked: int, current: int) -> bool:
    return asked > current if way == "up" else asked < current


def _although(found: re.Match[str], records: Records, is_against: bool) -> Found:
    """The reason is named where it was decided against what is asked for, and only there."""
    reason = records.decision["reason"]
    yield from unless((found["reason"] is not None) == is_against, "whether it was decided against what is asked for")
    yield from unless(found["reason"] in (None, reason), f"reason {found['reason']}, the record has {reason}")
