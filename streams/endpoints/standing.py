"""What ticks of an endpoint have in common as long as it stands: every replica is ready, was heard a moment ago, and is
spoken of by itself alone. Nearly all endpoints stand, nearly always."""

from dataclasses import dataclass

from records.enums import MetricName
from records.policy import EndpointPolicy
from records.signals import SupplySignal
from records.supply_memory import SupplyMemory
from streams.endpoints.block_store import BlockStore
from streams.endpoints.ready import Roster
from streams.windows.plain import PlainSeries
from streams.windows.windows import Windows


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Endpoints with the same windows and metrics, which are read together: `fields` are the scalars that are read,
    `names` what is added up of them in blocks, `valued` those of them that values and coverage are made of; `keys` the
    metrics' names in a signal."""

    requests: Windows
    store: BlockStore
    up_s: int
    down_s: int
    metrics: tuple[MetricName, ...]
    keys: tuple[str, ...]
    names: tuple[str, ...]
    valued: tuple[str, ...]
    fields: tuple[str, ...]


@dataclass(slots=True, eq=False)
class Standing:
    """One endpoint's, since a tick at which it was read alone. `changes` is that of its supply when `supply` and
    `memory` were made of it; `heard_s` the second before its last tick: all were heard in it."""

    kind: Kind
    policy: EndpointPolicy
    series: PlainSeries
    roster: Roster
    changes: int
    supply: SupplySignal
    memory: SupplyMemory
    heard_s: int
