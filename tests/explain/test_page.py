"""The page's examples are what the program prints."""

from datetime import UTC
from pathlib import Path

import pytest

from headrace.explain.explanation import explain, text_lines
from headrace.explain.selector import DecisionSelector
from headrace.explain.sources.find import Places, find_case
from sinks.root import TableRoot
from tests.explain.closed_loop import ClosedLoop, write_tables
from tests.explain.whole_cases import unnamed
from tests.repository.markdown import ROOT, blocks

PAGE = ROOT / "docs" / "explain.md"
START_S = 1_795_980_600


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    down = {"windowSeconds": 300}
    write_tables(folder, ClosedLoop(start_s=START_S, scaleDown=down).run(300).records)
    return folder


def printed(tables: Path, at_s: int) -> list[str]:
    """What `headrace explain` prints for the decision, forty seconds after it, without where it comes from."""
    places = Places(root=TableRoot(address=str(tables)))
    found = find_case(DecisionSelector(endpoint="chat", at_s=at_s), places)
    return [unnamed(line) for line in text_lines(explain(found.case, UTC), found.case.decision.at_s + 40, UTC)]


@pytest.mark.parametrize("second", [50, 280])
def test_the_examples_of_the_page_are_real(tables: Path, second: int) -> None:
    lines = printed(tables, START_S + second)
    shown = [unnamed(block.text).splitlines() for block in blocks() if block.page == PAGE and block.kind == "console"]
    (example,) = [block for block in shown if lines[0] in block]
    told = example[example.index(lines[0]) :]
    missing = [line for line in told if line and line != "  …" and line not in lines and not line.startswith("From ")]
    assert missing == []
    assert len(told) > len(lines) / 2
