"""A scenario file: YAML, checked as a whole, with the file's line in each message."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from headrace.nearest import nearest
from headrace.policies.documents import Document, read_document
from headrace.policies.problems import FileError, KeyPath, Problem, value_text
from headrace.policies.shapes import fit
from simulation.engine_model import ENGINE_MODELS
from simulation.scenario import EndpointSpec, LengthsSpec, QuantilesSpec, Scenario, StartupSpec
from simulation.startup import STARTUP_MODELS
from simulation.traffic import LENGTHS
from simulation.vllm_bounds import VLLM_BOUNDS_MS

EXPECTED = "one scenario, a mapping with endpoints: a list with endpoint, engine, startup, traffic and replicas"


@dataclass(frozen=True)
class _Finding:
    """What is wrong at `path`; `involved` are the values that this depends on, where these are others."""

    path: KeyPath
    value: str
    allowed: str
    hint: str = ""
    involved: tuple[KeyPath, ...] = ()


def load_scenario(file: Path) -> Scenario:
    """Read a scenario. Raises FileError with all that is wrong, one line each."""
    document = read_document(file, EXPECTED)
    if isinstance(document, Problem):
        raise FileError([document])
    fitted = fit(document, Scenario, keys="the keys of docs/fleet.md")
    scenario = msgspec.convert(fitted.value, Scenario)
    problems = list(fitted.problems)
    problems += [_problem(document, found) for found in _findings(scenario) if not _touches(found, fitted.paths)]
    if problems:
        raise FileError(problems)
    return scenario


def _findings(scenario: Scenario) -> Iterator[_Finding]:
    seen: dict[str, int] = {}
    for index, spec in enumerate(scenario.endpoints):
        path: KeyPath = ("endpoints", index)
        first = seen.setdefault(spec.endpoint, index)
        if first != index:
            hint = f"also in endpoints[{first}]"
            yield _Finding((*path, "endpoint"), value_text(spec.endpoint), "each endpoint once", hint)
        yield from _of_endpoint(spec, path)


def _of_endpoint(spec: EndpointSpec, path: KeyPath) -> Iterator[_Finding]:
    if spec.replicas > spec.max_replicas:
        most = (*path, "maxReplicas")
        allowed = f"0 to maxReplicas, {spec.max_replicas}"
        yield _Finding((*path, "replicas"), value_text(spec.replicas), allowed, involved=(most,))
    if spec.engine.name not in ENGINE_MODELS:
        yield _unknown((*path, "engine"), spec.engine.name, ENGINE_MODELS, ("model", "hardware"))
    limits = VLLM_BOUNDS_MS["ttft_ms"]
    if spec.slo_ttft_ms not in limits:
        allowed = "a bound of vLLM's histogram: " + ", ".join(f"{limit:g}" for limit in limits)
        yield _Finding((*path, "sloTtftMs"), value_text(spec.slo_ttft_ms), allowed)
    yield from _of_startup(spec.startup, (*path, "startup"))
    yield from _of_lengths(spec.traffic.lengths, (*path, "traffic", "lengths"))
    for number, (early, late) in enumerate(pairwise(spec.traffic.rate), start=1):
        if not early.second < late.second:
            where: KeyPath = (*path, "traffic", "rate", number, "second")
            before = (*path, "traffic", "rate", number - 1)
            allowed = f"above the second before, {early.second:g}"
            yield _Finding(where, value_text(late.second), allowed, involved=(before,))


def _of_startup(spec: StartupSpec, path: KeyPath) -> Iterator[_Finding]:
    if (spec.like is None) == (spec.median_seconds is None):
        involved = ((*path, "like"), (*path, "medianSeconds"))
        told = "both" if spec.like is not None else "neither"
        yield _Finding(path, told, "one of like and medianSeconds", involved=involved)
    elif spec.like is not None and spec.like not in STARTUP_MODELS:
        yield _unknown((*path, "like"), spec.like, STARTUP_MODELS)


def _of_lengths(spec: LengthsSpec, path: KeyPath) -> Iterator[_Finding]:
    own = (spec.input_tokens, spec.output_tokens)
    allowed = "like, or inputTokens and outputTokens"
    involved = ((*path, "like"), (*path, "inputTokens"), (*path, "outputTokens"))
    if spec.like is not None and any(own):
        yield _Finding(path, "both", allowed, involved=involved)
    elif spec.like is None and not all(own):
        yield _Finding(path, "neither", allowed, involved=involved)
    elif spec.like is not None and spec.like not in LENGTHS:
        yield _unknown((*path, "like"), spec.like, LENGTHS)
    for name, quantiles, low, high in (
        ("inputTokens", spec.input_tokens, 1.0, None),
        ("outputTokens", spec.output_tokens, 1.0, None),
        ("cachedShare", spec.cached_share, 0.0, 1.0),
    ):
        if quantiles is not None:
            yield from _of_quantiles(quantiles, (*path, name), low, high)


def _of_quantiles(spec: QuantilesSpec, path: KeyPath, low: float, high: float | None) -> Iterator[_Finding]:
    fractions, values = spec.fractions, spec.values
    of_fractions: KeyPath = (*path, "fractions")
    of_values: KeyPath = (*path, "values")
    if len(fractions) != len(values):
        told, involved = f"a list of {len(values)}", (of_values, of_fractions)
        yield _Finding(of_values, told, f"as many as fractions, {len(fractions)}", involved=involved)
    if fractions[0] != 0 or fractions[-1] != 1 or any(not early < late for early, late in pairwise(fractions)):
        yield _Finding(of_fractions, str(list(fractions)), "rising from 0 to 1", involved=(of_fractions,))
    if any(early > late for early, late in pairwise(values)):
        yield _Finding(of_values, str(list(values)), "none below the one before", involved=(of_values,))
    elif values[0] < low:
        yield _Finding((*of_values, 0), value_text(values[0]), f"{low:g} or more")
    elif high is not None and values[-1] > high:
        yield _Finding((*of_values, len(values) - 1), value_text(values[-1]), f"{low:g} to {high:g}")


def _unknown(path: KeyPath, name: str, known: Iterable[str], keys: Iterable[str] = ()) -> _Finding:
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else ""
    return _Finding(path, value_text(name), ", ".join(sorted(known)), hint, tuple((*path, key) for key in keys))


def _problem(document: Document, found: _Finding) -> Problem:
    return document.problem(found.path, found.value, found.allowed, found.hint)


def _touches(found: _Finding, bad: Iterable[KeyPath]) -> bool:
    """Whether it rests on a value that is itself wrong, is inside one, or has one inside those it depends on."""
    outside = any(found.path[: len(wrong)] == wrong for wrong in bad)
    return outside or any(
        path[: len(wrong)] == wrong or wrong[: len(path)] == path for path in found.involved for wrong in bad
    )
