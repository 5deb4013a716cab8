"""Engine and oracle on one case."""

from tests.oracle.compare import differences
from tests.oracle.engine import Run, owns, run_engine
from tests.oracle.model.partition import Oracle
from tests.oracle.plans import Case


def judge(case: Case) -> tuple[Oracle, Run | None, list[str]]:
    """The differences are one of them where the engine fell over."""
    oracle = Oracle(case.policies, owns)
    for entry in case.entries:
        oracle.read(entry)
    told = oracle.finish()
    try:
        run = run_engine(case)
    except Exception as error:
        return oracle, None, [f"{type(error).__name__}: {error}"]
    return oracle, run, list(differences(told, run))


def disagreements(case: Case) -> list[str]:
    """One line for each thing that the engine and the oracle do not say alike of a case."""
    return judge(case)[2]
