"""An address to listen on as a setting."""

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from wire.hosts import is_host


def url_host(host: str) -> str:
    """A host as it stands before a port: that of IPv6 is in brackets."""
    return f"[{host}]" if ":" in host else host


def _checked(host: str) -> str:
    if not is_host(host):
        raise PydanticCustomError("host", "a host name or an IP address")
    return host


HostName = Annotated[str, AfterValidator(_checked)]
