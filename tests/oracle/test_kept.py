"""Engine and oracle agree on the small logs that are kept."""

import pytest

from tests.oracle.judgement import disagreements
from tests.oracle.kept_logs import KEPT, Kept, case_of


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.name)
def test_engine_and_oracle_agree_on_a_kept_log(kept: Kept) -> None:
    assert disagreements(case_of(kept)) == []
