"""Messages of several topics are read in the order of time, to the second.

requests  0 0 1 1 2 2 3 3 ...        read: requests 0 0, targets 0, requests 1 1 2 2 3 3, targets 3, ...
targets   0           3
"""

from aiokafka import ConsumerRecord

from streams.shell.merge_order import MergeOrder

BOTH = ("requests", "targets")


def messages(topic: str, *seconds: float) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(topic, 0, offset, int(second * 1000), 0, None, b"", None, 0, 0, ())
        for offset, second in enumerate(seconds)
    ]


def taken(order: MergeOrder, *at_end: str) -> list[tuple[str, list[float]]]:
    found = []
    while (piece := order.take(dict.fromkeys(at_end, 0.0))) is not None:
        found.append((piece[0], [message.timestamp / 1000 for message in piece[1]]))
    return found


def test_nothing_waits_when_the_other_topics_are_at_their_ends() -> None:
    order = MergeOrder(BOTH)
    order.add("requests", messages("requests", 10, 20, 30), 0, 0.0)
    assert taken(order, "targets") == [("requests", [10, 20, 30])]
    assert len(order) == 0


def test_a_small_topic_does_not_run_ahead_of_a_large_one() -> None:
    order = MergeOrder(BOTH)
    order.add("targets", messages("targets", 0, 3, 60), 0, 0.0)
    assert taken(order, "targets") == [], "nothing of the requests has been seen yet"
    order.add("requests", messages("requests", 0.1, 0.2, 1, 2, 3), 0, 0.0)
    assert taken(order, "targets") == [
        ("requests", [0.1, 0.2]),
        ("targets", [0]),
        ("requests", [1, 2, 3]),
        ("targets", [3]),
    ]
    assert order.held("targets") == 1
    assert taken(order, "targets", "requests") == [("targets", [60])]


def test_one_second_is_not_cut_between_topics() -> None:
    order = MergeOrder(BOTH)
    order.add("requests", messages("requests", 5.1, 5.9), 0, 0.0)
    order.add("targets", messages("targets", 5.5), 0, 0.0)
    assert sorted(taken(order)) == [("requests", [5.1, 5.9]), ("targets", [5.5])]


def test_a_topic_of_which_nothing_was_seen_holds_all_others_back() -> None:
    order = MergeOrder(BOTH)
    order.add("requests", messages("requests", 5), 0, 0.0)
    assert taken(order) == []
    order.clear()
    assert len(order) == 0


def test_an_end_from_before_a_process_stood_still_lets_nothing_newer_pass() -> None:
    order = MergeOrder(BOTH)
    order.add("targets", messages("targets", 24.8), 0, 24.3)
    assert order.take({"requests": 21.4}) is None, "requests of 22 are written, and were not fetched yet"
    order.add("requests", messages("requests", 22.3, 23.3, 24.1), 0, 24.9)
    at_end = {"targets": 24.3}
    assert order.take(at_end) == ("requests", messages("requests", 22.3, 23.3, 24.1))
    taken_next = order.take(at_end | {"requests": 24.9})
    assert taken_next is not None
    assert taken_next[0] == "targets"


def test_what_one_fetch_brings_waits_for_no_other() -> None:
    order = MergeOrder(BOTH)
    order.add("requests", messages("requests", 25.1), 0, 24.9)
    assert order.take({"targets": 24.8}) is None
    assert order.take({"targets": 24.9}) == ("requests", messages("requests", 25.1))


def test_an_end_of_the_same_second_is_late_enough() -> None:
    order = MergeOrder(BOTH)
    order.add("requests", messages("requests", 24.9), 0, 24.8)
    assert order.take({"targets": 24.1}) == ("requests", messages("requests", 24.9))
