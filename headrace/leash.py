"""Child processes that end with their parent, also when the parent is killed with SIGKILL.

Linux sends a child the signal that it asked for (`PR_SET_PDEATHSIG`) when the *thread* that made it ends, not the
process. So all children are made by one thread that lives as long as the process. The child asks by itself, in a few
lines of Python that then become the wanted program: code between fork and exec in a process with threads may deadlock.
Where there is no prctl (macOS), a child outlives a parent that was killed; one that ends in order still ends it.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, ParamSpec, TypeVar

_ASK_AND_BECOME = """
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
except (AttributeError, ImportError, OSError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

P = ParamSpec("P")
R = TypeVar("R")

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leash")


def spawn_leashed(
    argv: Sequence[str], output: IO[bytes], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `argv` with stdout and stderr into `output` and nothing to read; its pid is the program's own.

    It has its own process group, so that Ctrl-C in a terminal reaches the parent alone, which ends its children in
    order. A program that cannot be executed ends with status 1 and Python's message in `output`.
    """
    command = [sys.executable, "-I", "-S", "-c", _ASK_AND_BECOME, str(os.getpid()), *argv]

    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            process_group=0,
        )

    return _spawner.submit(spawn).result()


def run_apart(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a thread of its own and wait: it may run an event loop, whoever calls."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="apart") as thread:
        return thread.submit(function, *args, **kwargs).result()
