"""Reads the pages: links, headings, fenced blocks, and the `headrace` commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_BREAKS = {"|", ";", "&", "&&", "||", "<", ">", ">>"}


@dataclass(frozen=True)
class Block:
    """A fenced block; `mark` is the comment right above it, or empty."""

    page: Path
    kind: str
    mark: str
    text: str


@dataclass(frozen=True)
class Command:
    """One `headrace ...` of a page, without what a shell would take away."""

    page: Path
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.name}: headrace {shlex.join(self.arguments)}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for found in _FENCE.finditer(page.read_text()):
            yield Block(page, found["kind"], found["mark"] or "", found["text"])


def links(page: Path) -> Iterator[str]:
    """Targets of a page's links that lead into the repository."""
    prose = _FENCE.sub("", page.read_text())
    for found in _LINK.finditer(prose):
        if not re.match(r"[a-z]+:", found["target"]):
            yield found["target"]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as git hosts make them."""
    prose = _FENCE.sub("", page.read_text())
    heads = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def commands() -> Iterator[Command]:
    """Every `headrace` command of a `sh` block, and of the prompts (`$ `) of a `console` block."""
    for block in blocks():
        lines = block.text.replace("\\\n", " ").splitlines()
        if block.kind == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif block.kind != "sh":
            continue
        for line in lines:
            for words in _simple_commands(line):
                if words[0] == "headrace":
                    yield Command(block.page, tuple(words[1:]))


def _simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of one line, without variables before them, redirections and comments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    skipped = False
    for word in [*lexer, ";"]:
        if word in {"<", ">", ">>"}:
            skipped = True
        elif word in _BREAKS:
            if words:
                yield words
            words, skipped = [], False
        elif not skipped and (words or not re.match(r"[A-Z_]+=", word)):
            words.append(word)


def table_rows(text: str) -> list[list[str]]:
    """The cells of every row of the Markdown tables in `text`, heads and rules left out."""
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    heads = {index - 1 for index, row in enumerate(rows) if set("".join(row)) <= set("-|")}
    return [row for index, row in enumerate(rows) if index not in heads and set("".join(row)) - set("-|")]


def between(text: str, begin: str, end: str) -> str:
    """What stands between two marks. Raises ValueError where one is missing."""
    start = text.index(begin) + len(begin)
    return text[start : text.index(end, start)]
