"""`DIR/models/*.yaml`: what a request costs on a model and hardware, one file each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.nearest import nearest
from headrace.policies.documents import Document, read_document
from headrace.policies.problems import Problem
from headrace.policies.shapes import fit
from records.enums import MetricName
from records.policy import EndpointPolicy, ModelCoefficients

_PRICES = ("a", "b", "c", "d", "e", "f")


@dataclass(frozen=True)
class Models:
    """Coefficients by model and hardware, and what is wrong with the files."""

    known: dict[tuple[str, str], ModelCoefficients]
    problems: Sequence[Problem]

    def resolve(self, policy: EndpointPolicy, document: Document) -> tuple[EndpointPolicy, Problem | None]:
        """The policy with its model's coefficients; a Problem where a metric needs them and there are none."""
        name, hardware = policy.model.name, policy.model.hardware
        found = self.known.get((name or "", hardware or ""))
        if found is not None:
            model = msgspec.structs.replace(policy.model, coefficients=found)
            return msgspec.structs.replace(policy, model=model), None
        if self.problems or not any(metric.name is MetricName.MODEL_UNIT_UTILIZATION for metric in policy.metrics):
            return policy, None
        given = f"{name} on {hardware}" if name and hardware else "name and hardware missing"
        names = sorted(f"{known} on {where}" for known, where in self.known)
        near = nearest(given, names)
        hint = f"did you mean {near}?" if near else "a file there with name, hardware and a to f"
        allowed = f"one of models/*.yaml ({', '.join(names) or 'none there'}), as model_unit_utilization needs it"
        return policy, document.problem(("model",), given, allowed, hint)


def load_models(folder: Path) -> Models:
    """Read every file of `folder`; no folder is no models."""
    known: dict[tuple[str, str], ModelCoefficients] = {}
    places: dict[tuple[str, str], Path] = {}
    problems: list[Problem] = []
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        document = read_document(file)
        if isinstance(document, Problem):
            problems.append(document)
            continue
        fitted = fit(document, ModelCoefficients)
        if fitted.problems:
            problems += fitted.problems
            continue
        model = msgspec.convert(document.root, ModelCoefficients)
        key = (model.name, model.hardware)
        if not any(getattr(model, price) for price in _PRICES):
            hint = "no load could reach a target, as every request would cost nothing"
            problems.append(document.problem((), "a to f are all 0", "one above 0", hint))
        if key in known:
            hint = f"also in {places[key]}"
            problems.append(document.problem(("name",), f"{key[0]} on {key[1]}", "one file each", hint))
        known.setdefault(key, model)
        places.setdefault(key, file)
    return Models(known, problems)
