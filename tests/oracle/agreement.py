"""Cases drawn by hypothesis, judged by the oracle, and counted by what was wrong with them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.oracle.cases import make_case
from tests.oracle.engine import Run
from tests.oracle.judgement import disagreements, judge
from tests.oracle.model.book import Verdict
from tests.oracle.model.log import Identity, Sample
from tests.oracle.model.partition import Oracle
from tests.oracle.plans import Case, Disorder, Plan
from tests.oracle.shrink import shown, shrink
from tests.oracle.summary import PROPERTY

RARE = frozenset({Disorder.TWO_ENDPOINTS, Disorder.STRAY, Disorder.AHEAD, Disorder.CLOCK})
"""Cost more than they find; a fifth of the cases has each."""
SHARE_MIN = 0.1
SHOWN = ("duplicates", "replaced", "reporters", "epochs", "late", "restart", "skew", "bounds", "frames")
"""Disorders that at least SHARE_MIN of all cases have to have."""


class DisagreementError(AssertionError):
    """The engine and the oracle say different things of a plan's case."""

    def __init__(self, plan: Plan, found: list[str]) -> None:
        super().__init__("\n".join((str(plan), *found[:20])))
        self.plan = plan


@dataclass
class Tally:
    """How many different cases agreed, and how many had each disorder."""

    plans: set[Plan] = field(default_factory=set)
    disorders: Counter[str] = field(default_factory=Counter)

    def shares(self) -> dict[str, float]:
        return {name: self.disorders[name] / len(self.plans) for name in SHOWN}


@dataclass(frozen=True)
class Sizes:
    """The longest a case may be, and the most replicas that an endpoint has."""

    seconds: int = 14
    replicas: int = 2


def plans(often: Collection[Disorder], sizes: Sizes) -> st.SearchStrategy[Plan]:
    """`often`: disorders that most of the plans have."""
    kinds = list(Disorder)
    least = [1 if kind in often else 4 if kind in RARE else 2 if kind is Disorder.BOUNDS else 3 for kind in kinds]
    levels = st.lists(st.integers(0, 4), min_size=len(kinds), max_size=len(kinds))
    return st.builds(
        lambda seed, seconds, replicas, drawn: Plan(
            seed,
            seconds,
            replicas,
            frozenset(kind for kind, level, floor in zip(kinds, drawn, least, strict=True) if level >= floor),
        ),
        st.integers(0, 2**32 - 1),
        st.integers(5, sizes.seconds),
        st.integers(1, sizes.replicas),
        levels,
    )


def agree(strategy: st.SearchStrategy[Plan], seed_number: int, cases: int) -> Tally:
    """Draw plans; at least `cases` different ones agree. A failure names the smallest that does not, and its log."""
    tally = Tally()

    @seed(seed_number)
    @settings(
        max_examples=cases * 2,  # every third or so is one that came before
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def check(plan: Plan) -> None:
        if plan not in tally.plans and len(tally.plans) < cases:
            tally.disorders.update(_checked(plan))
            tally.plans.add(plan)

    try:
        check()
    except DisagreementError as error:
        smallest = shrink(make_case(error.plan), disagreements)
        raise AssertionError(f"{error}\n\nThe smallest log:\n{shown(smallest)}\n{disagreements(smallest)}") from error
    assert len(tally.plans) == cases
    return tally


def assert_agreement(request: pytest.FixtureRequest, often: Collection[Disorder], sizes: Sizes, cases: int) -> None:
    """As many cases as asked for agree, of the seed that the test's id names, and enough of them have each disorder."""
    tally = agree(plans(often, sizes), request.node.callspec.params["seed"], cases)
    told = {"seed": request.node.callspec.id, "cases": len(tally.plans), "disorders": dict(tally.disorders)}
    request.node.user_properties.append((PROPERTY, told))
    few = {name: share for name, share in tally.shares().items() if share < SHARE_MIN}
    assert not few, f"too few cases have {few}"


def _checked(plan: Plan) -> set[str]:
    case = make_case(plan)
    oracle, run, found = judge(case)
    if found or run is None:
        raise DisagreementError(plan, found)
    return disorders(case, oracle, run)


def disorders(case: Case, oracle: Oracle, run: Run) -> set[str]:
    """What was really wrong with a case, by what the oracle made of it."""
    verdicts = {verdict for _, _, verdict in oracle.told.verdicts}
    found = {name for name, verdict in _BY_VERDICT.items() if verdict in verdicts}
    for endpoint in oracle.endpoints.values():
        found |= {"late"} if endpoint.corrected else set()
        found |= {"epochs"} if any(len(epochs) > 1 for epochs in endpoint.book.epochs.values()) else set()
        held = [clock.held for clock in endpoint.clocks.values() if clock.held is not None]
        found |= {"skew"} if held else set()
        found |= _of_seconds(endpoint.book.kept.values())
    found |= {"restart"} if run.restarts else set()
    found |= {"frames"} if any(getattr(entry, "is_frame", False) for entry in case.entries) else set()
    return found


def _of_seconds(seconds: Iterable[Mapping[Identity, Sample]]) -> set[str]:
    """`reporters`: two of one source speak of one replica and second; `bounds`: histograms differ in theirs."""
    found = set()
    bounds: dict[str, set[tuple[Fraction, ...]]] = {}
    for there in seconds:
        spoken = [(one.epoch, one.source) for one in there.values()]
        if len(set(spoken)) < len(spoken):
            found.add("reporters")
        for one in there.values():
            for name, histogram in one.histograms.items():
                if any(histogram.counts):
                    bounds.setdefault(name, set()).add(histogram.bounds)
    if any(len(own) > 1 for own in bounds.values()):
        found.add("bounds")
    return found


_BY_VERDICT = {"duplicates": Verdict.DUPLICATE, "replaced": Verdict.REPLACED, "late": Verdict.LATE}
