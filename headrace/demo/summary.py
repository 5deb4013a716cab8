"""What is told at the end: every topic counted, tokens compared, decisions by reason, three queries, how to go on."""

from collections.abc import Mapping, Sequence
from shlex import quote

import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from headrace.demo.audit import TopicAudit
from headrace.demo.line import DemoPlan
from headrace.demo.queries import QUESTIONS, REASONS, TOKENS, Question
from headrace.demo.screen import say
from headrace.load import LoadCounts
from headrace.own_name import own_name
from sinks.catalog import query
from sinks.root import TableRoot


def tell_audit(console: Console, audits: Sequence[TopicAudit]) -> bool:
    """One line a topic that has anything; whether every row is where it belongs."""
    table = _table(("topic", "sent", "decoded", "in the table", "dead letters", "each once"))
    for one in audits:
        if one.sent or not one.is_exact:
            exact = "yes" if one.is_exact else f"NO: {one.missing} missing, {one.extra} too many"
            table.add_row(one.topic, *(str(n) for n in (one.sent, one.decoded, one.kept, one.dead)), exact)
    is_exact = all(one.is_exact for one in audits)
    _head(console, "Rows in Kafka (committed) and in the Delta tables")
    console.print(table)
    rows, places = sum(one.sent for one in audits), "(topic, partition, offset, row)"
    verdict = f"each {places} is there once" if is_exact else f"NOT each {places} is there once"
    say(console, f"{rows} rows: {verdict}.")
    return is_exact


def tell_tokens(console: Console, root: TableRoot, told: Mapping[str, LoadCounts]) -> bool:
    """What the clients were told against the tables' sums; whether they agree.

    A request without an answer was worked on and its client told nothing: then the tables may have more.
    """
    sums = {row["endpoint"]: row for row in query(root, TOKENS.sql).to_pylist()}
    table = _table(("endpoint", "answered", "failed", "prompt tokens", "in table", "output tokens", "in table"))
    agree = True
    for endpoint, counts in told.items():
        row = sums.get(endpoint, {"input_tokens": 0, "output_tokens": 0})
        failed = counts.sent - counts.completed
        pairs = (counts.prompt_tokens, row["input_tokens"]), (counts.output_tokens, row["output_tokens"])
        table.add_row(endpoint, str(counts.completed), str(failed), *(str(number) for pair in pairs for number in pair))
        agree = agree and all(ours == theirs or (failed > 0 and ours < theirs) for ours, theirs in pairs)
    _head(console, "Tokens: what the engines told their clients, and what the samples add up to")
    console.print(table)
    say(console, "They agree." if agree else "They do NOT agree.")
    return agree


def tell_reasons(console: Console, root: TableRoot) -> None:
    """How often each reason decided what."""
    _head(console, REASONS.title)
    console.print(_answer(query(root, REASONS.sql)))


def tell_questions(console: Console, root: TableRoot) -> None:
    """Each question with its SQL and its answer."""
    for question in QUESTIONS:
        _tell_question(console, root, question)


def _tell_question(console: Console, root: TableRoot, question: Question) -> None:
    _head(console, question.title)
    say(console, "".join(f"    {line}\n" for line in question.sql.splitlines()))
    console.print(_answer(query(root, question.sql)))


def tell_how_to_go_on(console: Console, plan: DemoPlan, bootstrap: str) -> None:
    """Commands that work on what is left, to be pasted as they are; what is no command is not indented."""
    us, tables, file = own_name(), quote(plan.tables.address), quote(str(plan.data / "chat.jsonl.gz"))
    prefix = plan.kafka.topic_prefix
    where = f"--bootstrap {bootstrap}" + (f" --topic-prefix {prefix}" if prefix else "")
    select = "SELECT at, endpoint, current, desired, reason FROM decisions_scaling ORDER BY at"
    lines = [
        f"    {us} tables --tables {tables}",
        f'    {us} tables query --tables {tables} "{select}"',
        f"    {us} tables check --tables {tables}",
    ]
    if plan.kafka.bootstrap is None:
        lines += [
            f"The same Kafka again; wait until it prints its address, {bootstrap}, before you go on:",
            f"    {us} broker --data {quote(str(plan.data / 'broker'))} &",
        ]
    lines += [
        "What the workers read, and when; then the same decisions from it, ids included:",
        f"    {us} export --endpoint chat {where} --out {file}",
        f"    {us} replay --telemetry {file}",
    ]
    _head(console, "How to go on")
    for line in lines:
        say(console, line)


def _head(console: Console, title: str) -> None:
    console.print()
    console.print(title, style="bold", highlight=False, markup=False)


def _table(names: Sequence[str]) -> Table:
    """Text on the left in the first column, numbers on the right in the others."""
    first, *others = names
    return Table(first, *(Column(name, justify="right") for name in others), box=None, pad_edge=False)


def _answer(answer: pa.Table) -> Table:
    numbers = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in answer.schema]
    columns = [
        Column(Text(name), justify="right" if is_number else "left")
        for name, is_number in zip(answer.column_names, numbers, strict=True)
    ]
    table = Table(*columns, box=None, pad_edge=False)
    for row in answer.to_pylist():
        table.add_row(*(Text("" if value is None else str(value)) for value in row.values()))
    return table
