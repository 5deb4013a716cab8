"""`headrace export`: a replay file from what Kafka holds of one endpoint."""

from functools import partial
from typing import Annotated, ClassVar

import typer
from pydantic import Field

from headrace.clock import Clock
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.explain.selector import unknown_endpoint
from headrace.explain.time_argument import FORM, TIME, given_second
from headrace.export import Exporter, NothingToExportError, NoTickError, Recording, find_recording
from headrace.export_logs import EndpointLogs
from headrace.flags import new_app, settings_command
from headrace.one_shot import ask_kafka
from headrace.policies.topic import published_policies
from headrace.replay_files import STANDARD, open_output
from headrace.settings import KafkaSettings
from records.fields import SECOND_MAX
from wire.acls import Role, rights_of
from wire.kafka import open_consumer

app = new_app("""Write a replay file of one endpoint from what Kafka holds.""")


class ExportSettings(KafkaSettings):
    section: ClassVar[str] = "export"

    endpoint: str = Field(min_length=1, description="Endpoint whose decisions are wanted.")
    from_: Annotated[str | None, TIME] = Field(
        None, description=f"First tick, event time, in {FORM}. Default: the first that is there."
    )
    to: Annotated[str | None, TIME] = Field(
        None, description="Last tick, event time, in the same forms as --from. Default: the newest."
    )
    out: str = Field(STANDARD, description="File for the lines; .gz is packed, - prints.")


_EXITS = [ExitCode.UNAVAILABLE, ExitCode.PARTITIONS, ExitCode.STORAGE, ExitCode.REFUSED, ExitCode.READER_GONE]


@settings_command(app, ExportSettings, exits=_EXITS)
def export(settings: ExportSettings) -> ExitCode:
    r"""Write a replay file of one endpoint: what the workers had read, and when they ticked.

    `headrace replay` makes of it the workers' own decisions again, ids included, however many workers there were.
    Where the policy was deleted and published again, it holds the newest chain of decisions up to --to.

    Example:
        headrace export --endpoint chat --from -10m \
            --out chat.jsonl.gz --bootstrap 127.0.0.1:9092
        headrace replay --telemetry chat.jsonl.gz
    """
    now_s = Clock.from_environment().now_s()
    from_s = 0 if settings.from_ is None else given_second("--from", settings.from_, now_s)
    to_s = SECOND_MAX if settings.to is None else given_second("--to", settings.to, now_s)
    rights = rights_of(Role.ANALYST, settings.topic_names)
    recording = ask_kafka(settings.access(), rights, lambda: _export(settings, from_s, to_s))
    first, last = recording.ticks[0].at_s, recording.ticks[-1].at_s
    typer.echo(f"{len(recording.ticks)} ticks of {settings.endpoint}, {first} to {last}", err=True)
    if first > from_s and recording.memory is not None:
        typer.echo("earlier ticks are not there, or what was remembered at them is compacted away", err=True)
    if recording.left_out:
        offset = "" if recording.deleted_at is None else f" at offset {recording.deleted_at} of policies"
        typer.echo(
            f"the export begins after the policy's deletion{offset}; {recording.left_out} ticks before it are left out",
            err=True,
        )
    return ExitCode.OK


async def _export(settings: ExportSettings, from_s: int, to_s: int) -> Recording:
    logs = EndpointLogs(settings.endpoint, settings.topic_names, partial(open_consumer, settings.access()))
    try:
        recording = await find_recording(logs, from_s, to_s)
        with open_output(settings.out) as out:
            async for line in Exporter(logs, recording).lines():
                out.write(line)
        return recording
    except NoTickError as error:
        raise CannotRunError(await _no_tick_told(settings)) from error
    except (NothingToExportError, LookupError) as error:
        raise CannotRunError(str(error)) from error
    finally:
        await logs.close()


async def _no_tick_told(settings: ExportSettings) -> str:
    """Names the endpoint that was probably meant, unless this one has a policy, with which it may have had ticks."""
    endpoint, where = settings.endpoint, f"the topics on {settings.bootstrap}"
    known = await published_policies(settings.access(), settings.topic_names)
    if endpoint in known:
        return f"{where} hold no tick of {endpoint}: no worker has decided about it, or they are no longer kept"
    return str(unknown_endpoint(endpoint, known, where, what="tick"))
