"""What of the libraries' talk reaches the log: repeats are counted, not written."""

import json
import logging
import subprocess
import sys

import pytest

from headrace.log_repeats import EVERY_S, FORGOTTEN_S, RepeatsFilter, SameEventsFilter

REFUSED = "Unable connect to node with id %s: %s"
NO_COORDINATOR = ("Group Coordinator Request failed: %s", "[Error 15] GroupCoordinatorNotAvailableError")


def told(filtered: RepeatsFilter, at_s: float, message: str, *arguments: str, name: str = "aiokafka") -> int | None:
    """How many were left out before this record, if it is let through; else null."""
    record = logging.LogRecord(name, logging.ERROR, "", 0, message, arguments, None)
    record.created = at_s
    return getattr(record, "repeated", 0) if filtered.filter(record) else None


def test_one_line_of_a_kind_in_a_period_with_a_count() -> None:
    filtered = RepeatsFilter("aiokafka")
    found = [told(filtered, 1000 + tenth / 10, REFUSED, str(tenth), "refused") for tenth in range(251)]
    assert found[0] == 0
    assert [(tenth, count) for tenth, count in enumerate(found) if count] == [(100, 99), (200, 99)]


def test_kinds_are_counted_apart_and_other_loggers_not_at_all() -> None:
    filtered = RepeatsFilter("aiokafka")
    assert told(filtered, 1, REFUSED, "0", "refused") == 0
    assert told(filtered, 2, "Unable to update metadata from %s", "[0]") == 0
    assert told(filtered, 3, REFUSED, "0", "refused", name="aiokafka.consumer") == 0
    assert told(filtered, 4, REFUSED, "0", "refused") is None
    assert [told(filtered, 5, "partition_failed", name="streams") for _ in range(3)] == [0, 0, 0]


def test_after_silence_a_kind_begins_anew() -> None:
    filtered = RepeatsFilter("aiokafka")
    assert told(filtered, 0, REFUSED, "0", "refused") == 0
    assert told(filtered, 1, REFUSED, "0", "refused") is None
    assert told(filtered, 2 + FORGOTTEN_S, REFUSED, "0", "refused") == 0


def test_a_coordinator_that_is_not_there_yet_is_told_only_if_it_stays_away() -> None:
    filtered = RepeatsFilter("aiokafka")
    assert told(filtered, 0, *NO_COORDINATOR) is None
    assert told(filtered, 1, NO_COORDINATOR[0], "NodeNotReadyError") == 0
    assert told(filtered, EVERY_S, *NO_COORDINATOR) == 1


def test_of_the_same_event_one_in_a_period_with_a_count() -> None:
    filtered = SameEventsFilter()

    def said(at_s: float, **fields: object) -> object:
        event = {"event": "brokers_unreachable", "timestamp": str(at_s), **fields}
        record = logging.LogRecord("sinks", logging.WARNING, "", 0, event, (), None)
        record.created = at_s
        return event.get("repeated", 0) if filtered.filter(record) else None

    found = [said(half / 2, topic="signals") for half in range(50)]
    assert [(half, count) for half, count in enumerate(found) if count is not None] == [(0, 0), (20, 19), (40, 19)]
    assert said(25.0, topic="forecasts") == 0


PROGRAM = """
import logging
import structlog
from headrace.logs import configure_logs
from headrace.settings import ProcessSettings
class Example(ProcessSettings):
    section = "example"
configure_logs(Example(log_level="{level}", log_format="json"), "example")
for number in range(50):
    logging.getLogger("aiokafka.consumer").warning("Failed fetch from %s", number)
for number in range(50):
    structlog.get_logger("sinks").warning("brokers_unreachable", topic=f"t{{number % 2}}", error="refused")
    structlog.get_logger("sinks").info("written", rows=1)
logging.getLogger("mode.timers").warning("Timer %s is overlapping", "x")
from streams.shell.faust_app import HeadraceApp, SilentProducer
from streams.shell.batching_consumer import BatchingConsumer, ConsumerThread
for service in (HeadraceApp, SilentProducer, BatchingConsumer, ConsumerThread):
    assert service.mundane_level == "debug"
"""


@pytest.mark.parametrize(
    ("level", "fetches", "unreachable", "timers"), [("info", 1, ["t0", "t1"], 0), ("debug", 50, ["t0", "t1"] * 25, 1)]
)
def test_a_process_leaves_repeats_out_unless_asked_for_all(
    level: str, fetches: int, unreachable: list[str], timers: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level)], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    events = [line["event"] for line in lines]
    assert [line["topic"] for line in lines if line["event"] == "brokers_unreachable"] == unreachable
    assert events.count("written") == 50, "what is no warning is told each time"
    assert len([event for event in events if event.startswith("Failed fetch")]) == fetches
    assert len([event for event in events if event.startswith("Timer")]) == timers
