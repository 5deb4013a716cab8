"""Cases from the Delta tables: a few queries, each for one endpoint and the days that it can be in."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from decisions.chain import policy_hash
from headrace.explain.case import OUTCOME_WITHIN_S, REPEATS_MAX, REPEATS_S, SHOWN_WITHIN_S, Case, Move, streak
from headrace.explain.selector import DecisionSelector, NoDecisionError, ambiguous, none_before, unknown_endpoint
from headrace.explain.sources.table_rows import as_record, policy_of, sql_text
from records.decisions import ScalingDecision
from records.enums import ScalingAction
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal
from sinks.catalog import list_tables, query
from sinks.root import TableRoot, table_name

DECISIONS, POLICIES = table_name("decisions.scaling"), table_name("policies")
DAY_S = 86_400
LOOK_BACK_S = 7 * DAY_S
"""How far back the last decision that is no hold is looked for: as long as Kafka keeps decisions."""
MEMORY_AGE_MAX_S = 3600
"""How much older than a tick the memory before it may be: ticks that were skipped have none of their own."""


class TableCases:
    """Cases of one endpoint. Raises StorageError where the root cannot be read."""

    def __init__(self, root: TableRoot, endpoint: str) -> None:
        self._root = root
        self._endpoint = endpoint
        self._tables = {summary.name: summary for summary in list_tables(root)}
        self._where = f"the tables in {root.address}"

    def find(self, wanted: DecisionSelector) -> ScalingDecision:
        """The decision asked for. Raises NoDecisionError."""
        if DECISIONS not in self._tables:
            raise NoDecisionError(f"{self._where} have no table {DECISIONS}")
        found = self._by_id(wanted.decision_id) if wanted.decision_id else self._newest(wanted.at_s)
        if len(found) > 1:
            raise ambiguous(wanted, [decision.decision_id for decision in found])
        if not found:
            raise self._nothing(wanted)
        return found[0]

    def case(self, decision: ScalingDecision) -> Case:
        """The decision with all that the tables have of it."""
        return Case(
            decision=decision,
            signal=self._signal(decision),
            policy=self._policy(decision),
            memory=self._memory(decision),
            outcomes=self._outcomes([decision]),
            shown_s=self._shown(decision),
            last=self._last(decision),
        )

    def has_later(self, decision: ScalingDecision) -> bool:
        """Tell whether the tables go on after this decision, so that nothing newer was in force at its time."""
        later = f"date >= DATE '{_day(decision.at_s)}' AND endpoint = {sql_text(self._endpoint)}"
        return bool(self._ask(f"SELECT at_s FROM {DECISIONS} WHERE {later} AND at_s > {decision.at_s} LIMIT 1"))

    def _newest(self, at_s: int | None) -> list[ScalingDecision]:
        """The newest up to a time: first on its own day, then in the week before, then anywhere."""
        newest = self._tables[DECISIONS].newest
        if newest is None:
            return []
        last_s = int(newest.timestamp()) if at_s is None else min(at_s, int(newest.timestamp()))
        for first_s in (last_s // DAY_S * DAY_S, last_s - LOOK_BACK_S, 0):
            times = self._ask(f"SELECT max(at_s) AS at_s FROM {DECISIONS} WHERE {self._span(first_s, last_s)}")
            if times and times[0]["at_s"] is not None:
                return self._at(int(times[0]["at_s"]))[:1]
        return []

    def _at(self, at_s: int) -> list[ScalingDecision]:
        """Those of one tick, the newest first: a policy that was deleted and published again has two chains."""
        order = "ORDER BY received_at DESC, kafka_offset DESC"
        rows = self._ask(f"SELECT * FROM {DECISIONS} WHERE {self._span(at_s, at_s)} {order}")
        return [as_record(ScalingDecision, row) for row in rows]

    def _by_id(self, decision_id: str) -> list[ScalingDecision]:
        like = f"decision_id LIKE {sql_text(decision_id + '%')}"
        rows = self._ask(f"SELECT * FROM {DECISIONS} WHERE endpoint = {sql_text(self._endpoint)} AND {like} LIMIT 9")
        return list({row["decision_id"]: as_record(ScalingDecision, row) for row in rows}.values())

    def _nothing(self, wanted: DecisionSelector) -> NoDecisionError:
        """Says what there is instead."""
        own = f"FROM {DECISIONS} WHERE endpoint = {sql_text(self._endpoint)}"
        (ends,) = self._ask(f"SELECT min(at_s) AS first_s, max(at_s) AS last_s {own}")
        if ends["first_s"] is not None:
            return none_before(wanted, ends["first_s"], ends["last_s"], self._where)
        known = {row["endpoint"] for row in self._ask(f"SELECT DISTINCT endpoint FROM {DECISIONS}")}
        return unknown_endpoint(wanted.endpoint, known, self._where)

    def _signal(self, decision: ScalingDecision) -> EndpointSignal | None:
        rows = self._rows("signals", self._span(decision.at_s, decision.at_s), "received_at DESC")
        return next((as_record(EndpointSignal, row) for row in rows), None)

    def _memory(self, decision: ScalingDecision) -> ScalingMemory | None:
        """What was remembered before the tick; nothing at a chain's first decision."""
        if decision.previous_id is None:
            return ScalingMemory()
        first_s, last_s = decision.at_s - MEMORY_AGE_MAX_S, decision.at_s - 1
        rows = self._rows("controllers", self._span(first_s, last_s), "at_s DESC LIMIT 1", "scaling")
        for row in rows:
            memory = msgspec.json.decode(row["scaling"], type=ScalingMemory)
            if memory.previous_id == decision.previous_id:
                return memory
        return None

    def _policy(self, decision: ScalingDecision) -> EndpointPolicy | None:
        """The policy with the decision's hash, the newest of those published."""
        if POLICIES not in self._tables:
            return None
        which = f"endpoint = {sql_text(self._endpoint)} AND NOT deleted ORDER BY at DESC"
        for row in self._ask(f"SELECT * FROM {POLICIES} WHERE {which}"):
            policy = policy_of(row)
            if policy_hash(policy) == decision.policy_hash:
                return policy
        return None

    def _outcomes(self, decisions: list[ScalingDecision]) -> tuple[Outcome, ...]:
        ids = ", ".join(sql_text(decision.decision_id) for decision in decisions)
        first_s, last_s = decisions[0].at_s, decisions[-1].at_s + OUTCOME_WITHIN_S
        if all(decision.action is ScalingAction.HOLD for decision in decisions):
            return ()
        rows = self._rows("outcomes", f"{self._span(first_s, last_s)} AND decision_id IN ({ids})", "at_s, kafka_offset")
        return tuple(as_record(Outcome, row) for row in rows)

    def _shown(self, decision: ScalingDecision) -> int | None:
        """When the target was first seen to have what was decided, in the minutes after."""
        if decision.action is ScalingAction.HOLD:
            return None
        span = self._span(decision.at_s, decision.at_s + SHOWN_WITHIN_S)
        followed = f"{span} AND spec_replicas = {decision.desired}"
        rows = self._rows("telemetry.targets", followed, "at_s LIMIT 1", "at_s")
        return rows[0]["at_s"] if rows else None

    def _last(self, decision: ScalingDecision) -> Move | None:
        first_s, last_s = max(0, decision.at_s - LOOK_BACK_S), decision.at_s - 1
        no_hold = "action <> 'hold'"
        before = f"{self._span(first_s, last_s)} AND {no_hold}"
        newest = self._rows("decisions.scaling", before, columns="max(at_s) AS at_s")
        if not newest or newest[0]["at_s"] is None:
            return None
        last_s = int(newest[0]["at_s"])
        order = f"at_s DESC, received_at DESC LIMIT {REPEATS_MAX}"
        rows = self._rows("decisions.scaling", f"{self._span(last_s - REPEATS_S, last_s)} AND {no_hold}", order)
        made = streak([as_record(ScalingDecision, row) for row in rows])
        return Move(decisions=made, outcomes=self._outcomes(list(made)), shown_s=self._shown(made[0]))

    def _rows(self, topic: str, where: str, order: str | None = None, columns: str = "*") -> list[dict[str, Any]]:
        """Rows of a topic's table; none where it is not there."""
        name = table_name(topic)
        if name not in self._tables:
            return []
        ordered = "" if order is None else f" ORDER BY {order}"
        return self._ask(f"SELECT {columns} FROM {name} WHERE {where}{ordered}")

    def _span(self, first_s: int, last_s: int) -> str:
        """A condition that leaves out files by day, by endpoint and by time."""
        days = f"date BETWEEN DATE '{_day(first_s)}' AND DATE '{_day(last_s)}'"
        return f"{days} AND endpoint = {sql_text(self._endpoint)} AND at_s BETWEEN {first_s} AND {last_s}"

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = query(self._root, sql).to_pylist(maps_as_pydicts="strict")
        return rows


def _day(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d}"
