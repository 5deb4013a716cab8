"""Time asleep is nobody's silence: /readyz does not blame Kafka for what this process did not hear."""

import pytest

from headrace.kafka_reach import SILENCE_MAX_S, KafkaReach
from headrace.producer_watch import Deliveries
from headrace.silence import LOOK_MAX_S, Silence
from wire.kafka import KafkaAccess
from wire.producer import ProducerCounts


class Moment:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def moment() -> Moment:
    return Moment()


def test_time_between_looks_counts_as_it_passes(moment: Moment) -> None:
    silence = Silence(moment)
    for look in range(1, 9):
        moment.s += 0.5
        assert silence.look() == pytest.approx(0.5 * look)
    silence.hear()
    assert silence.look() == 0.0


def test_a_long_gap_between_looks_counts_as_one_look(moment: Moment) -> None:
    silence = Silence(moment)
    moment.s += 1.0
    assert silence.look() == 1.0
    moment.s += 3600.0
    assert silence.look() == pytest.approx(1.0 + LOOK_MAX_S)
    moment.s += 1.0
    assert silence.look() == pytest.approx(2.0 + LOOK_MAX_S), "awake again, it goes on"


def test_kafka_is_not_blamed_for_a_pause_of_this_process_and_is_for_its_own(moment: Moment) -> None:
    reach = KafkaReach(KafkaAccess(bootstrap="kafka:9092"), "policies", moment)
    moment.s += 60.0
    assert reach.why_not() is None
    while moment.s < 160.0 + SILENCE_MAX_S:
        moment.s += 1.0
        why_not = reach.why_not()
    assert why_not == "no answer from kafka:9092 for 6 s"


def test_deliveries_are_not_missed_for_a_pause_of_this_process(moment: Moment) -> None:
    deliveries = Deliveries(moment)
    waiting = ProducerCounts(sent=5, waiting=3)
    assert deliveries.why_not(waiting) is None
    moment.s += 60.0
    assert deliveries.why_not(waiting) is None
    for _ in range(4):
        moment.s += 1.0
        why_not = deliveries.why_not(waiting)
    assert why_not is not None
