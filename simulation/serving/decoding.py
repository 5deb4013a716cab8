"""The sequences that decode: one array element a replica and slot, all advanced at once.

A replica counts its decoding steps (its mark, a real number). A sequence that began at mark m with g tokens has
`floor(mark - (m - g))` tokens now: the number that is subtracted is its origin, and nothing else changes as it decodes.
"""

import numpy as np

from simulation.arrays import Floats, Ints, Mask
from simulation.engine_model import BLOCK_TOKENS, EngineModel
from simulation.serving.rows import ROW, Rows, put

_HOT = ("_origin", "_generated", "_input", "_output", "_deadline_s", "_rows", "mark", "count", "context", "blocks")


class Decoding:
    """Slots (replicas, max_num_seqs). A free one has output and origin infinite and all else 0, so that arithmetic over
    all slots leaves it as it is.

    Of each replica, as of the last `measure`: `count` sequences, `context` tokens and `blocks` of KV cache.
    """

    def __init__(self, model: EngineModel) -> None:
        self.model = model
        self.slots = model.max_num_seqs
        shape = (0, self.slots)
        self._origin, self._generated, self._input = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._output, self._deadline_s = np.zeros(shape), np.zeros(shape)
        self._rows: Rows = np.zeros(shape, ROW)
        self.mark = np.zeros(0)
        self.count = np.zeros(0, np.int64)
        self.context = np.zeros(0)
        self.blocks = np.zeros(0, np.int64)

    def add(self) -> None:
        """One more replica, at the end."""
        for name in _HOT:
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros((1, *old.shape[1:]), old.dtype))))
        for array in (self._origin, self._output, self._deadline_s):
            array[-1] = np.inf

    def drop(self, replica: int) -> None:
        """One replica less, with all that it holds."""
        for name in _HOT:
            setattr(self, name, np.delete(getattr(self, name), replica, axis=0))
        self._rows["replica"] -= self._rows["replica"] > replica

    def advance(self, steps: Floats) -> tuple[Ints, Ints, Floats]:
        """All replicas decode `steps`: the tokens that each made, the slots that ended (positions in the flattened
        arrays), and when, as a fraction of `steps`."""
        self.mark += steps
        now = self.mark[:, None] - self._origin
        np.floor(now, out=now)
        np.minimum(now, self._output, out=now)
        np.maximum(now, self._generated, out=now)
        made = now.sum(axis=1) - self._generated.sum(axis=1)
        self._generated = now
        ended = np.flatnonzero(now >= self._output)
        replica = ended // self.slots
        over = self.mark[replica] - self._origin.ravel()[ended] - self._output.ravel()[ended]
        return made.astype(np.int64), ended, 1 - over / steps[replica]

    def due(self, now_s: float) -> Ints:
        """The slots whose clients have gone by `now_s`."""
        return np.flatnonzero(self._deadline_s <= now_s)

    def place(self, rows: Rows, rank: Ints, origin: Floats) -> None:
        """Requests, sorted by replica, `rank` within it, into its free slots."""
        free = np.flatnonzero(np.isinf(self._output))
        begins = np.searchsorted(free, rows["replica"].astype(np.int64) * self.slots)
        slot = free[begins + rank]
        self._origin.ravel()[slot] = origin
        self._generated.ravel()[slot] = rows["generated"]
        self._input.ravel()[slot] = rows["input"]
        self._output.ravel()[slot] = rows["output"]
        self._deadline_s.ravel()[slot] = rows["deadline_s"]
        put(rows, slot, self._rows)

    def take(self, slots: Ints) -> Rows:
        """The requests in `slots`, with what they have generated; the slots become free."""
        rows = self.look(slots)
        for array in (self._origin, self._output, self._deadline_s):
            array.ravel()[slots] = np.inf
        for array in (self._generated, self._input):
            array.ravel()[slots] = 0
        return rows

    def look(self, slots: Ints) -> Rows:
        """The requests in `slots`, with what they have generated."""
        rows: Rows = self._rows.reshape(-1).take(slots)
        rows["generated"] = self._generated.ravel()[slots]
        return rows

    def held_by(self, replicas: Mask) -> Ints:
        """The taken slots of the replicas that are marked."""
        taken: Ints = np.flatnonzero(np.isfinite(self._output) & replicas[:, None])
        return taken

    def taken(self) -> Ints:
        """How many slots of each replica are taken, at this moment."""
        taken: Ints = np.count_nonzero(self._input, axis=1)
        return taken

    def measure(self) -> None:
        """Renew count, context and blocks."""
        held = self._generated + self._input
        self.context = held.sum(axis=1)
        self.count = self.taken()
        held /= BLOCK_TOKENS
        np.ceil(held, out=held)
        self.blocks = held.sum(axis=1).astype(np.int64)

    def tokens(self) -> Ints:
        """Generated tokens of the sequences in each replica's slots."""
        tokens: Ints = self._generated.sum(axis=1).astype(np.int64)
        return tokens
