"""Rights that are taken away for a while, and the words in which they are missed."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.security.kafka_admin import Acl, allow, withdraw
from tests.security.secured_kafka import SecuredKafka, user
from wire.acls import Right, Role


@asynccontextmanager
async def without(secured: SecuredKafka, role: Role, right: Right) -> AsyncIterator[None]:
    """While one right is taken from a role's user."""
    acl = Acl(f"User:{user(role)}", right)
    await withdraw(secured.administrator, [acl])
    try:
        yield
    finally:
        await allow(secured.administrator, [acl])


def told_of(right: Right, role: Role) -> str:
    """In the words of the right alone, or of those that nothing is left of: without reading, nobody sees a topic."""
    return (
        rf"^Kafka at \S+ does not allow User:{user(role)}: .*{re.escape(str(right))}.*\(hint: headrace topics acls\)$"
    )
