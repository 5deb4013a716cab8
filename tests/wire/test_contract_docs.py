"""docs/contract.md says what the code does."""

import re
from pathlib import Path

import msgspec

from records.policy import EndpointPolicy
from sinks.rows import table_spec
from wire.contract_docs import render
from wire.delta_schemas import DEAD_LETTERS
from wire.topics import TOPICS

COMMITTED = Path(__file__).parents[2] / "docs" / "contract.md"


def test_the_committed_contract_is_up_to_date() -> None:
    assert COMMITTED.read_text() == render(), "renew it: python -m wire.contract_docs > docs/contract.md"


def test_every_field_of_every_record_is_described() -> None:
    text = render()
    sections = {part.split("\n", 1)[0]: part for part in text.split("\n### ")}
    for spec in TOPICS.values():
        section = sections[spec.record.__name__]
        assert f"`{spec.name}`" in section
        for field in msgspec.structs.fields(spec.record):
            line = next(line for line in section.splitlines() if line.startswith(f"| `{field.encode_name}` |"))
            assert ("| required |" in line) == field.required
            assert line.endswith("| yes |") == (field.name in spec.identity)


def test_every_column_of_a_table_but_its_records_is_described() -> None:
    """Against the tables as the sink makes them."""
    tables = render().partition("## Delta tables")[2].partition("## Records")[0]
    described = re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE)
    columns = table_spec("telemetry.gpus").schema.names
    assert described == columns[: len(described)]
    assert f"of {len(table_spec(DEAD_LETTERS).schema)} columns" in render()


def test_identities_are_fields() -> None:
    for spec in TOPICS.values():
        assert set(spec.identity) <= set(spec.record.__struct_fields__)
        assert spec.key in spec.record.__struct_fields__


def test_ranges_and_defaults_are_those_of_the_records() -> None:
    text = render()
    assert "| `kv_cache_usage` | number | from 0 to 1 | yes | `null` |  |" in text
    assert "| `arrivals` | integer | from 0 to 4294967294 | yes | `null` |  |" in text
    assert '| `mode` | text | `act`, `advise`, `off` |  | `"act"` |  |' in text
    default = msgspec.structs.fields(EndpointPolicy)
    patience = next(field for field in default if field.name == "patience_seconds").default
    assert f"| `patienceSeconds` | integer | from 0 to 604800 |  | `{patience}` |  |" in text
