"""Which incarnations of a replica were seen, in the order in which their first records were read."""

import msgspec

from records.fields import Label, Second


class EpochSeen(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`first_s` and `last_s` are the earliest and the latest `at_s` of the epoch; `reporter` is null but for
    `replica: ""`, where each has epochs of its own."""

    replica: Label
    epoch: Label
    first_s: Second
    last_s: Second
    reporter: Label | None = None
