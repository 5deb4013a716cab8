"""What came of things: an actuator's outcomes, and records that could not be read."""

import msgspec

from records.enums import OutcomeResult
from records.fields import Count, Digest, Instant, Name, Natural, Second


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an actuator did with one decision; `observed` is the target's `spec_replicas` after the attempt.

    `at_s` is when it was done, `decision_at_s` the tick of the decision: an actuator that starts again finds there how
    far the one before it had come.
    """

    decision_id: Digest
    decision_topic: Name
    endpoint: Name
    actuator: Name
    at_s: Second
    result: OutcomeResult
    retryable: bool = False
    detail: str = ""
    observed: Count | None = None
    decision_at_s: Second | None = None
    received_s: Instant | None = None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, a row of a frame or a line of a replay file that is no record, and why.

    `row` is the row inside a frame (0 for a message of one record). `bytes` is base64 of the first 64 KiB.
    `offset` is the message's Kafka offset, in a replay the line's number, counted from 1, with the file in
    `source_topic` as `file:NAME`. `reason` is a BadInput; `detail` says it in words, with the allowed range.
    """

    source_topic: str
    partition: int
    offset: Natural
    row: Natural
    at_s: Second
    reason: str
    field: str | None = None
    value: str | None = None
    bytes: str | None = None
    detail: str | None = None
