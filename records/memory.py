"""What a controller remembers of one endpoint between ticks: one record in the compacted topic `controllers`.

It is written in the transaction of the tick it belongs to. With it and the telemetry since, a new owner of the
partition goes on exactly where the old one stopped.
"""

import msgspec

from records.fields import Name, Second
from records.scaling_memory import ScalingMemory
from records.supply_memory import SupplyMemory


class ControllerMemory(msgspec.Struct, frozen=True, kw_only=True):
    """`at_s` is the last tick that was decided or skipped; `offsets` are those of that tick's signal."""

    endpoint: Name
    at_s: Second
    offsets: dict[str, int]
    scaling: ScalingMemory
    supply: SupplyMemory
