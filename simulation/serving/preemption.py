"""Who gives its KV cache back when a replica's blocks run out: the newest, as in vLLM."""

import numpy as np

from simulation.arrays import Ints
from simulation.serving.decoding import Decoding
from simulation.serving.rows import Groups, Rows, blocks_of, joined


def newest(decoding: Decoding, queue: Rows, excess: Ints) -> tuple[Ints, Ints]:
    """The slots, and the positions in `queue` of prompts under way, that free `excess` blocks (replicas,) or more:
    those that started last, no more than needed."""
    over = excess > 0
    slots = decoding.held_by(over)
    started = np.flatnonzero(np.isfinite(queue["started_s"]) & over[queue["replica"]])
    decodes, prompts = decoding.look(slots), queue.take(started)
    rows = joined(decodes, prompts)
    # A prompt under way holds the place of the token that its end yields.
    tokens = rows["input"] + rows["generated"] + (np.arange(len(rows)) >= len(slots))
    order = np.lexsort((-rows["started_s"], rows["replica"]))
    rows, need = rows.take(order), blocks_of(tokens[order])
    freed = Groups(rows["replica"], len(excess)).running_sum(need) - need
    victims = order[freed < excess[rows["replica"]]]
    is_slot = victims < len(slots)
    return slots[victims[is_slot]], started[victims[~is_slot] - len(slots)]
