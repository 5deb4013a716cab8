"""`headrace replay`: the decisions of a file of telemetry."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

import msgspec
from pydantic import Field

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app, settings_command
from headrace.policies import load_policies
from headrace.replay import Replay, as_line
from headrace.replay_files import STANDARD, open_input, open_output
from headrace.settings import Settings

OUTPUTS = (
    "decisions.scaling",
    "decisions.concurrency",
    "decisions.routing",
    "decisions.health",
    "decisions.capacity",
    "decisions.pool",
    "signals",
    "forecasts",
    "deadletters",
)
"""What may be asked for; this version makes scaling decisions, signals and dead letters."""

app = new_app(
    """Compute the decisions of a file of telemetry.

    A line of the file is one record in the order of arrival: {"topic": "telemetry.requests", "received_s": ..., and
    the record's fields}. The same file gives the same bytes, on any machine, at any speed.
    """
)


class ReplaySettings(Settings):
    section: ClassVar[str] = "replay"

    telemetry: str = Field(description="File of telemetry, one record a line; .gz is unpacked, - reads standard input.")
    out: str = Field(STANDARD, description="File for what comes out, one record a line; .gz is packed, - prints.")
    policies: Path | None = Field(
        None, description="Folder with one YAML policy for each endpoint; without it the file's own policies count."
    )
    topics: str = Field(
        "decisions.*",
        description="What comes out, a comma list of decisions.*, decisions.scaling, signals, forecasts, deadletters.",
    )


@settings_command(app, ReplaySettings, exits=[ExitCode.INCOMPLETE, ExitCode.STORAGE, ExitCode.READER_GONE])
def replay(settings: ReplaySettings) -> ExitCode:
    r"""Compute the decisions of a file of telemetry.

    With --telemetry - each line's decisions are written before the next line is read. Lines that are no records become
    dead letters (--topics deadletters), and so do lines whose received_s is more than 7 days after
    the latest before; the rest goes on, and the exit status is then 1. Nothing is written when it is 2, unless the
    telemetry cannot be read to its end.

    Example:
        headrace replay --policies policies/ --telemetry telemetry.jsonl.gz \
            --out decisions.jsonl
    """
    chosen = _chosen(settings.topics)
    policies = [] if settings.policies is None else load_policies(settings.policies)
    eager = settings.telemetry == STANDARD
    with open_input(settings.telemetry) as telemetry, open_output(settings.out) as out:

        def write(topic: str, record: msgspec.Struct) -> None:
            if topic in chosen:
                out.write(as_line(topic, record))

        run = Replay(policies, write, source=f"file:{Path(settings.telemetry).name}", eager=eager)
        for line in telemetry:
            run.take(line.rstrip(b"\r\n"))
            if eager:
                out.flush()
        run.finish()
    if (first := run.first_dead_letter) is None:
        return ExitCode.OK
    named = "" if first.field is None else f"{first.field} "
    raise CannotRunError(
        f"--telemetry: {settings.telemetry}: lines that are no records: {run.dead_letters}, the first is line "
        f"{first.offset}: {named}{first.reason}: {first.detail} (hint: --topics deadletters has all)",
        ExitCode.INCOMPLETE,
    )


def _chosen(patterns: str) -> frozenset[str]:
    """The output topics that a comma list names. Raises CannotRunError for a name that fits none."""
    chosen: set[str] = set()
    for pattern in (part.strip() for part in patterns.split(",")):
        fitting = {topic for topic in OUTPUTS if fnmatchcase(topic, pattern)}
        if not fitting:
            raise CannotRunError(f"--topics: {pattern!r}, allowed: decisions.*, {', '.join(OUTPUTS)}")
        chosen |= fitting
    return frozenset(chosen)
