"""What a controller remembers of one endpoint between ticks: one record in the compacted topic `controllers`.

It is written in the transaction of the tick it belongs to. With it and the telemetry since, a new owner of the
partition goes on exactly where the old one stopped.
"""

import msgspec

from records.epoch_memory import EpochSeen
from records.fields import Instant, Name, Natural, Second
from records.scaling_memory import ScalingMemory
from records.signals import SkippedRecords
from records.supply_memory import SupplyMemory


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """Ticks from `first_tick` on have signals alone; the first that is decided again is `newest_tick`."""

    first_tick: Second
    newest_tick: Second


class ControllerMemory(msgspec.Struct, frozen=True, kw_only=True):
    """`at_s` is the last tick that was made, decided or not; `offsets` and `processed_s` are those of its signal.

    `observed_from_s` is the event time from which the endpoint's telemetry has been read without a gap that the log
    could not fill; `catch_up` is there while ticks are skipped after an outage. `epochs` are
    in the order in which they were first read. `first_offsets` has, by topic, from where on records were taken for
    this chain of decisions. `skipped_records` are those of the last minutes: whoever reads these again leaves them out.
    `refused_s` is the newest second of which something had no room under the endpoint's limits. `gpus_from_offset` is
    that of the first GpuSample since the policy has asked for GPUs: those before it were not kept.
    """

    endpoint: Name
    at_s: Second
    offsets: dict[str, int]
    scaling: ScalingMemory
    supply: SupplyMemory
    processed_s: Instant = 0.0
    observed_from_s: Second = 0
    kept_from_s: Second = 0
    catch_up: CatchUp | None = None
    epochs: tuple[EpochSeen, ...] = ()
    first_offsets: dict[str, int] = {}
    skipped_records: tuple[SkippedRecords, ...] = ()
    refused_s: Second | None = None
    gpus_from_offset: Natural = 0

    def kept_from(self, topic: str) -> int:
        """The offset of a topic that fills windows, by its logical name, before which nothing was kept."""
        began = self.first_offsets.get(topic, 0)
        return max(began, self.gpus_from_offset) if topic == "telemetry.gpus" else began
