"""How an engine's time in a sub-step is divided, and how fast it decodes in what prefill leaves."""

from dataclasses import dataclass

import numpy as np

from simulation.arrays import Floats
from simulation.engine_model import EngineModel
from simulation.serving.decoding import Decoding
from simulation.serving.rows import Rows, summed


def step_of_now(decoding: Decoding) -> Floats:
    """Seconds of a step of what decodes now, (replicas,), at full speed; 0 where nothing does."""
    return np.where(decoding.count > 0, decoding.model.step_s(decoding.count.astype(float), decoding.context), 0.0)


def prefill_share(model: EngineModel, step_s: Floats) -> Floats:
    """The part of an engine's time that prefill gets while there is any, (replicas,): all where nothing decodes; else
    each step takes in `step_tokens` of prompts and gives each sequence a token."""
    return model.chunk_s / (model.chunk_s + step_s)


def ready_after_s(mark: Floats, elapsed_s: Floats, step_s: Floats) -> Floats:
    """How long what comes `elapsed_s` after the mark was read waits for the engine, all of one shape: the rest of the
    step under way; and its first token comes at the end of a step that decodes as well, which is put before it."""
    at = mark + elapsed_s / np.where(step_s > 0, step_s, 1.0)
    return (np.ceil(at) - at + 1) * step_s


@dataclass(frozen=True, eq=False, kw_only=True)
class Pace:
    """Of one sub-step, shape (replicas,): seconds in which an engine decodes, seconds of one step (above 0 also where
    none decodes), and sequences times seconds."""

    decode_s: Floats
    step_s: Floats
    sequence_s: Floats


def decode_pace(decoding: Decoding, engine_s: Floats, joining: Rows, joining_s: Floats, slowness: Floats) -> Pace:
    """`engine_s` (replicas,) is left to decoding; `joining` requests decode in `joining_s` of it, the others in all.

    A step takes as long as that of the mean number of sequences, and of their mean context, while any decodes.
    """
    replicas = len(engine_s)
    replica = joining["replica"]
    decode_s = np.where(decoding.count > 0, engine_s, 0.0)
    np.maximum.at(decode_s, replica, joining_s)
    tokens = joining_s * (joining["input"] + joining["generated"])
    sequence_s = decoding.count * engine_s + summed(replica, joining_s, replicas)
    token_s = decoding.context * engine_s + summed(replica, tokens, replicas)
    window_s = np.where(decode_s > 0, decode_s, 1.0)
    step_s = decoding.model.step_s(sequence_s / window_s, token_s / window_s) * slowness
    return Pace(decode_s=decode_s, step_s=step_s, sequence_s=sequence_s)
