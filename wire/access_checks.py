"""What contradicts in how to reach Kafka, by the names of the settings, whatever made them."""

from collections.abc import Sequence

from wire.hosts import is_host

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

TLS_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")

ADDRESS_FORM = "HOST:PORT with a port of 1 to 65535, several with commas"


def bad_addresses(bootstrap: str) -> list[str]:
    """Those of a comma list that are no ADDRESS_FORM, as they would be typed in quotes."""
    return [repr(address) for address in bootstrap.split(",") if not _is_address(address.strip())]


def _is_address(text: str) -> bool:
    """An address of IPv6 is in brackets."""
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not is_host(bare) or (":" in bare and bare is host):
        return False
    return port.isdecimal() and 0 < int(port) < 65_536


def sasl_problems(protocol: str, mechanism: str, username: str | None, has_password: bool) -> list[str]:
    """What contradicts in who we say we are."""
    problems = []
    if mechanism not in SASL_MECHANISMS:
        problems.append(f"sasl_mechanism: {mechanism!r}, allowed: {', '.join(SASL_MECHANISMS)}")
    given = {"sasl_username": username is not None, "sasl_password": has_password}
    if protocol.startswith("SASL_"):
        missing = [name for name, is_given in given.items() if not is_given]
        told = ", ".join(missing) + (" or sasl_password_file" if "sasl_password" in missing else "")
        return problems + ([f"{told}: required by {protocol}"] if missing else [])
    named = ", ".join(name for name, is_given in given.items() if is_given)
    return problems + ([f"{named}: given, but {protocol} does not authenticate (hint: SASL_SSL)"] if named else [])


def tls_problems(protocol: str, given: Sequence[str]) -> list[str]:
    """What contradicts in the settings of TLS, `given` by name: they are of no use where nothing is encrypted, nor is a
    key without its certificate."""
    named = ", ".join(given)
    if given and not protocol.endswith("SSL"):
        return [f"{named}: given, but {protocol} does not encrypt (hint: SSL or SASL_SSL)"]
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        return ["ssl_keyfile: given without ssl_certfile, the certificate that it belongs to"]
    return []
