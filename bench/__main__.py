"""`python -m bench NAME [--json] [--short]`, or `--all --write docs/performance.md`."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bench.registry import BENCHES, Goal, Result

TABLE_BEGIN = "<!-- bench table -->"
TABLE_END = "<!-- end of bench table -->"


def describe_machine() -> dict[str, Any]:
    """What every result's context says of the machine and the code."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "commit": commit.stdout.strip() or None,
    }


def run_one(name: str, *, short: bool) -> dict[str, Any]:
    """Run a bench; the answer is the JSON object of its last line."""
    result: Result = BENCHES[name].run(short=short)
    command = f"python -m bench {name} --json" + (" --short" if short else "")
    figures = {key: float(f"{value:.6g}") for key, value in result.figures.items()}
    context = {**describe_machine(), "short": short, "command": command, **result.context}
    return {"bench": name, "figures": figures, "context": context}


def _said_of(goal: Goal | None, value: float) -> str:
    return "" if goal is None else ("yes" if goal.is_met(value) else "NO")


def show(outcome: Mapping[str, Any], console: Console) -> None:
    table = Table("figure", "value", "goal", "met", title=f"{outcome['bench']}: {BENCHES[outcome['bench']].about}")
    for key, value in outcome["figures"].items():
        goal = BENCHES[outcome["bench"]].goals.get(key)
        table.add_row(key, f"{value:,.6g}", str(goal or ""), _said_of(goal, value))
    console.print(table)


HEAD = ["| bench | figure | value | goal | met | command |", "|---|---|---|---|---|---|"]


def as_rows(outcome: Mapping[str, Any]) -> list[str]:
    """One bench's figures as rows of the Markdown table."""
    name, command = outcome["bench"], outcome["context"]["command"]
    goals = BENCHES[name].goals
    return [
        f"| {name} | {key} | {value:,.6g} | {goals.get(key, '')} | {_said_of(goals.get(key), value)} | `{command}` |"
        for key, value in outcome["figures"].items()
    ]


def write_table(file: Path, outcomes: list[dict[str, Any]]) -> None:
    """Renew these benches' rows between the two markers of `file`; those of other benches stay, all in BENCHES' order.

    What is there of no bench goes.
    """
    before, _, rest = file.read_text().partition(TABLE_BEGIN)
    table, _, after = rest.partition(TABLE_END)
    rows: dict[str, list[str]] = {name: [] for name in BENCHES}
    for line in table.splitlines():
        name = line.removeprefix("| ").partition(" |")[0]
        if name in rows:
            rows[name].append(line)
    rows |= {outcome["bench"]: as_rows(outcome) for outcome in outcomes}
    text = "\n".join([*HEAD, *(row for name in BENCHES for row in rows[name])])
    file.write_text(f"{before}{TABLE_BEGIN}\n{text}\n{TABLE_END}{after}")


def help_text() -> str:
    """What `--help` says: each bench in a line, and each of its figures with its unit in one more."""
    lines = ["Measure Headrace. Figures are noisy on a shared machine: compare within one run, quote medians.", ""]
    for name, bench in BENCHES.items():
        lines += ["\b", f"{name}: {bench.about}"]  # \b: Click leaves the lines as they are
        lines += [f"    {figure}: {unit}" for figure, unit in bench.figures.items()]
        lines.append("")
    return "\n".join(lines)


def main(
    name: Annotated[str | None, typer.Argument(help="A bench.")] = None,
    *,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    short: Annotated[bool, typer.Option(help="A smaller form with the same figures.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every bench.")] = False,
    write: Annotated[
        Path | None, typer.Option(help="Renew the rows of what ran in this Markdown file's table.")
    ] = None,
) -> None:
    """Run one bench, or all; the statistics go to standard error."""
    if all_ == (name is not None) or (name is not None and name not in BENCHES):
        typer.echo(f"bench: give one name out of {', '.join(BENCHES)}, or --all", err=True)
        raise typer.Exit(2)
    outcomes = []
    for each in list(BENCHES) if all_ else [str(name)]:
        outcome = run_one(each, short=short)
        outcomes.append(outcome)
        show(outcome, Console(stderr=True))
        if json_:
            sys.stdout.write(json.dumps(outcome, sort_keys=True) + "\n")
    if write is not None:
        write_table(write, outcomes)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(help=help_text())(main)
    app(prog_name="python -m bench")
