"""Java and Apache Kafka's jars: found, fetched once by Maven, used without a network afterwards.

The jars of one `broker_pom.xml` lie in a folder named by the hash of its content, so another version of Headrace
fetches its own. A folder gets its name only when it is whole; of several processes that need it one fetches.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import platformdirs

from headrace.exit_codes import CannotRunError, ExitCode

JAVA_MIN = 17
"""Kafka 4's brokers need Java 17."""

POM = Path(__file__).with_name("broker_pom.xml")


def cache_folder() -> Path:
    """`HEADRACE_CACHE`, else the user's cache folder as the platform has it."""
    chosen = os.environ.get("HEADRACE_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("headrace"))


class JavaVersion(NamedTuple):
    """What `java -version` ended with, and what it said."""

    status: int
    text: str


@lru_cache(maxsize=8)
def java_version(java: str) -> JavaVersion:
    """Asked once a process: it takes a JVM."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return JavaVersion(told.returncode, told.stderr + told.stdout)


def find_java() -> Path:
    """The Java of `JAVA_HOME`, else of `PATH`. Raises CannotRunError where there is none, or an older one."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        raise CannotRunError(
            f"The embedded broker is a real Apache Kafka and needs Java {JAVA_MIN} or newer: there is no `java` on "
            f"PATH and JAVA_HOME is {home or 'not set'}.\n"
            "Install one (Debian: apt-get install openjdk-17-jre-headless), or use another Kafka with "
            "--bootstrap HOST:PORT (HEADRACE_BOOTSTRAP).",
            ExitCode.UNAVAILABLE,
        )
    told = java_version(found)
    version = re.search(r'version "(\d+)', told.text)
    if told.status or version is None or int(version[1]) < JAVA_MIN:
        raise CannotRunError(
            f"The embedded broker needs Java {JAVA_MIN} or newer; {found} -version says:\n"
            f"{told.text.strip()}\n"
            "Set JAVA_HOME to a newer one, or use another Kafka with --bootstrap.",
            ExitCode.UNAVAILABLE,
        )
    return Path(found)


def fetch_jars(cache: Path | None = None, pom: Path = POM) -> Path:
    """The folder of the broker's jars, or of another project of Kafka's, as its `pom` names them; fetches them (about
    45 MB) when they are not there yet.

    Raises CannotRunError where Maven is missing, fails, or the folder cannot be written.
    """
    cache = cache or cache_folder()
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    jars = cache / f"kafka-{digest}"
    if jars.is_dir():
        return jars
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(cache / f"kafka-{digest}.lock"):
            if not jars.is_dir():
                _fetch(cache, jars, pom)
    except OSError as error:
        raise CannotRunError(
            f"Kafka's jars cannot be kept in {cache}: {error}. HEADRACE_CACHE names another folder.", ExitCode.STORAGE
        ) from error
    return jars


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(cache: Path, jars: Path, pom: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotRunError(
            f"Kafka's jars are not in {cache} yet, and fetching them needs Maven: there is no `mvn` on PATH.\n"
            "Install it (Debian: apt-get install maven), run once where it is there and copy that folder "
            "(HEADRACE_CACHE names another), or use another Kafka with --bootstrap HOST:PORT.",
            ExitCode.UNAVAILABLE,
        )
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as temporary:
        project = Path(temporary, "pom.xml")
        shutil.copyfile(pom, project)
        fetched = Path(temporary, "jars")
        goal = "dependency:copy-dependencies"
        command = [maven, "-q", "-B", "-C", "-f", str(project), goal, "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={fetched}"], capture_output=True, text=True, check=False)
        if done.returncode or not list(fetched.glob("kafka[-_]*.jar")):
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[:20])
            raise CannotRunError(
                f"Maven could not fetch Kafka's jars (exit status {done.returncode}); without a network they have to "
                f"be in {cache} already.\n{said}",
                ExitCode.UNAVAILABLE,
            )
        fetched.rename(jars)
