"""A producer whose records wait, and are not acknowledged, does not get through."""

from headrace.kafka_reach import SILENCE_MAX_S
from headrace.producer_watch import Deliveries
from wire.producer import ProducerCounts


class Moment:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def test_what_waits_and_is_not_acknowledged_is_told_and_forgotten_with_the_next_acknowledgement() -> None:
    moment = Moment()
    deliveries = Deliveries(moment)
    assert deliveries.why_not(ProducerCounts(sent=5, waiting=1)) is None
    for _ in range(int(SILENCE_MAX_S)):
        moment.s += 1.0
        assert deliveries.why_not(ProducerCounts(sent=5, waiting=9)) is None
    moment.s += 0.5
    assert deliveries.why_not(ProducerCounts(sent=5, waiting=9)) == "nothing was acknowledged for more than 4 s"
    assert deliveries.why_not(ProducerCounts(sent=6, waiting=8)) is None


def test_where_nothing_waits_nothing_is_missed() -> None:
    moment = Moment()
    deliveries = Deliveries(moment)
    assert deliveries.why_not(ProducerCounts(sent=5)) is None
    moment.s += 100.0
    assert deliveries.why_not(ProducerCounts(sent=5)) is None
    assert deliveries.why_not(ProducerCounts(sent=5, waiting=1)) is None, "it has only just been handed over"
