"""One endpoint: its traffic, the replicas that serve it, their lives, and the target that says how many there shall be.

Calls change the target at once, and what they change is seen in the next second that is simulated: the same calls
between the same seconds give the same records.
"""

import math
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

import msgspec
import numpy as np

from records.enums import ReplicaState
from records.telemetry import GpuSample, ReplicaChanged, RequestSample, TargetObserved
from simulation.faults import OF_ONE_REPLICA, OF_REPORTS, FaultKind, FaultRequest
from simulation.journal import listed
from simulation.lifecycle import ON_A_NODE, REPEAT_S, Lifecycle, ReplicaFacts
from simulation.reporting_faults import ReportFault, ReportingFaults
from simulation.samples import SampleFacts, gpu_samples, request_samples
from simulation.scale_target import Refused, ScaleTarget, Target
from simulation.scenario import EndpointSpec
from simulation.serving.replicas import ServingReplicas
from simulation.serving.second import SecondOfServing
from simulation.summary import Outcomes, SecondServed, Summary, within
from streams.windows.histograms import MergedHistogram, quantile

_NAMESPACE = uuid.UUID("7f1f51a2-5be3-5d0c-9f2e-0c6f6a3f3d55")
"""Of all uids here. Any would do, but none other's."""


class SimulatedEndpoint:
    """Advances second by second from `first_s` on. `instance` names this start of the fleet: uids come from it.

    Raises KeyError or ValueError for a spec that names what there is not, or contradicts itself.
    """

    def __init__(self, spec: EndpointSpec, *, seed: int, instance: str, first_s: int) -> None:
        traffic, starts, serving, reports = _generators(spec.endpoint, seed)
        model = spec.engine.build()
        self._spec = spec
        self._model = model
        self._traffic = spec.traffic.build()
        self._traffic_rng = traffic
        uid = str(uuid.uuid5(_NAMESPACE, f"{instance}/{spec.endpoint}"))
        facts = ReplicaFacts(
            endpoint=spec.endpoint,
            hardware=model.hardware,
            model_version=model.name,
            start_failure_fraction=spec.startup.failure_fraction,
        )
        self._lifecycle = Lifecycle(facts, spec.startup.build(), starts, uid)
        self._initial = self._lifecycle.begin(spec.replicas, first_s)
        self._serving = ServingReplicas(model, serving)
        self._reports: ReportingFaults[RequestSample | GpuSample] = ReportingFaults(reports)
        for fault in spec.reports:
            self._reports.begin(fault.build(), first_s)
        self._facts = SampleFacts(endpoint=spec.endpoint, gpus=model.gpus, router_epoch=f"{uid}/0")
        self._target = ScaleTarget(spec.endpoint, spec.replicas, spec.max_replicas, uid)
        self._told: Target | None = None
        self._told_s = -math.inf
        self._target_seq = 0
        self._faults: list[FaultRequest] = []
        self._totals: Counter[str] = Counter()
        self._first_s = first_s
        self.newest_s = first_s - 1
        self.summary = Summary(spec.slo_ttft_ms)

    @property
    def target(self) -> ScaleTarget:
        return self._target

    @property
    def replica_names(self) -> Iterable[str]:
        return self._lifecycle.replicas.keys()

    def inject(self, fault: FaultRequest) -> Refused | None:
        """Let a fault happen in the next second; Refused where its replica is not there, or does not serve."""
        replicas = self._lifecycle.replicas
        if fault.kind in OF_ONE_REPLICA:
            allowed = [name for name, replica in replicas.items() if replica.serves]
        else:
            allowed = list(replicas) if fault.kind in OF_REPORTS else []
        is_needed = fault.kind in OF_ONE_REPLICA
        if fault.replica not in allowed and (is_needed or fault.replica is not None):
            given = "null" if fault.replica is None else repr(fault.replica)
            return Refused(error=f"replica: {given}, allowed with {fault.kind}: {listed(allowed) or 'none now'}")
        self._faults.append(fault)
        return None

    def advance(self, second: int) -> list[msgspec.Struct]:
        """Simulate `[second, second + 1)`: what is reported of it. Raises ValueError where it is not the next one."""
        if second != self.newest_s + 1:
            raise ValueError(f"second: {second}, the next one is {self.newest_s + 1}")
        generation = self._target.target.generation
        changes = self._change(second)
        requests = self._traffic.draw(second - self._first_s, self._traffic_rng)
        served = self._serving.advance(second, requests)
        self.newest_s = second
        self._observe(generation)
        self._add_up(served, len(requests))
        replicas, seq = self._lifecycle.replicas, second - self._first_s
        samples: Iterable[RequestSample | GpuSample] = chain(
            request_samples(self._facts, served, replicas, seq), gpu_samples(self._facts, served, replicas, seq)
        )
        return [
            *changes,
            *self._lifecycle.repeats(second),
            *self._targets_observed(second),
            *self._reports.pass_on(second, samples),
        ]

    def _change(self, second: int) -> list[ReplicaChanged]:
        """Faults, starts, ends, and what the spec asks for; serving takes part in each."""
        changes, self._initial = self._initial, []
        for change in changes:
            self._serving.add(change.replica)
        changes += self._break(second)
        inflight = self._serving.inflight
        target = self._target.target
        for change in self._lifecycle.advance(second, target.spec_replicas, self._target.marks(second), inflight):
            changes.append(change)
            match change.state:
                case ReplicaState.READY:
                    self._serving.add(change.replica)
                case ReplicaState.DRAINING:
                    self._target.unmark(change.replica)
                    self._serving.drain(change.replica)
                case ReplicaState.GONE:
                    self._target.unmark(change.replica)
                    if change.replica in inflight:
                        self._serving.remove(change.replica)
        return changes

    def _break(self, second: int) -> list[ReplicaChanged]:
        """Bring about what was asked for since the last second; one that is gone by now is passed over."""
        faults, self._faults = self._faults, []
        changes: list[ReplicaChanged] = []
        for fault in faults:
            replica = self._lifecycle.replicas.get(fault.replica or "")
            match fault.kind:
                case FaultKind.FAIL_STARTS:
                    self._lifecycle.fail_starts(fault.count)
                case FaultKind.HANG if replica and replica.serves:
                    self._serving.hang(replica.name)
                case FaultKind.SLOW if replica and replica.serves:
                    self._serving.slow(replica.name, fault.factor)
                case FaultKind.RESUME if replica and replica.serves:
                    self._serving.resume(replica.name)
                case FaultKind.DIE if replica and replica.serves:
                    self._serving.die(replica.name)
                    changes += self._lifecycle.die(replica.name, second)
                case FaultKind.REPORTS_GAP | FaultKind.REPORTS_LATE | FaultKind.REPORTS_DUPLICATE:
                    self._reports.begin(_report_fault(fault), second)
        return changes

    def _observe(self, generation: int) -> None:
        self._target.observe(
            status_replicas=len(self._lifecycle.replicas),
            ready_replicas=self._lifecycle.count(ReplicaState.READY),
            generation=generation,
        )

    def _targets_observed(self, second: int) -> Iterable[TargetObserved]:
        """The target where it has changed since it was told, or that is REPEAT_S ago."""
        target = self._target.target
        if target == self._told and second - self._told_s < REPEAT_S:
            return
        self._told, self._told_s = target, second
        self._target_seq += 1
        yield TargetObserved(
            endpoint=target.endpoint,
            at_s=second,
            seq=self._target_seq,
            spec_replicas=target.spec_replicas,
            status_replicas=target.status_replicas,
            ready_replicas=target.ready_replicas,
            updated_replicas=target.status_replicas,
            rollout=False,
            uid=target.uid,
            resource_version=target.resource_version,
            generation=target.generation,
            observed_generation=target.observed_generation,
        )

    def _add_up(self, served: SecondOfServing, requests: int) -> None:
        ttft = served.latencies["ttft_ms"]
        counts = ttft.counts.sum(axis=0)
        rose = self._rose()
        gateway = served.gateway
        p95 = quantile(MergedHistogram(ttft.bounds_ms, counts.astype(np.float64)), 0.95)
        states = Counter(replica.state for replica in self._lifecycle.replicas.values())
        rejections = rose["rejections"]
        row = SecondServed(
            at_s=served.second,
            arrivals=requests - rejections,
            rejections=rejections,
            completions=rose["completions"],
            inflight=sum(served.inflight.values()) + len(self._serving.gateway.queue),
            waiting=round(float(served.gauges["waiting"].sum()) + gateway.waiting, 3),
            ready=states[ReplicaState.READY],
            spec=self._target.target.spec_replicas,
            ttft_p95_ms=None if p95 is None else round(p95.value, 3),
        )
        outcomes = Outcomes(
            arrivals=row.arrivals,
            rejections=row.rejections,
            completions=row.completions,
            aborted=rose["aborted"],
            errors=rose["errors"],
            queued=gateway.forwarded,
            first_tokens=int(counts.sum()),
            ttft_within_slo=within(ttft.bounds_ms, counts, self._spec.slo_ttft_ms),
            input_tokens=rose["input_tokens"],
            output_tokens=rose["output_tokens"],
        )
        gpus = self._model.gpus * sum(states[state] for state in ON_A_NODE)
        self.summary.add(row, outcomes, gpus, {state.value: states[state] for state in sorted(states)})

    def _rose(self) -> Mapping[str, int]:
        """By how much the true counts rose in the second, those of replicas that have gone included."""
        serving = self._serving
        totals = Counter(serving.departed)
        for name, counts in serving.engines.ledger.happened.items():
            totals[name] += int(counts.sum())
        totals["rejections"] += serving.gateway.rejections
        totals["aborted"] += serving.gateway.aborted
        before, self._totals = self._totals, totals
        return {name: count - before[name] for name, count in totals.items()}


def _report_fault(fault: FaultRequest) -> ReportFault:
    return ReportFault(
        kind=OF_REPORTS[fault.kind],
        seconds=fault.seconds,
        replica=fault.replica,
        delay_s=fault.delay_s,
        share=fault.share,
    )


def _generators(endpoint: str, seed: int) -> list[np.random.Generator]:
    """Of traffic, starts, serving and reports: each its own, so that what one draws changes nothing for the others.

    The traffic is the same however many replicas there are, and whatever other endpoints the scenario has.
    """
    sequence = np.random.SeedSequence([seed, *endpoint.encode()])
    return [np.random.default_rng(child) for child in sequence.spawn(4)]
