"""Kafka's classes as Java has them in memory, kept in a file: a broker then starts in half of the time.

The JVM calls it a class data sharing archive (JEP 350). It fits one Java and one set of jars; a JVM that finds that it
does not fit reads the jars instead, so nothing depends on it.
"""

import contextlib
import fcntl
import hashlib
from collections.abc import Callable
from pathlib import Path

from headrace.broker_jars import java_version
from headrace.exit_codes import CannotRunError


def archive_option(java: Path, jars: Path, train: Callable[[list[str]], None]) -> list[str]:
    """The JVM's option for the archive of these jars; empty where there is none.

    The first time `train` is called with the option that has a JVM write the archive as it ends: it runs a broker and
    stops it in order. Where that gives nothing, an empty file says that it was tried.
    """
    version = hashlib.sha256(java_version(str(java)).text.encode()).hexdigest()[:16]
    archive = jars.with_name(f"{jars.name}-{version}.jsa")
    try:
        if not archive.exists():
            with archive.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not archive.exists():
                    _make(archive, train)
        return [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []
    except OSError:
        return []


def _make(archive: Path, train: Callable[[list[str]], None]) -> None:
    """An archive gets its name when it is whole."""
    unfinished = archive.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    with contextlib.suppress(CannotRunError):  # The broker that is wanted tells what stands in its way.
        train([f"-XX:ArchiveClassesAtExit={unfinished}"])
    if unfinished.exists():
        unfinished.rename(archive)
    else:
        archive.touch()
