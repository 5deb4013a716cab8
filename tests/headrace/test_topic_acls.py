"""The settings of `headrace topics acls`."""

import pytest
from pydantic import ValidationError

from headrace.commands.topic_acls import AclSettings


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        ("User:CN={proces}", "--principal: {proces}, allowed: {process}"),
        ("User:{}", "--principal: {}, allowed: {process}"),
        ("headrace-{process}", "allowed: KIND:NAME"),
        ("User:", "allowed: KIND:NAME"),
    ],
)
def test_a_principal_that_names_nobody_is_refused(principal: str, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AclSettings.model_validate({"principal": principal})
    assert said in str(refused.value)


@pytest.mark.parametrize("principal", ["User:CN={process}", "User:headrace", "User:{process}-{process}"])
def test_a_principal_may_have_the_name_of_the_process(principal: str) -> None:
    assert AclSettings.model_validate({"principal": principal}).principal == principal
