"""When time may pass without anything to read."""

from faust.types import TP

from streams.shell.batching_consumer import ReadState
from streams.shell.read_progress import ReadProgress
from streams.shell.tick_outbox import PENDING_TICKS_MAX, TRANSACTION_TICKS_MAX, TickOutbox

REQUESTS, POLICIES = TP("t.requests", 0), TP("t.policies", 0)


def look(progress: ReadProgress) -> float | None:
    progress.look()
    return progress.read_until_s()


class Consumer:
    """What a consumer says about two topics, and a clock."""

    def __init__(self) -> None:
        self.states = {REQUESTS: ReadState(5, 5, 99.0), POLICIES: ReadState(2, 2, 99.0)}
        self.unread = 0
        self.now_s = 100.0

    def progress(self) -> ReadProgress:
        made = ReadProgress(
            {"requests": REQUESTS, "policies": POLICIES},
            lambda tp: self.states[tp],
            lambda tp: self.unread,
            lambda: self.now_s,
        )
        made.restart({"requests": 5, "policies": 2})
        return made

    def fetch(self, asked_s: float, **ends: int) -> None:
        for tp in self.states:
            position = self.states[tp].position
            self.states[tp] = ReadState(position, ends.get(tp.topic[2:], position), asked_s)


def test_a_fetch_from_before_the_rewind_says_nothing_about_ends() -> None:
    consumer = Consumer()
    progress = consumer.progress()
    consumer.now_s = 101.0
    assert look(progress) is None


def test_time_passes_up_to_the_moment_the_fetch_was_asked_for() -> None:
    consumer = Consumer()
    progress = consumer.progress()
    consumer.now_s = 100.2
    assert look(progress) is None
    consumer.fetch(100.1)
    consumer.now_s = 100.4
    assert look(progress) == 100.1
    consumer.now_s = 100.6
    assert look(progress) == 100.1, "no new fetch: the broker may be away"


def test_an_answer_that_waited_in_a_process_that_stood_still_says_nothing_of_now() -> None:
    consumer = Consumer()
    progress = consumer.progress()
    consumer.now_s = 130.0
    assert look(progress) is None
    consumer.fetch(100.5)
    consumer.now_s = 130.2
    assert look(progress) == 100.5


def test_time_stands_while_a_topic_is_behind_its_end_or_a_batch_is_on_its_way() -> None:
    consumer = Consumer()
    progress = consumer.progress()
    consumer.fetch(100.5, requests=9)
    consumer.now_s = 101.0
    assert look(progress) is None
    consumer.states[REQUESTS] = ReadState(9, 9, 100.8)
    consumer.unread = 1
    assert look(progress) is None
    consumer.unread = 0
    assert look(progress) == 100.5, "the other topic's newest fetch was asked for then"


def test_what_is_settled_waits_for_the_transaction_of_its_ticks() -> None:
    outbox = TickOutbox()
    assert outbox.settled({"requests": 3}) == {"requests": 3}
    outbox.add(["tick"])  # type: ignore[list-item]  # the outbox does not look inside
    assert outbox.settled({"requests": 4}) == {}
    assert len(outbox.take({"requests": 4})) == 1
    assert outbox.settled({"requests": 6}) == {}
    outbox.add(["next"])  # type: ignore[list-item]  # as above
    outbox.written()
    assert outbox.settled({"requests": 6}) == {"requests": 4}


def test_reading_waits_while_too_many_ticks_are_unwritten() -> None:
    outbox = TickOutbox()
    outbox.add(["tick"] * (PENDING_TICKS_MAX + 1))  # type: ignore[list-item]  # as above
    assert not outbox.has_room.is_set()
    assert len(outbox.take({})) == TRANSACTION_TICKS_MAX
    outbox.written()
    assert outbox.has_room.is_set()
