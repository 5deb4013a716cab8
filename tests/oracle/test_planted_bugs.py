"""The oracle finds every bug that is planted in a copy of the engine, and none in the engine itself."""

import pytest

from tests.oracle import bugs_of_signals, bugs_of_windows
from tests.oracle.cases import make_case
from tests.oracle.direct import window_differences
from tests.oracle.judgement import disagreements
from tests.oracle.plans import drawn_plan
from tests.oracle.planting import AnchorError, Bug, planted

BUGS = (*bugs_of_windows.BUGS, *bugs_of_signals.BUGS)
SEARCHED = range(1000, 3000)
"""None of the table's own: fresh seeds have to show each bug too."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.name}-{bug.shown_by}")
def test_a_planted_bug_is_found(bug: Bug) -> None:
    with planted(bug) as differences:
        assert differences(bug.case)


def test_the_same_cases_show_none_in_the_engine() -> None:
    for shown_by, case in {bug.shown_by: bug.case for bug in BUGS}.items():
        assert [*disagreements(case), *window_differences(case)] == [], shown_by


def test_a_bug_without_a_place_is_told() -> None:
    lost = Bug(name="lost", module=BUGS[0].module, old="no such text", new="", shown_by=0)
    with pytest.raises(AnchorError, match=r"lost: in .* 0 times instead of once"), planted(lost):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if isinstance(bug.shown_by, int)], ids=lambda bug: bug.name)
def test_fresh_cases_find_a_planted_bug(bug: Bug) -> None:
    with planted(bug) as differences:
        assert any(differences(make_case(drawn_plan(seed))) for seed in SEARCHED)
