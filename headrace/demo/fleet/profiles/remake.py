"""Makes the shipped profiles from the public traces: how many requests a second came in each interval, nothing else.

The lengths of the requests are in `simulation.traffic`.

    python -m headrace.demo.fleet.profiles.remake [FOLDER]

FOLDER, by default HEADRACE_DATA, holds `azure-llm-2023/AzureLLMInferenceTrace_{code,conv}.csv` of Azure's
AzurePublicDataset: one request a line with its `TIMESTAMP`, in order of time.
"""

import csv
import os
import re
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

SECONDS = 1200

_SOURCE = "https://github.com/Azure/AzurePublicDataset, AzureLLMInferenceTrace 2023"
_LICENCE = "CC-BY-4.0"
_CITE = "Patel et al., Splitwise: Efficient Generative LLM Inference Using Phase Splitting, ISCA 2024"


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """Twenty minutes of a trace from `from_s` after its first request on, in steps of `step_s`."""

    name: str
    file: str
    what: str
    from_s: int
    step_s: int


EXCERPTS = (
    Excerpt(
        name="azure-2023-code",
        file="AzureLLMInferenceTrace_code.csv",
        what="A production service that completes code: long prompts, short answers, bursts.",
        from_s=960,
        step_s=5,
    ),
    Excerpt(
        name="azure-2023-conv",
        file="AzureLLMInferenceTrace_conv.csv",
        what="A production service that chats: steady.",
        from_s=120,
        step_s=30,
    ),
)
"""Of the code service bursts with silence between them, of the chat service steady minutes."""


def profile_of(excerpt: Excerpt, folder: Path) -> dict[str, Any]:
    """The profile as a document. Raises OSError, KeyError and ValueError where the trace is not as it should be."""
    seconds = _read(folder / "azure-llm-2023" / excerpt.file)
    edges = excerpt.from_s + np.arange(0, SECONDS + 1, excerpt.step_s)
    counts, _ = np.histogram(seconds, edges)
    return {
        "name": excerpt.name,
        "what": excerpt.what,
        "source": _SOURCE,
        "licence": _LICENCE,
        "cite": _CITE,
        "trace": {"file": excerpt.file, "requests": len(seconds), "from_s": excerpt.from_s, "seconds": SECONDS},
        "step_s": excerpt.step_s,
        "requests_per_s": [round(count / excerpt.step_s, 3) for count in counts.tolist()],
    }


def _read(path: Path) -> list[float]:
    """Seconds since the first request, of each request."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in rows]  # seven decimals, one too many
    return [(time - times[0]).total_seconds() for time in times]


def write_profiles(traces: Path, into: Path) -> list[Path]:
    """Write each profile as `NAME.yaml`; the paths. Raises as `profile_of` does."""
    yaml = YAML()
    yaml.width = 120
    paths = []
    for excerpt in EXCERPTS:
        document = _lists_in_lines(profile_of(excerpt, traces))
        paths.append(into / f"{excerpt.name}.yaml")
        with paths[-1].open("w") as file:
            file.write("# Made by `python -m headrace.demo.fleet.profiles.remake`; the numbers are the trace's own.\n")
            yaml.dump(document, file, transform=lambda text: re.sub(r" +$", "", text, flags=re.MULTILINE))
    return paths


def _lists_in_lines(value: Any) -> Any:
    """The same document with lists written as [1, 2, 3]."""
    if isinstance(value, dict):
        return {key: _lists_in_lines(inner) for key, inner in value.items()}
    if isinstance(value, list):
        flowing = CommentedSeq(value)
        flowing.fa.set_flow_style()
        return flowing
    return value


def main() -> None:
    """Write the profiles beside this module."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HEADRACE_DATA")
    if given is None:
        sys.exit("usage: python -m headrace.demo.fleet.profiles.remake FOLDER (or HEADRACE_DATA)")
    for path in write_profiles(Path(given), Path(__file__).parent):
        print(path)  # noqa: T201  # the program's answer


if __name__ == "__main__":
    main()
