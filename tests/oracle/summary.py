"""What the oracle's tests judged, at the end of pytest's report: cases, seeds, and the share of each disorder."""

from collections import Counter
from typing import Any

import pytest

PROPERTY = "oracle"


class OracleSummary:
    """Registered where the report is written: with xdist the reports of all its processes come together there."""

    def __init__(self) -> None:
        self._cases = 0
        self._seeds: list[str] = []
        self._disorders: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == PROPERTY and isinstance(value, dict):
                self._add(value)

    def _add(self, told: dict[str, Any]) -> None:
        self._cases += told["cases"]
        self._seeds.append(told["seed"])
        self._disorders.update(told["disorders"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._cases:
            shares = ", ".join(f"{name} {count / self._cases:.0%}" for name, count in sorted(self._disorders.items()))
            terminalreporter.write_line(f"oracle: {self._cases:,} cases agree; of them have {shares}")
            terminalreporter.write_line(f"oracle: seeds {' '.join(sorted(self._seeds))}")
