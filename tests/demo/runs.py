"""Runs of `headrace demo` as child processes, read line by line, and what they leave behind."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from headrace.local_stack import headrace_command

END_S = 240
"""How long a run has to end once it was asked to: everything is slow where many tests run at once."""


class DemoRun:
    """One run with its data in `folder/data`; stderr goes to a file. `words` may begin with the name of a form."""

    def __init__(self, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.data = folder / "data"
        self._errors = folder / "stderr"
        self.lines: list[str] = []
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        argv = headrace_command("demo", *words, "--data", str(self.data), "--partitions", "4")
        with self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=errors, text=True, env={**clean, **(env or {})}
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def until(self, begin: str) -> str:
        """Read to the next line that begins so; that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(begin):
                return self.lines[-1]
        raise AssertionError(f"no line began with {begin!r}:\n{self.text}\n{self.errors}")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, timeout_s: float = END_S) -> int:
        """Read to the end; the exit status."""
        rest, _ = self.process.communicate(timeout=timeout_s)
        self.lines += rest.splitlines()
        return self.process.returncode

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def table(self, title: str) -> list[dict[str, str]]:
        """The rows of a printed table below its title; no cell but the last has blanks."""
        begin = self.lines.index(title) + 1
        header, *rows = self.lines[begin : self.lines.index("", begin)]
        names = [name.strip() for name in header.split("  ") if name.strip()]
        cells = [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in rows]
        return [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]

    def processes(self) -> list[psutil.Process]:
        """All processes that have this run's data in their command line or environment."""
        return [process for process in psutil.process_iter() if str(self.data) in _told(process)]

    def left_over(self) -> list[psutil.Process]:
        """Those that do not end by themselves either: children of a killed parent need a moment."""
        return psutil.wait_procs(self.processes(), timeout=20)[1]

    def kill(self) -> None:
        """End whatever still runs."""
        self.process.kill()
        self.process.communicate()
        for process in self.processes():
            process.kill()


def _told(process: psutil.Process) -> str:
    try:
        return " ".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:
        return ""
