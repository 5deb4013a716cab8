"""What every demonstration is given: a Kafka, a folder of its own, a clock."""

from dataclasses import dataclass
from pathlib import Path

from headrace.clock import Clock
from headrace.settings import LocalKafkaSettings
from sinks.root import TableRoot
from wire.topics import TopicNames


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """What to run on, and where: `data` gets the broker, logs, policies and tables. `clock` is the real one."""

    kafka: LocalKafkaSettings
    data: Path
    clock: Clock

    @property
    def tables(self) -> TableRoot:
        return TableRoot(address=str(self.data / "tables"))

    @property
    def names(self) -> TopicNames:
        return self.kafka.topic_names
