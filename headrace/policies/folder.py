"""A folder of policies: one YAML file each, and `models/*.yaml` with the coefficients that they name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from headrace.policies.documents import Document, read_document
from headrace.policies.models import Models, load_models
from headrace.policies.problems import KeyPath, PolicyError, Problem, path_text, value_text
from headrace.policies.rules import Finding, findings
from headrace.policies.schedule_rules import schedule_findings
from headrace.policies.shapes import fit
from records.policy import EndpointPolicy

_NOT_YET = {
    ("schedules",): "schedules",
    ("forecast",): "the forecast floor",
    ("concurrency", "auto"): "concurrency.auto",
    ("workloads",): "workloads",
    ("health",): "health",
    ("routing",): "routing",
}
"""Accepted and published, and without effect on the decisions of this version, where a file mentions them."""


@dataclass(frozen=True)
class PolicyFolder:
    """Policies by file name, the models' coefficients resolved; `notes` are what is worth knowing and no error."""

    policies: tuple[EndpointPolicy, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Read:
    """One file: its policy, None where it has problems."""

    document: Document
    policy: EndpointPolicy | None
    problems: list[Problem]


def load_policies(folder: Path, empty_ok: bool = False) -> list[EndpointPolicy]:
    """The policies of a folder. Raises PolicyError with all that is wrong in any file, one line each."""
    return list(load_folder(folder, empty_ok).policies)


def load_folder(folder: Path, empty_ok: bool = False) -> PolicyFolder:
    """As `load_policies`, with the notes. A folder without policies is an error unless `empty_ok`."""
    files = policy_files(folder)
    if not files and not empty_ok:
        raise PolicyError([Problem(folder, 1, "", "no policies", "a folder with one *.yaml file for each endpoint")])
    models = load_models(folder / "models")
    problems = [*models.problems]
    reads = []
    for file in files:
        document = read_document(file)
        if isinstance(document, Problem):
            problems.append(document)
        else:
            reads.append(_read_policy(document, models))
    problems += [problem for read in reads for problem in read.problems]
    problems += _doubles(reads)
    if problems:
        raise PolicyError(problems)
    policies = tuple(read.policy for read in reads if read.policy is not None)
    return PolicyFolder(policies, tuple(_notes(reads)))


def policy_files(folder: Path) -> list[Path]:
    """The *.yaml and *.yml files of a folder (not those that begin with a dot), by name. Raises PolicyError."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError as error:
        told = f"cannot be read: {error.strerror}"
        raise PolicyError([Problem(folder, 1, "", told, "a folder with one *.yaml file for each endpoint")]) from error
    return [path for path in found if not path.name.startswith(".")]


def _read_policy(document: Document, models: Models) -> _Read:
    if {"apiVersion", "kind", "spec"} <= document.root.keys():
        told = document.problem((), "a custom resource", "the policy alone", "move the keys of its spec to the top")
        return _Read(document, None, [told])
    fitted = fit(document, EndpointPolicy)
    problems = list(fitted.problems)
    if document.root.get("roles") is not None:
        # Refused as a whole by the rules; such a document rightly leaves these out.
        problems = [problem for problem in problems if problem.field not in ("minReplicas", "maxReplicas")]
    policy = msgspec.convert(fitted.value, EndpointPolicy)
    problems += [_problem(document, found) for found in _rules(policy) if not _touches(found, fitted.paths)]
    if ("model", "coefficients") in document.lines:
        hint = "they come from models/*.yaml beside the policies"
        problems.append(document.problem(("model", "coefficients"), "given", "no coefficients here", hint))
    policy, unresolved = models.resolve(policy, document)
    if unresolved is not None and not any(path[:1] in (("model",), ("metrics",)) for path in fitted.paths):
        problems.append(unresolved)
    return _Read(document, None if problems else policy, problems)


def _rules(policy: EndpointPolicy) -> Iterator[Finding]:
    yield from findings(policy)
    yield from schedule_findings(policy)


def _touches(finding: Finding, bad: Iterable[KeyPath]) -> bool:
    """Whether a finding rests on a value that is itself wrong, or on one inside or around it."""
    paths = (finding.path, *finding.involved)
    return any(path[: len(wrong)] == wrong or wrong[: len(path)] == path for path in paths for wrong in bad)


def _problem(document: Document, finding: Finding) -> Problem:
    if finding.value is None:
        value = "missing"
    elif finding.path in document.lines:
        value = value_text(document.value_at(finding.path))
    else:
        value = f"{value_text(finding.value)} by default"
    return document.problem(finding.path, value, finding.allowed, finding.hint)


def _doubles(reads: Iterable[_Read]) -> Iterator[Problem]:
    """Two policies of one endpoint, or of one scale target."""
    seen: dict[tuple[object, ...], str] = {}
    for read in reads:
        root = read.document.root
        for path, identity in _identities(root):
            place = f"{read.document.file}:{read.document.line_of(path)}"
            first = seen.setdefault((path_text(path), *identity), place)
            if first != place:
                shown = value_text(identity[0]) if path == ("endpoint",) else " ".join(map(str, identity))
                yield read.document.problem(path, shown, "one policy each", f"also in {first}")


def _identities(root: dict[str, Any]) -> Iterator[tuple[KeyPath, tuple[object, ...]]]:
    if isinstance(root.get("endpoint"), str):
        yield ("endpoint",), (root["endpoint"],)
    target = root.get("scaleTargetRef")
    if isinstance(target, dict) and {"kind", "name"} <= target.keys():
        group = str(target.get("apiVersion", "apps/v1"))
        yield ("scaleTargetRef",), (group, target["kind"], target.get("namespace", "default"), target["name"])


def _notes(reads: Iterable[_Read]) -> Iterator[str]:
    for read in reads:
        document, policy = read.document, read.policy
        assert policy is not None
        for path, name in _NOT_YET.items():
            if path in document.lines and _asks(document.value_at(path)):
                yield f"{document.file}:{document.line_of(path)}: {name}: accepted; this version does not act on it yet"
        if policy.min_replicas == 0:
            line = document.line_of(("minReplicas",))
            told = "accepted; this version does not scale to zero yet, it holds 1"
            yield f"{document.file}:{line}: minReplicas: 0: {told}"
        if policy.model.name is not None and policy.model.coefficients is None:
            line = document.line_of(("model",))
            yield f"{document.file}:{line}: model: no coefficients in models/*.yaml, so no model units are computed"


def _asks(value: object) -> bool:
    """Whether a value asks for something: not empty, and not switched off."""
    return bool(value) and not (isinstance(value, dict) and value.get("enabled") is False)
