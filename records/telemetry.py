"""What is measured: one record a replica, GPU or target and second, or at a change.

Identity of a RequestSample: `(endpoint, replica, epoch, source, reporter, at_s)`; of a GpuSample the same with `gpu`
for `source` and `reporter`. Of two records with one identity the later `seq` counts. Null is unknown, 0 a known zero.
"""

import msgspec

from records.enums import ReplicaState, Role, Source
from records.fields import Amount, Count, Fraction, Instant, Label, Millisecond, Name, Natural, Second
from records.histogram import Histogram


class RequestSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replica's requests in the second `[at_s, at_s + 1)`, by one reporter.

    Counts are of that second; `running` and `waiting` are means over it; the histograms hold the requests that
    finished that phase in it. In-flight is `running + waiting`.
    """

    endpoint: Name
    replica: Label
    at_s: Second
    source: Source
    epoch: Label = ""
    seq: Natural = 0
    reporter: Label | None = None
    received_s: Instant | None = None
    arrivals: Count | None = None
    completions: Count | None = None
    errors: Count | None = None
    rejections: Count | None = None
    aborted: Count | None = None
    running: Amount | None = None
    running_max: Amount | None = None
    waiting: Amount | None = None
    deferred: Amount | None = None
    input_tokens: Count | None = None
    cached_tokens: Count | None = None
    output_tokens: Count | None = None
    images: Count | None = None
    steps: Count | None = None
    arrived_input_tokens: Count | None = None
    arrived_output_tokens_estimate: Amount | None = None
    kv_cache_usage: Fraction | None = None
    preemptions: Count | None = None
    concurrency_limit: Amount | None = None
    active_sessions: Amount | None = None
    cpu: Fraction | None = None
    streamed_fraction: Fraction | None = None
    ttft_ms: Histogram | None = None
    tpot_ms: Histogram | None = None
    e2e_ms: Histogram | None = None
    queue_ms: Histogram | None = None


class GpuSample(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU of a replica in the second `[at_s, at_s + 1)`; `xid` is the last error code, 0 for none."""

    endpoint: Name
    replica: Label
    at_s: Second
    gpu: Name
    epoch: Label = ""
    seq: Natural = 0
    node: Label | None = None
    received_s: Instant | None = None
    gpu_utilization: Fraction | None = None
    sm_active: Fraction | None = None
    tensor_active: Fraction | None = None
    dram_active: Fraction | None = None
    memory_used_bytes: Natural | None = None
    memory_total_bytes: Natural | None = None
    power_w: Amount | None = None
    temperature_c: float | None = None
    xid: Count | None = None


class ReplicaChanged(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A replica's state, at every change and every 30 s; the state dates from its first record."""

    endpoint: Name
    replica: Name
    at_s: Second
    state: ReplicaState
    epoch: Label = ""
    seq: Natural = 0
    received_s: Instant | None = None
    reason: str | None = None
    node: Label | None = None
    hardware: Label | None = None
    role: Role = Role.BOTH
    model_version: Label | None = None


class TargetObserved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The scale target as Kubernetes, or another fleet, has it: at every change and every 30 s."""

    endpoint: Name
    at_s: Second
    seq: Natural = 0
    received_s: Instant | None = None
    spec_replicas: Count | None = None
    status_replicas: Count | None = None
    ready_replicas: Count | None = None
    updated_replicas: Count | None = None
    rollout: bool | None = None
    uid: Label | None = None
    resource_version: Label | None = None
    generation: Natural | None = None
    observed_generation: Natural | None = None
    role: Role = Role.BOTH


class RequestLog(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request, as a gateway logs it. `request` and `response` are JSON text, null where not allowed."""

    request_id: Name
    at_ms: Millisecond
    endpoint: Name
    client_request_id: Label | None = None
    replica: Label | None = None
    workload: Label | None = None
    requester: Label | None = None
    status_code: Count | None = None
    duration_ms: Amount | None = None
    ttft_ms: Amount | None = None
    input_tokens: Count | None = None
    cached_tokens: Count | None = None
    output_tokens: Count | None = None
    images: Count | None = None
    streamed: bool | None = None
    finish_reason: Label | None = None
    model_units: Amount | None = None
    trace_id: Label | None = None
    span_id: Label | None = None
    sampling_fraction: Fraction | None = None
    request: str | None = None
    response: str | None = None
    logging_error_codes: tuple[str, ...] | None = None
