"""`python -m tests.scenarios.write [--expected]`: write the scenes' files, and with the flag what they decide today."""

import sys

import msgspec

from tests.scenarios import scenes_of_fleets, scenes_of_signals
from tests.scenarios.replayed import decisions_of, runs_of
from tests.scenarios.scene import FOLDER

SCENES = scenes_of_signals.SCENES | scenes_of_fleets.SCENES


def write_expected(name: str) -> None:
    runs = [msgspec.json.encode(run).decode() for run in runs_of(decisions_of(name))]
    (FOLDER / f"{name}.json").write_text("[\n  " + ",\n  ".join(runs) + "\n]\n")


def main() -> None:
    for name, scene in SCENES.items():
        scene().write(name)
        if "--expected" in sys.argv[1:]:
            write_expected(name)


if __name__ == "__main__":
    main()
