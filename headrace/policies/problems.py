"""What is wrong with a policy, or another YAML file, in one form: `file:line: field: value, allowed range (hint)`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.exit_codes import CannotRunError
from records import policy_contradictions

KeyPath = policy_contradictions.KeyPath
path_text = policy_contradictions.path_text

_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, order=True)
class Problem:
    """One line of a message; `value` is text ready to be shown, empty where there is none."""

    file: Path
    line: int
    field: str
    value: str
    allowed: str
    hint: str = ""

    def __str__(self) -> str:
        value = f"{self.value}, " if self.value else ""
        hint = f" (hint: {self.hint})" if self.hint else ""
        field = f"{self.field}: " if self.field else ""
        return f"{self.file}:{self.line}: {field}{value}allowed: {self.allowed}{hint}"


class FileError(CannotRunError):
    """Files that cannot be used; `problems` has all that is wrong, by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PolicyError(FileError):
    """Policies that cannot be used."""


def value_text(value: object) -> str:
    """A value as it may stand in a YAML file, cut where it is long; of a list or mapping only what it is."""
    match value:
        case dict():
            return "a mapping"
        case list():
            return f"a list of {len(value)}"
        case float():
            text = {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(str(value), str(value))
        case _:
            text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
