"""Files that are gzip by the ending of their name: equal contents are equal bytes."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast


def is_packed(name: str) -> bool:
    """Whether a file of this name is gzip."""
    return name.endswith(".gz")


@contextmanager
def packing(raw: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """What to write into for a file of this name: `raw` itself, which stays open, or gzip around it.

    The header has neither a name nor a time.
    """
    if not is_packed(name):
        yield raw
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        yield cast(BinaryIO, packed)
