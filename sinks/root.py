"""Where the tables are: a local folder or a place in an object store, one Delta table a topic below it."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sinks.errors import StorageError

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]+://")


def table_name(topic: str) -> str:
    """The table of a logical topic: `telemetry.requests` is kept in `telemetry_requests`, which SQL needs not quote."""
    return topic.replace(".", "_")


@dataclass(frozen=True, kw_only=True)
class TableRoot:
    """`address` is a folder, or a URI as delta-rs knows it (`s3://bucket/path`).

    `storage_options` go to delta-rs as they are (`AWS_ENDPOINT_URL`, `aws_conditional_put`, ...); they may hold
    secrets and are not shown.
    """

    address: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path | None:
        """The local folder, None in an object store."""
        if self.address.startswith("file://"):
            return Path(self.address.removeprefix("file://"))
        return None if _REMOTE.match(self.address) else Path(self.address)

    def uri(self, table: str) -> str:
        """The address of one table."""
        folder = self.folder
        return f"{self.address.rstrip('/')}/{table}" if folder is None else str(folder.absolute() / table)

    def options(self) -> dict[str, str]:
        return dict(self.storage_options)

    def check(self) -> None:
        """Raises StorageError unless a local folder is there and may be written.

        The folder is never made here: one that vanished is a disk that is not mounted, and tables written in its
        place would hide behind it.
        """
        folder = self.folder
        if folder is None:
            return
        if not folder.is_dir():
            raise StorageError(f"the tables' folder {folder} is not there (hint: mkdir -p {folder}, or mount its disk)")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StorageError(f"the tables' folder {folder} may not be written by this user")
