"""Where the demonstrations write: standard output, as it is."""

from collections.abc import Callable

from rich.console import Console

PLAIN_WIDTH = 160
"""Columns of tables where there is no terminal to ask."""

Say = Callable[[str], None]
"""Tells a line that stays."""


def open_console() -> Console:
    """Standard output; where that is no terminal, with a fixed width."""
    console = Console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH)


def say(console: Console, text: str) -> None:
    """Print as it is: no markup, no colours of guessed values, no wrapping of paths and commands."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
