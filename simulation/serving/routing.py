"""Which replica takes which request: the one with the fewest in flight, for a whole batch at a time."""

import numpy as np

from simulation.arrays import Ints


def least_loaded(inflight: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The replica (its position in `inflight`) of each of `count` requests, in their order.

    As if each went to the replica with the fewest in flight at that moment; equals are taken in an order drawn once
    for the batch. Replicas of one endpoint hold equally many, so fewest in flight is fewest by capacity.
    """
    order = rng.permutation(len(inflight))
    order = order[np.argsort(inflight[order], kind="stable")]
    held = inflight[order]
    # To lift the k least loaded to the level of the next takes held[k] * k - sum of theirs.
    lifting = held * np.arange(len(held)) - (np.cumsum(held) - held)
    sharing = int(np.searchsorted(lifting, count, side="right"))
    level, rest = divmod(count + int(held[:sharing].sum()), sharing)
    given = level - held[:sharing]
    given[:rest] += 1
    place = np.repeat(np.arange(sharing), given)
    nth = np.arange(count) - np.repeat(np.cumsum(given) - given, given)
    when = np.lexsort((place, held[place] + nth))
    taken: Ints = order[place[when]]
    return taken
