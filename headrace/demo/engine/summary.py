"""What is told at the end of the demo with engines: tokens compared, and how to go on."""

from collections.abc import Mapping
from shlex import quote

from rich.console import Console

from headrace.demo.answers import new_table, tell_head
from headrace.demo.console import say
from headrace.demo.engine.queries import TOKENS
from headrace.demo.plan import DemoPlan
from headrace.load import LoadCounts
from headrace.own_name import own_name
from sinks.catalog import query
from sinks.root import TableRoot


def tell_tokens(console: Console, root: TableRoot, told: Mapping[str, LoadCounts]) -> bool:
    """What the clients were told against the tables' sums; whether they agree.

    A request without an answer was worked on and its client told nothing: then the tables may have more.
    """
    sums = {row["endpoint"]: row for row in query(root, TOKENS.sql).to_pylist()}
    table = new_table(("endpoint", "answered", "failed", "prompt tokens", "in table", "output tokens", "in table"))
    agree = True
    for endpoint, counts in told.items():
        row = sums.get(endpoint, {"input_tokens": 0, "output_tokens": 0})
        failed = counts.sent - counts.completed
        pairs = (counts.prompt_tokens, row["input_tokens"]), (counts.output_tokens, row["output_tokens"])
        table.add_row(endpoint, str(counts.completed), str(failed), *(str(number) for pair in pairs for number in pair))
        agree = agree and all(ours == theirs or (failed > 0 and ours < theirs) for ours, theirs in pairs)
    tell_head(console, "Tokens: what the engines told their clients, and what the samples add up to")
    console.print(table)
    say(console, "They agree." if agree else "They do NOT agree.")
    return agree


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
    tell_head(console, "How to go on")
    for line in lines:
        say(console, line)
