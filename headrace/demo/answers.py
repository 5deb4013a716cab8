"""What is told at the end, whatever was shown: rows counted, decisions by reason, questions with their answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Column, Table

from headrace.answer_table import answer_table
from headrace.demo.audit import TopicAudit
from headrace.demo.console import say
from sinks.catalog import query
from sinks.root import TableRoot


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, for people and for DataFusion."""

    title: str
    sql: str


REASONS = Question(
    title="Decisions by reason",
    sql="""\
SELECT endpoint, action, reason, count(*) AS ticks, min(desired) AS desired_min, max(desired) AS desired_max
FROM decisions_scaling GROUP BY endpoint, action, reason ORDER BY endpoint, ticks DESC, reason""",
)


def tell_head(console: Console, title: str) -> None:
    """An empty line and a title."""
    console.print()
    console.print(title, style="bold", highlight=False, markup=False)


def new_table(names: Sequence[str]) -> Table:
    """Text on the left in the first column, numbers on the right in the others."""
    first, *others = names
    return Table(first, *(Column(name, justify="right") for name in others), box=None, pad_edge=False)


def tell_audit(console: Console, audits: Sequence[TopicAudit]) -> bool:
    """One line a topic that has anything; whether every row is where it belongs."""
    table = new_table(("topic", "sent", "decoded", "in the table", "dead letters", "each once"))
    for one in audits:
        if one.sent or not one.is_exact:
            exact = "yes" if one.is_exact else f"NO: {one.missing} missing, {one.extra} too many"
            table.add_row(one.topic, *(str(n) for n in (one.sent, one.decoded, one.kept, one.dead)), exact)
    is_exact = all(one.is_exact for one in audits)
    tell_head(console, "Rows in Kafka (committed) and in the Delta tables")
    console.print(table)
    rows, places = sum(one.sent for one in audits), "(topic, partition, offset, row)"
    verdict = f"each {places} is there once" if is_exact else f"NOT each {places} is there once"
    say(console, f"{rows} rows: {verdict}.")
    return is_exact


def tell_reasons(console: Console, root: TableRoot) -> None:
    """How often each reason decided what."""
    tell_head(console, REASONS.title)
    console.print(answer_table(query(root, REASONS.sql), numbers="right"))


def tell_questions(console: Console, root: TableRoot, questions: Sequence[Question]) -> None:
    """Each question with its SQL and its answer."""
    for question in questions:
        tell_head(console, question.title)
        say(console, "".join(f"    {line}\n" for line in question.sql.splitlines()))
        console.print(answer_table(query(root, question.sql), numbers="right"))
