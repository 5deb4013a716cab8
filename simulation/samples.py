"""A second of serving as the records that agents beside the replicas would send."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from records.enums import Source
from records.telemetry import GpuSample, RequestSample
from simulation.lifecycle import Replica
from simulation.serving.second import SecondOfServing

GATEWAY = "gateway"
"""The reporter of requests that no replica has yet."""


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """What samples say besides the measured: `router_epoch` names this life of the gateway, `gpus` are of a replica."""

    endpoint: str
    gpus: int
    router_epoch: str


def request_samples(
    facts: SampleFacts, served: SecondOfServing, replicas: Mapping[str, Replica], seq: int
) -> Iterator[RequestSample]:
    """One of each replica that serves, and the gateway's. `seq` rises by the second: no second is told twice."""
    for row, name in enumerate(served.replicas):
        yield RequestSample(
            endpoint=facts.endpoint,
            replica=name,
            at_s=served.second,
            source=Source.ENGINE,
            epoch=replicas[name].epoch,
            seq=seq,
            **served.fields_of(row),
        )
    yield RequestSample(
        endpoint=facts.endpoint,
        replica="",
        at_s=served.second,
        source=Source.ROUTER,
        epoch=facts.router_epoch,
        seq=seq,
        reporter=GATEWAY,
        **served.gateway.fields(),
    )


def gpu_samples(
    facts: SampleFacts, served: SecondOfServing, replicas: Mapping[str, Replica], seq: int
) -> Iterator[GpuSample]:
    """One of each GPU of each replica that serves; GPUs are named by their pod, which keeps them over restarts."""
    for row, name in enumerate(served.replicas):
        replica = replicas[name]
        fields = served.gpus.fields_of(row)
        for index in range(facts.gpus):
            yield GpuSample(
                endpoint=facts.endpoint,
                replica=name,
                at_s=served.second,
                gpu=f"GPU-{uuid.uuid5(uuid.UUID(replica.uid), str(index))}",
                epoch=replica.epoch,
                seq=seq,
                node=replica.node,
                **fields,
            )
