"""What always holds between two seconds: no request, token or block appears or is lost."""

from collections.abc import Iterator

import numpy as np

from simulation.serving.engines import Engines
from simulation.serving.replicas import ServingReplicas
from simulation.serving.rows import blocks_of, summed


def violations(serving: ServingReplicas) -> tuple[str, ...]:
    """What does not hold, in words; empty where all is well."""
    return (*_of_requests(serving), *_of_tokens(serving), *_of_blocks(serving.engines), *_of_limits(serving.engines))


def _of_requests(serving: ServingReplicas) -> Iterator[str]:
    """arrivals = completions + errors + aborted + in flight, at each replica, at those that left, at the gateway."""
    happened = serving.engines.ledger.happened
    left = happened["completions"] + happened["errors"] + happened["aborted"]
    inside = serving.inflight
    for name, arrived, gone in zip(serving.names, happened["arrivals"].tolist(), left.tolist(), strict=True):
        if arrived != gone + inside[name]:
            yield f"{name}: {arrived} arrived, {gone} left, {inside[name]} are in flight"
    departed = serving.departed
    gone = departed["completions"] + departed["errors"] + departed["aborted"]
    if departed["arrivals"] != gone:
        yield f"departed replicas: {departed['arrivals']} arrived, {gone} left"
    gateway = serving.gateway
    if gateway.arrivals != gateway.forwarded + gateway.aborted + len(gateway.queue):
        yield (
            f"gateway: {gateway.arrivals} arrived, {gateway.forwarded} were forwarded, {gateway.aborted} aborted, "
            f"{len(gateway.queue)} wait"
        )


def _of_tokens(serving: ServingReplicas) -> Iterator[str]:
    """Tokens made = tokens of the requests that left + tokens of those in flight."""
    engines = serving.engines
    queue = engines.queue
    held = engines.decoding.tokens() + summed(queue["replica"], queue["generated"], engines.replicas)
    made, left = engines.ledger.happened["output_tokens"], engines.ledger.left_tokens
    for row in np.flatnonzero(made != left + held).tolist():
        yield f"{serving.names[row]}: {made[row]} tokens made, {left[row]} left, {held[row]} are in flight"
    departed = serving.departed
    if departed["output_tokens"] != departed["left_tokens"]:
        yield f"departed replicas: {departed['output_tokens']} tokens made, {departed['left_tokens']} left"


def _of_blocks(engines: Engines) -> Iterator[str]:
    """Blocks in use = the sum over running requests, and no more than there are."""
    slots = engines.decoding.held_by(np.ones(engines.replicas, np.bool_))
    rows = engines.decoding.look(slots)
    tokens = rows["input"].astype(np.int64) + rows["generated"]
    mine = summed(rows["replica"], blocks_of(tokens), engines.replicas)
    if (mine != engines.decoding.blocks).any():
        yield f"blocks of decoding sequences are {mine.tolist()}, counted {engines.decoding.blocks.tolist()}"
    if (engines.blocks() > engines.model.kv_blocks).any():
        yield f"blocks in use are {engines.blocks().tolist()} of {engines.model.kv_blocks}"


def _of_limits(engines: Engines) -> Iterator[str]:
    """No more run than there are slots; at most one prompt is under way at a replica, the first of its queue, and those
    that were preempted wait before all others; no request is unfinished with all its tokens."""
    if (engines.running() > engines.model.max_num_seqs).any():
        yield f"running are {engines.running().tolist()}, at most {engines.model.max_num_seqs} may"
    queue = engines.queue
    if (np.diff(queue["replica"]) < 0).any():
        yield "the queue is not in the order of replicas"
    started = np.isfinite(queue["started_s"])
    first = np.concatenate(([True], np.diff(queue["replica"]) != 0))[: len(queue)]
    if (started & ~first).any():
        yield "a prompt is under way that is not the first of its queue"
    again = queue["preempted"] > 0
    if (again[1:] & ~again[:-1] & ~first[1:]).any():
        yield "a request that was preempted waits behind one that was not"
    if (queue["generated"] >= queue["output"]).any():
        yield "a request waits that has all its tokens"
