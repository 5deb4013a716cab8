"""Named moments of a partition's transaction, so that tests can kill a worker exactly there."""

from enum import StrEnum
from typing import Protocol


class FaultPoint(StrEnum):
    """In the order in which a partition passes them; those of a transaction at each one."""

    PRODUCER_STARTED = "producer_started"
    """The old owner is fenced; memory is not read yet."""
    REWOUND = "rewound"
    """Memory is restored and reading starts again; no tick was made yet."""
    SKIPPED = "skipped"
    """At any time between transactions: a backlog was left unread, and no tick tells of it yet."""
    TRANSACTION_BEGUN = "transaction_begun"
    RECORDS_SENT = "records_sent"
    """All records of the transaction are with the producer, acknowledged or not."""
    RECORDS_ACKNOWLEDGED = "records_acknowledged"
    """All records are in the log, the transaction is open."""
    COMMITTED = "committed"


class FaultPoints(Protocol):
    """Called at every point; may wait, raise, or never return."""

    async def reached(self, point: FaultPoint, partition: int) -> None: ...


class NoFaults:
    """What production uses."""

    async def reached(self, point: FaultPoint, partition: int) -> None:
        """Nothing happens."""
