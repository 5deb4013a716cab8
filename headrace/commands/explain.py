"""`headrace explain`: why an endpoint was scaled as it was."""

from typing import Annotated, ClassVar

import msgspec
import typer
from pydantic import Field

from headrace.clock import Clock
from headrace.commands.table_settings import StorageSettings, missing_folder
from headrace.exit_codes import ExitCode
from headrace.explain.explanation import as_object, explain, text_lines
from headrace.explain.selector import DecisionSelector
from headrace.explain.sources.find import Places, find_case
from headrace.explain.time_argument import FORM, TIME, given_second
from headrace.flags import POSITIONAL, new_app, settings_command
from headrace.kafka_address import ADDRESSES
from headrace.setting_checks import check
from headrace.settings import ClusterSettings
from sinks.root import TableRoot

app = new_app()


class KafkaPlace(ClusterSettings):
    """A Kafka that may be left out."""

    section: ClassVar[str] = "kafka"

    bootstrap: Annotated[str | None, ADDRESSES] = Field(
        None,
        description="Kafka's address, HOST:PORT, several with commas, to look there; with --tables for what is newer.",
    )


class TablesPlace(StorageSettings):
    """Tables that may be left out."""

    section: ClassVar[str] = "tables"

    tables: str | None = Field(
        None, min_length=1, description="Folder of the Delta tables, or a URI such as s3://BUCKET/PATH, to look there."
    )


class ExplainSettings(KafkaPlace, TablesPlace):
    section: ClassVar[str] = "explain"

    endpoint: Annotated[str, POSITIONAL] = Field(min_length=1, description="Endpoint that was decided about.")
    at: Annotated[str | None, TIME] = Field(
        None, description=f"The decision that was in force at this time, in {FORM}. Default: the newest."
    )
    decision: str | None = Field(
        None, pattern="^[0-9a-f]{8,64}$", description="The decision with this id, or the beginning of one."
    )
    json_: bool = Field(False, description="Print one JSON object: the records, the sentences, their numbers.")

    @check("tables")
    def _tables_are_there(self) -> list[str]:
        return [] if self.tables is None else missing_folder(self.tables)

    @check("tables", "bootstrap")
    def _has_a_place(self) -> list[str]:
        if self.tables is not None or self.bootstrap is not None:
            return []
        return ["--tables, --bootstrap: at least one is required, to find the decision there"]

    @property
    def places(self) -> Places:
        return Places(
            root=None if self.tables is None else TableRoot(address=self.tables, storage_options=self.storage_options),
            access=None if self.bootstrap is None else self.access_to(self.bootstrap),
            names=self.topic_names,
        )


@settings_command(
    app,
    ExplainSettings,
    exits=[ExitCode.INCOMPLETE, ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS, ExitCode.STORAGE],
)
def explain_decision(settings: ExplainSettings) -> ExitCode:
    """Say in plain words why an endpoint was scaled, or was not: what was decided, whether it was carried out, what was
    seen, what each metric proposed, what bound it, and what would have been otherwise.

    All of it comes from the records, in the Delta tables (--tables) or on Kafka (--bootstrap). With both, the tables
    are asked first, and Kafka for what is newer. Times are said in this machine's time zone (TZ=UTC for UTC).

    Example:
        headrace explain chat --tables tables
        headrace explain chat --at -10m --bootstrap 127.0.0.1:9092
        headrace explain chat --at 2026-03-29T08:00:00Z --tables tables --json
    """
    now_s = Clock.from_environment().now_s()
    at_s = None if settings.at is None else given_second("--at", settings.at, now_s)
    wanted = DecisionSelector(endpoint=settings.endpoint, at_s=at_s, decision_id=settings.decision)
    found = find_case(wanted, settings.places)
    explanation = explain(found.case)
    if settings.json_:
        typer.echo(msgspec.json.encode(as_object(explanation, found.as_object(settings.places))).decode())
    else:
        typer.echo("\n".join((*text_lines(explanation, now_s), "", found.words(settings.places))))
    if found.problem is None:
        return ExitCode.OK
    typer.echo(f"Kafka could not be asked for what is newer: {found.problem}", err=True)
    return ExitCode.INCOMPLETE
