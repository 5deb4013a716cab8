"""Commands that ask Kafka something and end: an event loop, and Kafka's errors as messages."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.kafka_door import enter, topics_refused, turned_away
from wire.acls import Right
from wire.admin import TopicsError
from wire.kafka import KafkaAccess

R = TypeVar("R")


def ask_kafka(access: KafkaAccess, rights: Sequence[Right], work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run `work` to its end, for which `rights` are needed.

    What Kafka or TLS refuse becomes a CannotRunError that names the address: REFUSED, UNAVAILABLE, or USAGE
    where topics cannot be made as they are set.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return asyncio.run(_ask(access, rights, work))


async def _ask(access: KafkaAccess, rights: Sequence[Right], work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    bootstrap = access.bootstrap
    await enter(access, rights)
    try:
        return await work()
    except KafkaConnectionError as error:
        raise CannotRunError(f"No Kafka answers at {bootstrap}: {error}", ExitCode.UNAVAILABLE) from error
    except KafkaError as error:
        raise await turned_away(access, rights, error, "this command") from error
    except TopicsError as error:
        raise topics_refused(error, f"Kafka at {bootstrap}") from error
    except TimeoutError as error:
        raise CannotRunError(f"Kafka at {bootstrap} did not answer in time", ExitCode.UNAVAILABLE) from error
    except ssl.SSLError as error:
        raise CannotRunError(f"TLS to Kafka at {bootstrap} failed: {error}", ExitCode.UNAVAILABLE) from error
