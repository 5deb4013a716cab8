"""A copy of the engine with one bug in it, in memory: nothing in the working tree is touched."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from tests.oracle.cases import make_case
from tests.oracle.kept_logs import KEPT, case_of
from tests.oracle.plans import Case, drawn_plan

COPIED = ("streams", *(f"tests.oracle.{name}" for name in ("engine", "compare", "judgement", "direct")))
"""Modules that are imported anew: the engine, and what feeds and reads it."""


@dataclass(frozen=True)
class Bug:
    """`old`, which stands in `module` once, becomes `new`; the case of a seed (`plans.drawn_plan`) shows it, or a log
    that is kept, by its name."""

    name: str
    module: str
    old: str
    new: str
    shown_by: int | str

    @property
    def case(self) -> Case:
        if isinstance(self.shown_by, int):
            return make_case(drawn_plan(self.shown_by))
        (kept,) = [one for one in KEPT if one.name == self.shown_by]
        return case_of(kept)


class AnchorError(AssertionError):
    """A bug's old text is not where it was, or not alone: its table has to follow the code."""


class _Loader(SourceFileLoader):
    def __init__(self, bug: Bug, path: str) -> None:
        super().__init__(bug.module, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_data(self.path).decode()
        found = source.count(self._bug.old)
        if found != 1:
            raise AnchorError(f"{self._bug.name}: in {fullname} {found} times instead of once: {self._bug.old!r}")
        return compile(source.replace(self._bug.old, self._bug.new), self.path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._bug.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(self._bug, spec.origin)
        return spec


@contextmanager
def planted(bug: Bug) -> Iterator[Callable[[Case], list[str]]]:
    """What the oracle says of an engine that has the bug: of its signals, and of its windows alone."""
    own = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_copied(name)}
    finder = _Finder(bug)
    sys.meta_path.insert(0, finder)
    try:
        judgement, direct = import_module("tests.oracle.judgement"), import_module("tests.oracle.direct")
        if bug.module not in sys.modules:
            raise AnchorError(f"{bug.name}: the engine does not use {bug.module}")
        yield lambda case: [*judgement.disagreements(case), *_in_windows(case, direct.window_differences)]
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_copied(name)]:
            del sys.modules[name]
        sys.modules.update(own)
        for name, module in own.items():
            parent, _, child = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], child, module)


def _in_windows(case: Case, differences: Callable[[Case], list[str]]) -> list[str]:
    try:
        return differences(case)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def _is_copied(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in COPIED)
