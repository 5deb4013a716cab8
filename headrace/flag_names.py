"""How a setting is given on the command line: by a flag with its name, or by its place."""

from typing import Final

from pydantic.fields import FieldInfo


class Positional:
    """Marks a field that is given by its place: `folder: Annotated[Path, POSITIONAL]`."""


POSITIONAL: Final = Positional()


def is_positional(field: FieldInfo) -> bool:
    return any(isinstance(mark, Positional) for mark in field.metadata)


def flag_of(name: str) -> str:
    """A field whose plain name Python keeps for itself ends with an underscore, and its flag does not."""
    return "--" + name.rstrip("_").replace("_", "-")
