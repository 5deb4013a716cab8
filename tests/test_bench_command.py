"""The bench command's own promises: names, the last line, the table in the docs."""

from pathlib import Path

import pytest

from bench import __main__ as command
from bench.registry import BENCHES, Bench, Goal, Result


def test_every_bench_has_a_module_with_run() -> None:
    root = Path(command.__file__).parent
    assert [name for name, bench in BENCHES.items() if not (root / f"{bench.module}.py").exists()] == []


def test_the_help_names_every_bench_and_every_figure_with_its_unit() -> None:
    lines = command.help_text().splitlines()
    for name, bench in BENCHES.items():
        place = lines.index(f"{name}: {bench.about}")
        told = lines[place + 1 : place + 1 + len(bench.figures)]
        assert told == [f"    {figure}: {unit}" for figure, unit in bench.figures.items()]
        assert bench.goals.keys() <= bench.figures.keys()
        assert all(bench.figures.values())


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        (Goal(at_least=2), 2, True),
        (Goal(at_least=2), 1.9, False),
        (Goal(at_most=2), 2, True),
        (Goal(at_most=2), 3, False),
    ],
)
def test_a_goal_is_met_at_its_edge(goal: Goal, value: float, *, met: bool) -> None:
    assert goal.is_met(value) is met


def test_the_table_is_renewed_between_its_markers(tmp_path: Path) -> None:
    file = tmp_path / "performance.md"
    file.write_text(f"before\n{command.TABLE_BEGIN}\nold\n{command.TABLE_END}\nafter\n")
    outcome = {"bench": "memory", "figures": {"idle_mb": 12.5}, "context": {"command": "python -m bench memory --json"}}
    command.write_table(file, [outcome])
    command.write_table(file, [outcome])
    text = file.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert text.count("| memory | idle_mb | 12.5 | ≤ 250 | yes | `python -m bench memory --json` |") == 1
    assert "old" not in text
    other = {"bench": "windows", "figures": {"samples_per_s": 5e6}, "context": {"command": "python -m bench windows"}}
    command.write_table(file, [other])
    rows = [line.split(" | ")[0] for line in file.read_text().splitlines() if line.startswith("| ")]
    assert rows == ["| bench", "| memory", "| windows"]


def test_the_answer_names_the_command_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Measured(Bench):
        def run(self, *, short: bool) -> Result:
            return Result(figures={"x": 1.23456789}, context={"short_was": short})

    monkeypatch.setattr(
        command, "BENCHES", {"tiny": Measured(module="tiny", about="", figures={"x": "times"}, goals={})}
    )
    outcome = command.run_one("tiny", short=True)
    assert outcome["figures"] == {"x": 1.23457}
    assert outcome["context"]["command"] == "python -m bench tiny --json --short"
    assert outcome["context"]["short_was"] is True
    assert outcome["context"]["python"].startswith("3.11")
