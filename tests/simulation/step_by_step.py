"""One replica's engine, step by step and request by request: slow, and plain enough to be believed."""

from collections import deque
from dataclasses import dataclass
from itertools import chain

import numpy as np

from simulation.engine_model import EngineModel


@dataclass(eq=False)
class Request:
    """`prefilled` and `generated` in tokens; times in s."""

    arrived_s: float
    prompt: int
    output: int
    prefilled: int = 0
    generated: int = 0
    started_s: float = 0.0
    first_token_s: float = 0.0
    ended_s: float = 0.0


def serve(model: EngineModel, requests: list[Request]) -> None:
    """Fill in the times of `requests`, in order of their arrival, with room for all in the KV cache.

    A step takes in prompts in their order, up to `step_tokens`, and gives each sequence that decodes a token.
    """
    coming, running = deque(requests), list[Request]()
    now_s = 0.0
    while coming or running:
        if not running:
            now_s = max(now_s, coming[0].arrived_s)
        decoding = [one for one in running if one.prefilled == one.prompt]
        budget, prefill_s = model.step_tokens - len(decoding), 0.0
        begun = [one for one in running if one.prefilled < one.prompt]
        while coming and coming[0].arrived_s <= now_s and len(running) < model.max_num_seqs and budget > _left(begun):
            begun.append(coming.popleft())
            running.append(begun[-1])
            begun[-1].started_s = now_s
        for one in begun:
            taken = min(budget, one.prompt - one.prefilled)
            prefill_s += float(model.prefill_s(np.array(float(one.prompt)))) * taken / one.prompt
            one.prefilled += taken
            budget -= taken
        context = float(sum(one.prompt + one.generated for one in decoding))
        step_s = float(model.step_s(np.array(float(len(decoding))), np.array(context))) if decoding else 0.0
        now_s += prefill_s + step_s
        for one in chain(decoding, (one for one in begun if one.prefilled == one.prompt)):
            one.generated += 1
            if one.generated == 1:
                one.first_token_s = now_s
            one.ended_s = now_s
        running = [one for one in running if one.generated < one.output]


def _left(begun: list[Request]) -> int:
    return sum(one.prompt - one.prefilled for one in begun)
