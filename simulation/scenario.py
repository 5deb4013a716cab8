"""What a simulated fleet is made of: the scenario file's keys, their ranges, and the parts that they describe."""

import dataclasses
import math
from typing import Annotated

import msgspec
from msgspec import Meta

from records.fields import Fraction, Name, Natural
from simulation.engine_model import ENGINE_MODELS, EngineModel
from simulation.reporting_faults import ReportFault, ReportFaultKind
from simulation.scale_target import SPEC_MAX
from simulation.startup import SPREAD, SPREAD_MAX, STARTUP_MODELS, StartupModel
from simulation.traffic import LENGTHS, Lengths, Patience, Quantiles, RateProfile, Traffic

POINTS_MAX = 3_000
RATE_MAX = 100_000.0
TOKENS_MAX = 1_000_000.0
"""Far above any use, so that a slip of a few digits is refused."""

ENDPOINT_CHARS_MAX = 240
"""Replicas are named after their endpoint, and their names are no longer than 253."""

Replicas = Annotated[int, Meta(ge=0, le=SPEC_MAX)]
Spread = Annotated[float, Meta(ge=0, le=SPREAD_MAX)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the scenario: keys in camel case, as in policies."""


class EngineSpec(_Section, frozen=True, kw_only=True):
    """One of ENGINE_MODELS; the limits are the model's own where they are not given."""

    model: Name
    hardware: Name
    max_num_seqs: Annotated[int, Meta(ge=1, le=4096)] | None = None
    waiting_max: Annotated[int, Meta(ge=0, le=100_000)] | None = None

    @property
    def name(self) -> str:
        return f"{self.model}/{self.hardware}"

    def build(self) -> EngineModel:
        """Raises KeyError for an engine that is not there."""
        model = ENGINE_MODELS[self.name]
        return dataclasses.replace(
            model,
            max_num_seqs=model.max_num_seqs if self.max_num_seqs is None else self.max_num_seqs,
            waiting_max=model.waiting_max if self.waiting_max is None else self.waiting_max,
        )


class StartupSpec(_Section, frozen=True, kw_only=True):
    """Either `like` one of STARTUP_MODELS, or a median and a spread."""

    like: Name | None = None
    median_seconds: Seconds | None = None
    spread: Spread = SPREAD
    failure_fraction: Fraction = 0.0

    def build(self) -> StartupModel:
        """Raises KeyError for a model that is not there."""
        if self.median_seconds is not None:
            return StartupModel(median_s=self.median_seconds, spread=self.spread)
        return STARTUP_MODELS[self.like or ""]


class QuantilesSpec(_Section, frozen=True, kw_only=True):
    """A distribution: `values[i]` is the quantile of `fractions[i]`, straight between them."""

    fractions: Annotated[tuple[Fraction, ...], Meta(min_length=2, max_length=100)]
    values: Annotated[tuple[Annotated[float, Meta(ge=0, le=TOKENS_MAX)], ...], Meta(min_length=2, max_length=100)]

    def build(self) -> Quantiles:
        """Raises ValueError where the fractions do not rise from 0 to 1, or the values fall."""
        return Quantiles(fractions=self.fractions, values=self.values)


class LengthsSpec(_Section, frozen=True, kw_only=True):
    """Either `like` one of LENGTHS, or distributions of the tokens of a request's input and output."""

    like: Name | None = None
    input_tokens: QuantilesSpec | None = None
    output_tokens: QuantilesSpec | None = None
    cached_share: QuantilesSpec | None = None

    def build(self) -> Lengths:
        """Raises KeyError, or ValueError as QuantilesSpec does."""
        if self.input_tokens is None or self.output_tokens is None:
            found = LENGTHS[self.like or ""]
            if self.cached_share is None:
                return found
            prompt, output = found.input_tokens, found.output_tokens
        else:
            prompt, output = self.input_tokens.build(), self.output_tokens.build()
        cached = Quantiles.constant(0.0) if self.cached_share is None else self.cached_share.build()
        return Lengths(input_tokens=prompt, output_tokens=output, cached_share=cached)


class RatePoint(_Section, frozen=True, kw_only=True):
    """So many requests a second at that second of the run."""

    second: Annotated[float, Meta(ge=0, le=1e9)]
    requests_per_second: Annotated[float, Meta(ge=0, le=RATE_MAX)]


class TrafficSpec(_Section, frozen=True, kw_only=True):
    """Requests of a rate that is straight between its points, and constant before the first and after the last."""

    lengths: LengthsSpec
    rate: Annotated[tuple[RatePoint, ...], Meta(min_length=1, max_length=POINTS_MAX)]
    burstiness: Annotated[float, Meta(ge=0, le=100)] = 0.0
    patience_seconds: Seconds | None = None

    def build(self) -> Traffic:
        """Raises KeyError or ValueError as the parts do."""
        points = tuple((point.second, point.requests_per_second) for point in self.rate)
        return Traffic(
            rate=RateProfile(points=points, burstiness=self.burstiness),
            lengths=self.lengths.build(),
            patience=Patience() if self.patience_seconds is None else Patience(median_s=self.patience_seconds),
        )


class ReportsSpec(_Section, frozen=True, kw_only=True):
    """A fault of the samples' reporters that lasts for the whole run, in `share` of their samples."""

    kind: ReportFaultKind
    share: Fraction
    delay_seconds: Annotated[int, Meta(ge=1, le=600)] = 5

    def build(self) -> ReportFault:
        return ReportFault(kind=self.kind, seconds=math.inf, delay_s=self.delay_seconds, share=self.share)


class EndpointSpec(_Section, frozen=True, kw_only=True):
    """One endpoint: `replicas` are ready at the start, and `max_replicas` is the most that anybody may ask for.

    A request counts as served well when its first token came within `slo_ttft_ms`.
    """

    endpoint: Annotated[str, Meta(min_length=1, max_length=ENDPOINT_CHARS_MAX)]
    engine: EngineSpec
    startup: StartupSpec
    traffic: TrafficSpec
    replicas: Replicas
    max_replicas: Replicas = 1000
    reports: Annotated[tuple[ReportsSpec, ...], Meta(max_length=10)] = ()
    slo_ttft_ms: Annotated[float, Meta(gt=0, le=1e7)] = 500.0


class Scenario(_Section, frozen=True, kw_only=True):
    """A fleet; the same `seed` gives the same requests and the same start-up times."""

    endpoints: Annotated[tuple[EndpointSpec, ...], Meta(min_length=1, max_length=1000)]
    seed: Natural = 0
