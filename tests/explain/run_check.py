"""Explains every decision of a run that is no hold, and has each explanation checked: what a run's acceptance asks."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import msgspec

from decisions.chain import decision_id, policy_hash
from headrace.explain.case import REPEATS_MAX, SHOWN_WITHIN_S, Case, Move, streak
from headrace.explain.counterfactuals import Computed
from headrace.explain.explanation import as_object, explain
from headrace.explain.sources.table_rows import as_record, policy_of, sql_text
from headrace.explain.sources.tables import DECISIONS
from records.decisions import ScalingDecision
from records.fields import TICK_S
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.scaling_memory import ScalingMemory
from records.signals import EndpointSignal
from sinks.catalog import list_tables, query
from sinks.root import TableRoot, table_name
from tests.explain.checker.check import check_object


@dataclass(frozen=True, kw_only=True)
class RunChecked:
    """`explained` decisions in `sentences` sentences with `numbers` numbers; those whose counterfactuals were decided
    again; every disagreement with its decision."""

    explained: int
    sentences: int
    numbers: int
    decided_again: int
    disagreements: tuple[str, ...]


def check_run(root: TableRoot, zone: tzinfo | None = None) -> RunChecked:
    """Explain and check all decisions of all endpoints that are no hold.

    A decision whose id is not the hash of what the table has of it is a disagreement too. Raises StorageError where
    the tables cannot be read, ValueError where a table of decisions is missing.
    """
    explained = sentences = numbers = again = 0
    disagreements: list[str] = []
    for endpoint in _endpoints(root):
        for case in RunCases(root, endpoint).moves():
            explanation = explain(case, zone)
            told = msgspec.to_builtins(as_object(explanation, {}))
            head = f"{endpoint} at {case.decision.at_s}"
            disagreements += [f"{head}: {problem}" for problem in check_object(told, zone)]
            if decision_id(case.decision) != case.decision.decision_id:
                disagreements.append(f"{head}: the id is not the hash of the record")
            explained += 1
            sentences += len(explanation.sentences)
            numbers += sum(len(sentence.numbers) for sentence in explanation.sentences)
            again += explanation.computed is Computed.AGAIN
    return RunChecked(
        explained=explained,
        sentences=sentences,
        numbers=numbers,
        decided_again=again,
        disagreements=tuple(disagreements),
    )


def _endpoints(root: TableRoot) -> list[str]:
    rows = query(root, f"SELECT DISTINCT endpoint FROM {DECISIONS} ORDER BY endpoint").to_pylist()
    return [row["endpoint"] for row in rows]


class RunCases:
    """All that the tables have of one endpoint, read at once: for runs of hours, not of months."""

    def __init__(self, root: TableRoot, endpoint: str) -> None:
        self._root = root
        self._endpoint = endpoint
        self._known = {summary.name for summary in list_tables(root)}
        no_hold = "action <> 'hold'"
        self._made = [as_record(ScalingDecision, row) for row in self._rows("decisions.scaling", no_hold)]
        self._signals = self._needed_signals()
        self._memories = {
            row["at_s"]: msgspec.json.decode(row["scaling"], type=ScalingMemory)
            for row in self._rows("controllers", "NOT deleted")
        }
        policies = (policy_of(row) for row in self._rows("policies", "NOT deleted", order="kafka_offset"))
        self._policies: dict[str, EndpointPolicy] = {policy_hash(policy): policy for policy in policies}
        self._outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
        for row in self._rows("outcomes"):
            self._outcomes[row["decision_id"]].append(as_record(Outcome, row))
        self._specs = [(row["at_s"], row["spec_replicas"]) for row in self._rows("telemetry.targets")]

    def moves(self) -> Iterator[Case]:
        """A case for each decision that is no hold, in the order of their ticks."""
        for index, decision in enumerate(self._made):
            yield Case(
                decision=decision,
                signal=self._signals.get(decision.at_s),
                policy=self._policies.get(decision.policy_hash),
                memory=self._memory_before(decision),
                outcomes=tuple(self._outcomes[decision.decision_id]),
                shown_s=self._shown(decision),
                last=self._last(index),
            )

    def _memory_before(self, decision: ScalingDecision) -> ScalingMemory | None:
        if decision.previous_id is None:
            return ScalingMemory()
        before = self._memories.get(decision.at_s - TICK_S)
        return before if before is not None and before.previous_id == decision.previous_id else None

    def _shown(self, decision: ScalingDecision) -> int | None:
        last_s, desired = decision.at_s + SHOWN_WITHIN_S, decision.desired
        shown = (at_s for at_s, spec in self._specs if decision.at_s <= at_s <= last_s and spec == desired)
        return next(shown, None)

    def _last(self, index: int) -> Move | None:
        if not index:
            return None
        made = streak(self._made[max(0, index - REPEATS_MAX) : index][::-1])
        outcomes = tuple(outcome for one in made for outcome in self._outcomes[one.decision_id])
        return Move(decisions=made, outcomes=outcomes, shown_s=self._shown(made[0]))

    def _needed_signals(self) -> dict[int, EndpointSignal]:
        own = f"endpoint = {sql_text(self._endpoint)} AND action <> 'hold'"
        rows = self._rows("signals", f"at_s IN (SELECT at_s FROM {DECISIONS} WHERE {own})")
        return {row["at_s"]: as_record(EndpointSignal, row) for row in rows}

    def _rows(self, topic: str, where: str = "true", order: str = "at_s, kafka_offset") -> list[dict[str, Any]]:
        name = table_name(topic)
        if name not in self._known:
            return []
        own = f"endpoint = {sql_text(self._endpoint)}"
        sql = f"SELECT * FROM {name} WHERE {own} AND {where} ORDER BY {order}"
        rows: list[dict[str, Any]] = query(self._root, sql).to_pylist(maps_as_pydicts="strict")
        return rows
