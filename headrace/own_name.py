"""How this program was called, for commands that are shown to be pasted."""

import shlex
import sys
from pathlib import Path


def own_name() -> str:
    """`.venv/bin/headrace` where it was called so, quoted for a shell; else this interpreter with the module."""
    called = Path(sys.argv[0])
    if called.name == "headrace":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m headrace.main"
