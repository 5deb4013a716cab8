"""Finds a case where the user says it may be: in the tables, on Kafka, or in both."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.explain.case import Case, Move
from headrace.explain.selector import DecisionSelector, NoDecisionError
from headrace.explain.sources.kafka import KafkaCases
from headrace.explain.sources.tables import TableCases
from headrace.export_logs import EndpointLogs
from headrace.one_shot import ask_kafka
from records.decisions import ScalingDecision
from records.outcomes import Outcome
from sinks.errors import StorageError
from sinks.root import TableRoot
from wire.acls import Role, rights_of
from wire.kafka import KafkaAccess, open_consumer
from wire.topics import TopicNames

R = TypeVar("R")

FETCH_BYTES_MAX = 1024 * 1024
"""Many decisions are in it, and of each place that is probed no more is fetched."""
FETCH_WAIT_MS = 20
"""How long a fetch waits at a log's end. What is asked next waits behind it, on the same connection: with Kafka's
500 ms an explanation takes half a minute."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look; at least one of the two."""

    root: TableRoot | None = None
    access: KafkaAccess | None = None
    names: TopicNames = TopicNames()


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A case and where it came from; `problem` says why a place that was given could not be asked, else null."""

    case: Case
    from_tables: bool
    from_kafka: bool
    problem: str | None = None

    def words(self, places: Places) -> str:
        parts = []
        if self.from_tables and places.root is not None:
            parts.append(f"the tables in {places.root.address}")
        if self.from_kafka and places.access is not None:
            parts.append(f"Kafka at {places.access.bootstrap}")
        return f"From {' and '.join(parts)}."

    def as_object(self, places: Places) -> dict[str, Any]:
        """`used` has `tables`, `kafka` or both; the addresses are null where not given."""
        used = [name for name, is_used in (("tables", self.from_tables), ("kafka", self.from_kafka)) if is_used]
        return {
            "used": used,
            "tables": None if places.root is None else places.root.address,
            "bootstrap": None if places.access is None else places.access.bootstrap,
            "problem": self.problem,
        }


def find_case(wanted: DecisionSelector, places: Places) -> Found:
    """The case that is asked for: from the tables, and from Kafka where they have nothing newer.

    Raises CannotRunError: no such decision (USAGE), no tables (STORAGE), no Kafka (UNAVAILABLE), no topics
    (PARTITIONS). Where the tables have an answer, a Kafka that has none is a `problem` alone.
    """
    tables, missing = _open_tables(wanted, places), ""
    decision: ScalingDecision | None = None
    if tables is not None:
        try:
            decision = _read(lambda: tables.find(wanted))
        except NoDecisionError as error:
            missing = str(error)
    if tables is not None and decision is not None:
        is_past = wanted.decision_id is None and _read(lambda: tables.has_later(decision))
        if places.access is None or is_past:
            return Found(case=_read(lambda: tables.case(decision)), from_tables=True, from_kafka=False)
    if places.access is None:
        raise CannotRunError(missing)
    try:
        newer = _ask(wanted, places, places.access)
    except (NoDecisionError, CannotRunError) as error:
        if tables is not None and decision is not None:
            problem = str(error) if isinstance(error, CannotRunError) else None
            return Found(case=_read(lambda: tables.case(decision)), from_tables=True, from_kafka=False, problem=problem)
        if isinstance(error, CannotRunError):
            raise CannotRunError("\n".join(filter(None, (missing, error.message))), error.code) from error
        raise CannotRunError("\n".join(filter(None, (missing, str(error))))) from error
    return _joined(tables, decision, newer)


def _joined(tables: TableCases | None, decision: ScalingDecision | None, newer: Case) -> Found:
    """What both know of the newer of two decisions."""
    if tables is None:
        return Found(case=newer, from_tables=False, from_kafka=True)
    if decision is not None and decision.at_s > newer.decision.at_s:
        return Found(case=_read(lambda: tables.case(decision)), from_tables=True, from_kafka=False)
    kept = _read(lambda: tables.case(newer.decision))
    return Found(case=merged(kept, newer), from_tables=decision is not None, from_kafka=True)


def merged(first: Case, second: Case) -> Case:
    """Two views of one decision: what one has not the other may, and the later one of what came before."""
    return Case(
        decision=first.decision,
        signal=first.signal or second.signal,
        policy=first.policy or second.policy,
        memory=first.memory or second.memory,
        outcomes=_both(first.outcomes, second.outcomes),
        shown_s=second.shown_s if first.shown_s is None else first.shown_s,
        last=_later(first.last, second.last),
    )


def _later(first: Move | None, second: Move | None) -> Move | None:
    if first is None or second is None:
        return first or second
    if first.newest.decision_id != second.newest.decision_id:
        return max(first, second, key=lambda move: move.newest.at_s)
    return Move(
        decisions=max(first.decisions, second.decisions, key=len),
        outcomes=_both(first.outcomes, second.outcomes),
        shown_s=second.shown_s if first.shown_s is None else first.shown_s,
    )


def _both(first: tuple[Outcome, ...], second: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    known = {(it.decision_id, it.actuator, it.at_s, it.result) for it in first}
    new = (it for it in second if (it.decision_id, it.actuator, it.at_s, it.result) not in known)
    return tuple(sorted((*first, *new), key=lambda outcome: outcome.at_s))


def _read(read: Callable[[], R]) -> R:
    """What a reading of the tables gives. Raises CannotRunError where they cannot be read."""
    try:
        return read()
    except StorageError as error:
        raise CannotRunError(error.message, ExitCode.STORAGE) from error


def _open_tables(wanted: DecisionSelector, places: Places) -> TableCases | None:
    root = places.root
    return None if root is None else _read(lambda: TableCases(root, wanted.endpoint))


def _ask(wanted: DecisionSelector, places: Places, access: KafkaAccess) -> Case:
    """Raises NoDecisionError, CannotRunError."""
    rights = rights_of(Role.ANALYST, places.names)
    return ask_kafka(access, rights, lambda: _from_kafka(wanted, places.names, access))


def open_logs(endpoint: str, names: TopicNames, access: KafkaAccess) -> EndpointLogs:
    """Logs whose consumers answer questions soon."""
    limits = {"max_partition_fetch_bytes": FETCH_BYTES_MAX, "fetch_max_wait_ms": FETCH_WAIT_MS}
    return EndpointLogs(endpoint, names, partial(open_consumer, access, **limits))


async def _from_kafka(wanted: DecisionSelector, names: TopicNames, access: KafkaAccess) -> Case:
    logs = open_logs(wanted.endpoint, names, access)
    cases = KafkaCases(logs, access, names)
    try:
        return await cases.case(await cases.find(wanted))
    except LookupError as error:
        message = f"{error} on {access.bootstrap} (hint: headrace topics create)"
        raise CannotRunError(message, ExitCode.PARTITIONS) from error
    finally:
        await logs.close()
