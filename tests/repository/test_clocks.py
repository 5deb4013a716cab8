"""One module reads clocks; whatever else wants the time is given it, so that a whole line can run on another."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
READS = re.compile(
    r"\btime\.(time|time_ns|monotonic|monotonic_ns|perf_counter)\b|loop(\(\))?\.time\(|\bdatetime\.(utc)?now\("
)


@pytest.mark.parametrize(
    "room",
    [
        "records",
        "decisions",
        "wire",
        "streams",
        "collectors",
        "actuators",
        "sinks",
        "simulation",
        "headrace",
    ],
)
def test_no_other_module_reads_a_clock(room: str) -> None:
    reading = {str(path.relative_to(ROOT)) for path in (ROOT / room).rglob("*.py") if READS.search(path.read_text())}
    assert reading == ({"headrace/clock.py"} if room == "headrace" else set())
