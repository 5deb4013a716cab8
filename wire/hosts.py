"""Names of hosts, before anybody looks them up."""


def is_host(name: str) -> bool:
    """Tell whether a resolver can be asked for it. Of `a..b`, or a label of more than 63 characters, Python raises
    UnicodeError where everybody expects OSError. A scheme or a path is no part of a host."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return bool(name) and name.isprintable() and not {" ", "/"} & set(name)
