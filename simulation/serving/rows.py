"""A request that does not decode yet, as a row of a table; tables are sorted by replica, then by who comes first."""

import numpy as np
from numpy.typing import NDArray

from simulation.arrays import Floats, Ints
from simulation.engine_model import BLOCK_TOKENS, EngineModel
from simulation.traffic import Arrivals

Rows = NDArray[np.void]

ROW = np.dtype(
    [
        ("replica", np.int32),  # position among the replicas; -1: none yet
        ("input", np.int32),  # prompt tokens
        ("cached", np.int32),  # of these, found in the prefix cache
        ("output", np.int32),  # tokens that will have been generated at the end
        ("generated", np.int32),  # tokens generated before now (by one that was preempted)
        ("preempted", np.int32),  # how often
        ("fresh", np.bool_),  # came in this sub-step
        ("arrived_s", np.float64),  # at the replica, s since the first second
        ("deadline_s", np.float64),  # its client goes away
        ("ready_s", np.float64),  # its prefill can begin
        ("started_s", np.float64),  # its prefill began; infinite: it waits
        ("first_token_s", np.float64),  # NaN: not yet
        ("work_s", np.float64),  # engine seconds that its prefill still takes
    ],
    align=True,
)
_WHOLE = np.dtype((np.void, ROW.itemsize))
"""A row as so many bytes: copied at once, where numpy would copy field by field. Indexing is slow in the same way;
`take` and `compress` are not."""


REPLICAS_MAX = 2**15 - 1
"""Rows are sorted by 16 bits of their replica."""


def no_rows() -> Rows:
    """A table without requests."""
    return np.zeros(0, ROW)


def rows_of(arrivals: Arrivals, second: int, model: EngineModel) -> Rows:
    """The requests of a second; those longer than the model's context are cut to it."""
    rows = np.zeros(len(arrivals), ROW)
    rows["replica"] = -1
    rows["input"] = np.minimum(arrivals.input_tokens, model.context_tokens_max - 1)
    rows["cached"] = np.minimum(arrivals.cached_tokens, rows["input"] - 1)
    rows["output"] = np.minimum(arrivals.output_tokens, model.context_tokens_max - rows["input"])
    rows["arrived_s"] = second + arrivals.offset_s
    rows["deadline_s"] = rows["arrived_s"] + arrivals.patience_s
    rows["started_s"] = np.inf
    rows["first_token_s"] = np.nan
    set_work(rows, model)
    return rows


def set_work(rows: Rows, model: EngineModel) -> None:
    """The prefill is all still to do: after a preemption also of what was generated."""
    rows["work_s"] = model.prefill_s((rows["input"] + rows["generated"] - rows["cached"]).astype(float))


def blocks_of(tokens: Ints) -> Ints:
    """Blocks of KV cache that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


def joined(*tables: Rows) -> Rows:
    """The tables' rows, one after the other."""
    rows: Rows = np.concatenate([np.ascontiguousarray(table).view(_WHOLE) for table in tables]).view(ROW)
    return rows


def put(rows: Rows, at: Ints, table: Rows) -> None:
    """Write `rows` to positions `at` of the flattened `table`."""
    table.reshape(-1).view(_WHOLE)[at] = np.ascontiguousarray(rows).view(_WHOLE)


def counted(replica: NDArray[np.integer], replicas: int, amounts: NDArray[np.generic] | None = None) -> Ints:
    """For each of `replicas` how often it is in `replica`, or the sum of the whole `amounts` that are its own."""
    return np.bincount(replica, weights=amounts, minlength=replicas).astype(np.int64)


def summed(replica: NDArray[np.int32], amounts: NDArray[np.generic], replicas: int) -> Floats:
    """For each of `replicas` the sum of the `amounts` that are its own."""
    # Of nothing at all, bincount makes whole numbers, whatever the weights.
    return np.bincount(replica, weights=amounts, minlength=replicas).astype(np.float64, copy=False)


class Groups:
    """A sorted table's requests by replica: `counts` and `offsets` (replicas,), `replica` and `rank` (rows,)."""

    def __init__(self, replica: NDArray[np.int32], replicas: int) -> None:
        self.replica = replica
        self.counts: Ints = np.bincount(replica, minlength=replicas)
        self.offsets: Ints = np.cumsum(self.counts) - self.counts
        self.rank: Ints = np.arange(len(replica)) - self.offsets[replica]

    def running_sum(self, values: NDArray[np.generic]) -> Floats:
        """For each row the sum of its replica's values up to it."""
        sums = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
        return sums[1:] - sums[self.offsets][self.replica]

    def running_max(self, values: Floats, span: float) -> Floats:
        """For each row the largest of its replica's values up to it; all values within `span` of each other."""
        shift = self.replica * (2 * span + 1.0)
        largest: Floats = np.maximum.accumulate(values + shift) - shift
        return largest
