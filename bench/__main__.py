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

from bench.registry import BENCHES, Result

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


def show(outcome: Mapping[str, Any], console: Console) -> None:
    table = Table("figure", "value", "goal", "met", title=f"{outcome['bench']}: {BENCHES[outcome['bench']].about}")
    for key, value in outcome["figures"].items():
        goal = BENCHES[outcome["bench"]].goals.get(key)
        table.add_row(
            key, f"{value:,.6g}", str(goal or ""), "" if goal is None else ("yes" if goal.is_met(value) else "NO")
        )
    console.print(table)


def as_markdown(outcomes: list[dict[str, Any]]) -> str:
    rows = ["| bench | figure | value | goal | command |", "|---|---|---|---|---|"]
    for outcome in outcomes:
        goals = BENCHES[outcome["bench"]].goals
        for key, value in outcome["figures"].items():
            goal = goals.get(key, "")
            rows.append(f"| {outcome['bench']} | {key} | {value:,.6g} | {goal} | `{outcome['context']['command']}` |")
    return "\n".join(rows)


def write_table(file: Path, outcomes: list[dict[str, Any]]) -> None:
    """Put the table between the two markers of `file`; the rest of it stays."""
    text = file.read_text()
    before, _, rest = text.partition(TABLE_BEGIN)
    _, _, after = rest.partition(TABLE_END)
    file.write_text(f"{before}{TABLE_BEGIN}\n{as_markdown(outcomes)}\n{TABLE_END}{after}")


def main(
    name: Annotated[str | None, typer.Argument(help="One of: " + ", ".join(BENCHES))] = None,
    *,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    short: Annotated[bool, typer.Option(help="A smaller form with the same figures.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Run every bench.")] = False,
    write: Annotated[Path | None, typer.Option(help="Renew the table in this Markdown file.")] = None,
) -> None:
    """Measure Headrace. Figures are noisy on a shared machine: compare within one run, quote medians."""
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
    typer.run(main)
