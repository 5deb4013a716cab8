"""`headrace export`: a replay file from what Kafka holds of one endpoint."""

from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

import typer
from pydantic import Field, field_validator

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.export import Exporter, NothingToExportError, Recording, find_recording
from headrace.export_logs import EndpointLogs
from headrace.flags import new_app, settings_command
from headrace.one_shot import ask_kafka
from headrace.replay_files import STANDARD, open_output
from headrace.settings import KafkaSettings
from records.fields import SECOND_MAX
from wire.acls import Role, rights_of
from wire.kafka import open_consumer

app = new_app("""Write a replay file of one endpoint from what Kafka holds.""")

TIME_HELP = "UNIX seconds, or 2026-03-29T08:00:00+02:00"


class ExportSettings(KafkaSettings):
    section: ClassVar[str] = "export"

    endpoint: str = Field(min_length=1, description="Endpoint whose decisions are wanted.")
    from_: int = Field(0, description=f"First tick, event time: {TIME_HELP}.")
    to: int = Field(SECOND_MAX, description=f"Last tick, event time: {TIME_HELP}.")
    out: str = Field(STANDARD, description="File for the lines; .gz is packed, - prints.")

    @field_validator("from_", "to", mode="before")
    @classmethod
    def _as_seconds(cls, value: object) -> object:
        """ISO 8601 with or without an offset (without: UTC), else what it is."""
        if isinstance(value, str) and not value.isdecimal():
            try:
                time = datetime.fromisoformat(value)
            except ValueError:
                raise ValueError(TIME_HELP) from None
            return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
        return value


@settings_command(app, ExportSettings, exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.READER_GONE])
def export(settings: ExportSettings) -> ExitCode:
    r"""Write a replay file of one endpoint: what the workers had read, and when they ticked.

    `headrace replay` makes of it the workers' own decisions again, ids included, however many workers there were.
    Where the policy was deleted and published again, it holds the newest chain of decisions up to --to.

    Example:
        headrace export --endpoint chat --from 2026-03-29T08:00:00Z \
            --out chat.jsonl.gz --bootstrap 127.0.0.1:9092
        headrace replay --telemetry chat.jsonl.gz
    """
    rights = rights_of(Role.ANALYST, settings.topic_names)
    recording = ask_kafka(settings.access(), rights, lambda: _export(settings))
    first, last = recording.ticks[0].at_s, recording.ticks[-1].at_s
    typer.echo(f"{len(recording.ticks)} ticks of {settings.endpoint}, {first} to {last}", err=True)
    if first > settings.from_ and recording.memory is not None:
        typer.echo("earlier ticks are not there, or what was remembered at them is compacted away", err=True)
    if recording.left_out:
        offset = "" if recording.deleted_at is None else f" at offset {recording.deleted_at} of policies"
        typer.echo(
            f"the export begins after the policy's deletion{offset}; {recording.left_out} ticks before it are left out",
            err=True,
        )
    return ExitCode.OK


async def _export(settings: ExportSettings) -> Recording:
    logs = EndpointLogs(settings.endpoint, settings.topic_names, partial(open_consumer, settings.access()))
    try:
        recording = await find_recording(logs, settings.from_, settings.to)
        with open_output(settings.out) as out:
            async for line in Exporter(logs, recording).lines():
                out.write(line)
        return recording
    except (NothingToExportError, LookupError) as error:
        raise CannotRunError(str(error)) from error
    finally:
        await logs.close()
