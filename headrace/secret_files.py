"""Secrets that come in files, as secrets mounted into a container do."""

from functools import lru_cache
from pathlib import Path

from pydantic import SecretStr

SECRET_BYTES_MAX = 4096


def secret_of(given: SecretStr | None, file: Path | None) -> str | None:
    """The secret, without the line's end after it; null where there is none. Raises OSError, ValueError."""
    if given is not None or file is None:
        return None if given is None else given.get_secret_value()
    return _content_of(file)


@lru_cache(maxsize=16)
def _content_of(file: Path) -> str:
    """Read once: a file that is gone later, as one that is being changed, ends no process at work."""
    with file.open("rb") as opened:
        content = opened.read(SECRET_BYTES_MAX + 1)
    if len(content) > SECRET_BYTES_MAX:
        raise ValueError(f"more than {SECRET_BYTES_MAX} bytes")
    secret = content.decode().rstrip("\r\n")
    if not secret:
        raise ValueError("empty")
    return secret


def secret_file_problems(name: str, given: SecretStr | None, file: Path | None) -> list[str]:
    """What is wrong with a secret that may be given, or be in a file; never the secret."""
    if file is None:
        return []
    if given is not None:
        return [f"{name}, {name}_file: both are given, allowed: one of them"]
    try:
        secret_of(given, file)
    except OSError as error:
        return [f"{name}_file: {file}: {error.strerror}"]
    except UnicodeDecodeError:
        return [f"{name}_file: {file}: no text in UTF-8"]
    except ValueError as error:
        return [f"{name}_file: {file}: {error}"]
    return []
