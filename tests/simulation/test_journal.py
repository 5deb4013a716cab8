"""The journal: nothing lost, nothing out of order, and what fell out is to be seen."""

import hypothesis.strategies as st
from hypothesis import given

from simulation.journal import Call, CallResult, Journal, JournalEntry


def an_entry(at_s: float) -> JournalEntry:
    return JournalEntry(
        number=0,
        at_s=at_s,
        call=Call.GET,
        endpoint="chat",
        actuator=None,
        decision_id=None,
        resource_version="v",
        version_after="v",
        requested=None,
        result=CallResult.OK,
        spec_before=1,
        spec_after=1,
    )


@given(kept=st.integers(1, 7), added=st.integers(0, 20), after=st.integers(0, 25), limit=st.integers(0, 9))
def test_the_newest_are_kept_in_order(kept: int, added: int, after: int, limit: int) -> None:
    written: list[JournalEntry] = []
    journal = Journal(kept, written.append)
    for number in range(added):
        journal.add(an_entry(float(number)))
    assert [entry.number for entry in written] == list(range(1, added + 1))
    assert [entry.at_s for entry in written] == list(range(added))
    assert journal.last_number == added
    assert journal.first_number == max(1, added - kept + 1)
    expected = [entry for entry in written if entry.number > after and entry.number >= journal.first_number]
    assert journal.after(after, limit) == expected[:limit]
