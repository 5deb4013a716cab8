"""URLs that hold a user and a password: neither may be shown."""

import re
from urllib.parse import unquote, urlsplit, urlunsplit

_LOGIN = re.compile(r"//[^/@\s]*@")


def without_logins(text: str) -> str:
    """The text with `(hidden)` for each user and password of a URL in it."""
    return _LOGIN.sub("//(hidden)@", text)


def login_of(url: str) -> tuple[str, tuple[str, str] | None]:
    """The URL without its user and password, and these, decoded; null where it has none. Raises ValueError."""
    parts = urlsplit(url)
    login, has_login, place = parts.netloc.rpartition("@")
    if not has_login:
        return url, None
    user, _, password = login.partition(":")
    return urlunsplit(parts._replace(netloc=place)), (unquote(user), unquote(password))
