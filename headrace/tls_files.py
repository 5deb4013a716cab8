"""What is wrong with the files of TLS, told with the setting's name: OpenSSL says `PEM lib` of most."""

import ssl
from pathlib import Path

from wire.kafka import KafkaAccess

_CERTIFICATE, _KEY = "-----BEGIN CERTIFICATE-----", "PRIVATE KEY-----"
_ENCRYPTED = ("BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED")


def tls_file_problem(access: KafkaAccess) -> str | None:
    """One line, `SETTING: FILE: what is wrong`; null where all can be used. Nothing of what is in them is told."""
    files = {"ssl_cafile": access.ssl_cafile, "ssl_certfile": access.ssl_certfile, "ssl_keyfile": access.ssl_keyfile}
    for setting, path in files.items():
        if path is not None and (unread := why_unread(path)):
            return f"{setting}: {path}: {unread}"
    try:
        access.ssl_context()
    except OSError as error:
        return _why_refused(access, error)
    return None


def why_unread(path: str) -> str | None:
    """Why a file cannot be read, or has nothing; null where it can, and has."""
    try:
        with open(path, "rb") as opened:
            return None if opened.read(1) else "is empty"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def why_no_authority(path: str) -> str | None:
    """Why nobody can be trusted by a file that can be read."""
    try:
        ssl.create_default_context(cafile=path)
    except OSError:
        return "holds no certificate in PEM form that can be used"
    return None


def _why_refused(access: KafkaAccess, error: OSError) -> str:
    cafile, certfile = access.ssl_cafile, access.ssl_certfile
    if cafile is not None and (useless := why_no_authority(cafile)):
        return f"ssl_cafile: {cafile}: {useless}"
    if certfile is None:
        return f"ssl_cafile: cannot be used for TLS: {error}"
    if _CERTIFICATE not in _text(certfile):
        return f"ssl_certfile: {certfile}: holds no certificate in PEM form"
    return _why_key(access.ssl_keyfile, certfile, error)


def _why_key(keyfile: str | None, certfile: str, error: OSError) -> str:
    path = keyfile or certfile
    setting = "ssl_certfile" if keyfile is None else "ssl_keyfile"
    text = _text(path)
    if _KEY not in text:
        hint = " (hint: ssl_keyfile names another file)" if keyfile is None else ""
        return f"{setting}: {path}: holds no private key in PEM form{hint}"
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"{setting}: {path}: is not the key of the certificate in {certfile}"
    if any(mark in text for mark in _ENCRYPTED):
        return f"ssl_password, ssl_password_file: required to open the private key in {path}, and the right one"
    return f"{setting}: {path}: cannot be used for TLS: {error}"


def _text(path: str) -> str:
    return Path(path).read_text(encoding="ascii", errors="replace")
