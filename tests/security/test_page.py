"""docs/security.md says what the program does."""

import pytest

from tests.repository.markdown import ROOT, between, table_rows
from wire.acls import Operation, Resource, Right, Role, rights_of
from wire.topics import TOPICS, TopicNames

PAGE = (ROOT / "docs" / "security.md").read_text()
NAMES = TopicNames()


def told(cell: str) -> set[str]:
    """The names in a cell; `all` stands for all topics."""
    return set(TOPICS) if cell == "all" else set(cell.split("`")[1::2])


@pytest.mark.parametrize("role", Role)
def test_the_table_of_rights_is_that_of_the_program(role: Role) -> None:
    rows = {row[0].strip("`"): row for row in table_rows(between(PAGE, "<!-- rights -->", "<!-- end of rights -->"))}
    _, reads, writes, besides = rows[role.value]
    rights = rights_of(role, NAMES)

    def names(operation: Operation) -> set[str]:
        return {right.name for right in rights if right.resource is Resource.TOPIC and right.operation is operation}

    assert told(reads) == names(Operation.READ)
    assert told(writes) == names(Operation.WRITE)
    others = [right for right in rights if right.resource is not Resource.TOPIC]
    assert told(besides) == {_name(right) for right in others}
    assert all(f"{right.operation.value} on {right.resource.value} `{_name(right)}`" in besides for right in others)
    assert ("DescribeConfigs" in besides) == bool(names(Operation.DESCRIBE_CONFIGS))
    assert ("Create" in besides) == bool(names(Operation.CREATE))


def _name(right: Right) -> str:
    return f"{right.name}{'*' if right.is_prefix else ''}"
