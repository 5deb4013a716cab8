"""Turns the effects of ticks into the records of one transaction."""

from collections.abc import Iterable, Sequence

from streams.shell.record_batches import OutgoingRecord
from streams.shell.tick_source import Effects
from wire.codec import encode
from wire.topics import TopicNames


def transaction_records(effects: Sequence[Effects], names: TopicNames, partition: int) -> list[OutgoingRecord]:
    """Signals and decisions of every tick, and of each endpoint the memory after its last one.

    The memory goes to the partition that the ticks were read from: whoever owns it next looks there.
    """
    records = list(_tick_records(effects, names))
    memories = {effect.memory.endpoint: effect.memory for effect in effects}
    controllers = names.real("controllers")
    records.extend(
        OutgoingRecord(controllers, endpoint.encode(), encode(memory), partition)
        for endpoint, memory in memories.items()
    )
    return records


def _tick_records(effects: Iterable[Effects], names: TopicNames) -> Iterable[OutgoingRecord]:
    signals, scaling = names.real("signals"), names.real("decisions.scaling")
    for effect in effects:
        key = effect.signal.endpoint.encode()
        yield OutgoingRecord(signals, key, encode(effect.signal))
        for decision in effect.decisions:
            yield OutgoingRecord(scaling, key, encode(decision))
