"""Kafka's address as a setting."""

from typing import Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from wire.access_checks import ADDRESS_FORM, bad_addresses


def _checked(bootstrap: str | None) -> str | None:
    addresses = [] if bootstrap is None else bootstrap.split(",")
    bad = [] if bootstrap is None else bad_addresses(bootstrap)
    if bad:
        which = f"; not {' and '.join(bad)}" if len(addresses) > 1 else ""
        raise PydanticCustomError("addresses", "{form}{which}", {"form": ADDRESS_FORM, "which": which})
    return bootstrap


ADDRESSES: Final = AfterValidator(_checked)
"""Marks a field: `bootstrap: Annotated[str, ADDRESSES]`, or with `str | None`."""
