"""One YAML file as plain values with the line of each; whatever the file holds, a Problem and never a traceback."""

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase, CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean

from headrace.policies.problems import KeyPath, Problem, path_text

BYTES_MAX = 1024 * 1024
NODES_MAX = 10_000
"""Most values of a document with its aliases followed: nine lines of aliases can make a billion."""
DEPTH_MAX = 32

_DEEP = re.compile(rf"(?:[\[{{]\s*){{{DEPTH_MAX + 1}}}")
"""The parser takes seconds for thousands of brackets."""

ONE_POLICY = "one policy, a mapping with endpoint, scaleTargetRef, minReplicas, maxReplicas and metrics"


@dataclass
class Document:
    """`root` is the mapping as plain dicts, lists and scalars; `lines` has the line, from 1, of each value's key."""

    file: Path
    root: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line_of(self, path: KeyPath) -> int:
        """The line of a value, or of the nearest one around it that is written."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def value_at(self, path: KeyPath) -> Any:
        """The value at a path that is in `lines`."""
        value: Any = self.root
        for part in path:
            value = value[part]
        return value

    def problem(self, path: KeyPath, value: str, allowed: str, hint: str = "") -> Problem:
        return Problem(self.file, self.line_of(path), path_text(path), value, allowed, hint)


class _Refused(Exception):  # noqa: N818  # not an error of ours: it carries the Problem out of the parser's depths
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_document(file: Path, expected: str = ONE_POLICY) -> Document | Problem:
    """Read a file; the Problem where it is not one YAML mapping in UTF-8. `expected` says what that should hold."""
    try:
        text = _read_text(file)
        root = _parse(file, text, expected)
        document = Document(file)
        nodes = _Nodes(document)
        document.lines[()] = _line_of(root)
        document.root = nodes.mapping(root, ())
    except _Refused as refused:
        return refused.problem
    return document


def _read_text(file: Path) -> str:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise _Refused(Problem(file, 1, "", "no regular file", "a YAML file"))
        if found.st_size > BYTES_MAX:
            raise _Refused(Problem(file, 1, "", f"{found.st_size} bytes", f"up to {BYTES_MAX} bytes"))
        content = file.read_bytes()
    except OSError as error:
        raise _Refused(Problem(file, 1, "", f"cannot be read: {error.strerror}", "a readable YAML file")) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _Refused(Problem(file, line, "", f"byte 0x{content[error.start]:02x}", "text in UTF-8")) from error


def _parse(file: Path, text: str, expected: str) -> CommentedMap:
    if deep := _DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise _Refused(Problem(file, line, "", "nested too deeply", f"up to {DEPTH_MAX} levels"))
    try:
        roots = list(YAML(typ="rt").load_all(text))
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        said = (error.problem or "").split(" with value")[0].removeprefix("found ")
        raise _Refused(Problem(file, line, "", said, "each key once")) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        tab = "indent with spaces" if "\\t" in said or "'\t'" in said else ""
        raise _Refused(Problem(file, mark.line + 1 if mark else 1, "", f"no YAML: {said}", "YAML 1.2", tab)) from error
    except RecursionError as error:
        raise _Refused(Problem(file, 1, "", "nested too deeply", f"up to {DEPTH_MAX} levels")) from error
    except (YAMLError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise _Refused(Problem(file, 1, "", f"no YAML: {said}", "YAML 1.2")) from error
    if not roots or (len(roots) == 1 and roots[0] is None):
        raise _Refused(Problem(file, 1, "", "an empty file", expected))
    if len(roots) > 1:
        line = _line_of(roots[1])
        raise _Refused(Problem(file, line, "", "a second document", "one document a file", "move it to its own file"))
    if not isinstance(roots[0], CommentedMap):
        kind = "a list" if isinstance(roots[0], CommentedSeq) else "a single value"
        raise _Refused(Problem(file, _line_of(roots[0]), "", kind, expected))
    return roots[0]


class _Nodes:
    """Turns ruamel's values into plain ones, and notes their lines."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0

    def mapping(self, node: CommentedMap, path: KeyPath) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in node.items():
            line = self._key_line(node, key)
            if not isinstance(key, str):
                raise _Refused(
                    Problem(self._document.file, line, path_text(path), f"key {key!r}", "keys that are text")
                )
            inner = (*path, str(key))
            self._document.lines[inner] = line
            plain[str(key)] = self._value(value, inner)
        return plain

    def _value(self, node: Any, path: KeyPath) -> Any:
        self._count += 1
        if self._count > NODES_MAX or len(path) > DEPTH_MAX:
            limit = f"up to {NODES_MAX} values, {DEPTH_MAX} deep, with aliases followed"
            raise _Refused(self._document.problem(path, "more than a policy can be", limit))
        match node:
            case CommentedMap():
                return self.mapping(node, path)
            case CommentedSeq():
                return list(self._items(node, path))
            case None | bool():
                return node
            case int():
                return int(node)
            case float():
                return float(node)
            case str():
                return str(node)
            case ScalarBoolean():
                return bool(node)
            case _:
                raise _Refused(self._document.problem(path, str(node), "text, numbers, lists and mappings", "quote it"))

    def _items(self, node: CommentedSeq, path: KeyPath) -> Iterator[Any]:
        for index, item in enumerate(node):
            inner = (*path, index)
            self._document.lines[inner] = node.lc.item(index)[0] + 1 if node.lc.data else _line_of(node)
            yield self._value(item, inner)

    def _key_line(self, node: CommentedMap, key: Any) -> int:
        """Keys that a merge (`<<`) brought in are said to be at the mapping that merges."""
        return node.lc.key(key)[0] + 1 if node.lc.data and key in node.lc.data else _line_of(node)


def _line_of(node: Any) -> int:
    return node.lc.line + 1 if isinstance(node, CommentedBase) else 1
