"""What became of the samples that windows were given."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from records.epoch_memory import EpochSeen


@dataclass(frozen=True, kw_only=True)
class AddReport:
    """`accepted` samples were new, `replaced` had a later seq than the one there, `duplicate` had not, `late` were
    older than the span, `unattributed` came from an engine and name no replica.

    `late_rows` int64: which samples of the batch were late. `new_epochs`: incarnations that were first heard, of
    replicas that had one before.
    """

    accepted: int
    replaced: int
    duplicate: int
    late: int
    unattributed: int
    late_rows: NDArray[np.int64]
    new_epochs: tuple[EpochSeen, ...]

    def at(self, rows: NDArray[np.int64]) -> "AddReport":
        """The same of samples that are those at `rows` of another batch."""
        return replace(self, late_rows=rows[self.late_rows]) if len(self.late_rows) else self

    def then(self, later: "AddReport") -> "AddReport":
        """Both together, of one batch."""
        return AddReport(
            accepted=self.accepted + later.accepted,
            replaced=self.replaced + later.replaced,
            duplicate=self.duplicate + later.duplicate,
            late=self.late + later.late,
            unattributed=self.unattributed + later.unattributed,
            late_rows=np.concatenate((self.late_rows, later.late_rows)),
            new_epochs=self.new_epochs + later.new_epochs,
        )
