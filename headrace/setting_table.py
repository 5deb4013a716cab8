"""The tables of docs/settings.md: every setting of every command, section by section.

`python -m headrace.setting_table` prints them; the settings' classes are all they are made of.
"""

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic.fields import FieldInfo

from headrace.flag_names import flag_of, is_positional
from headrace.flags import models_of
from headrace.main import COMMANDS
from headrace.setting_ranges import allowed_text, is_secret
from headrace.settings import SHARED_SECTIONS

HEAD = ("| flag | variable | default | allowed | what it is |", "|---|---|---|---|---|")


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """One command's setting."""

    command: str
    section: str
    field: str
    variable: str
    info: FieldInfo


def uses() -> list[Use]:
    """Every setting of every command, in the order of the commands and of their fields."""
    found = []
    for name in COMMANDS:
        for part, model in models_of(importlib.import_module(f"headrace.commands.{name}").app).items():
            command = f"{name} {part}".strip()
            for field, info in model.model_fields.items():
                section, variable = model.section_of(field), model.variable_of(field)
                found.append(Use(command=command, section=section, field=field, variable=variable, info=info))
    return found


def tables() -> str:
    """Markdown: a heading and a table for each section, those that commands share first."""
    by_section: dict[str, list[Use]] = defaultdict(list)
    for use in uses():
        by_section[use.section].append(use)
    order = sorted(by_section, key=lambda section: section not in SHARED_SECTIONS)
    return "\n".join(line for section in order for line in _section(section, by_section[section]))


def _section(section: str, found: list[Use]) -> Iterator[str]:
    by_field: dict[str, list[Use]] = defaultdict(list)
    for use in found:
        by_field[use.field].append(use)
    everyone = list(dict.fromkeys(use.command for use in found))
    yield from (f"### [{section}]", "", f"Of {_named(everyone)}.", "", *HEAD)
    for row in by_field.values():
        yield _row(row, everyone)
    yield ""


def _row(row: list[Use], everyone: list[str]) -> str:
    first = max(row, key=lambda use: [_default(other.info) for other in row].count(_default(use.info)))
    commands = [use.command for use in row]
    alone = "" if set(commands) == set(everyone) else f" Only of {_named(commands)}."
    cells = (
        _flag(first),
        f"`{first.variable}`",
        _each(row, first, _default),
        _each(row, first, _allowed),
        f"{first.info.description}{alone}",
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _each(row: list[Use], first: Use, tell: Callable[[FieldInfo], str]) -> str:
    """What is told of `first`, and of the commands where that is another."""
    commands: dict[str, list[str]] = defaultdict(list)
    for use in row:
        commands[tell(use.info)].append(use.command)
    usual = tell(first.info)
    others = [f"{told} for {_named(of)}" for told, of in commands.items() if told not in (usual, "")]
    return "; ".join([usual, *others])


def _flag(use: Use) -> str:
    """Empty for a secret: it has none."""
    if is_secret(use.info):
        return ""
    return f"`{use.field.upper()}`" if is_positional(use.info) else f"`{flag_of(use.field)}`"


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if info.default_factory is not None or info.default in (None, "", ()):
        return "none"
    return f"`{str(info.default).lower() if isinstance(info.default, bool) else info.default}`"


def _allowed(info: FieldInfo) -> str:
    told = allowed_text(info)
    return f"`{told.removeprefix('text like ')}`" if told.startswith("text like ") else told


def _named(commands: list[str]) -> str:
    return ", ".join(f"`{command}`" for command in commands)


if __name__ == "__main__":
    sys.stdout.write(tables())
