"""Where the Delta tables are: the settings that writing and reading them share."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from headrace.settings import Settings
from sinks.root import TableRoot


def _pairs(given: object) -> object:
    """`KEY=VALUE,KEY=VALUE` as a dictionary; anything else is left to pydantic."""
    if not isinstance(given, str):
        return given
    pairs = [pair.partition("=") for pair in given.split(",") if pair]
    if any(not equals or not key.strip() for key, equals, _ in pairs):
        raise ValueError("KEY=VALUE, several with commas")
    return {key.strip(): value for key, _, value in pairs}


def missing_folder(address: str) -> list[str]:
    """What a command says that only reads tables: where no folder is, none were written."""
    folder = TableRoot(address=address).folder
    if folder is None or folder.is_dir():
        return []
    what = "is no folder" if folder.exists() else "is not there"
    return [f"--tables: {folder} {what}, allowed: the folder that a sink writes, or a URI such as s3://BUCKET/PATH"]


class StorageSettings(Settings):
    """How to reach tables, wherever they are."""

    section: ClassVar[str] = "tables"

    storage_options: Annotated[dict[str, str], BeforeValidator(_pairs)] = Field(
        default_factory=dict,
        repr=False,
        description="What delta-rs needs for a URI, KEY=VALUE with commas (AWS_ENDPOINT_URL=...); it also reads the "
        "AWS_*, AZURE_* and GOOGLE_* variables itself, which is the place for secrets.",
    )


class TablesSettings(StorageSettings):
    """What every command needs that touches the tables."""

    section: ClassVar[str] = "tables"

    tables: str = Field(
        min_length=1,
        description="Folder of the Delta tables, which must exist, or a URI such as s3://BUCKET/PATH.",
    )

    @property
    def root(self) -> TableRoot:
        return TableRoot(address=self.tables, storage_options=self.storage_options)
