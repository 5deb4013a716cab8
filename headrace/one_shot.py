"""Commands that ask Kafka something and end: an event loop, and Kafka's errors as messages."""

import asyncio
import logging
import ssl
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace.exit_codes import CannotRunError, ExitCode
from wire.admin import TopicsError

R = TypeVar("R")


def ask_kafka(bootstrap: str, work: Coroutine[Any, Any, R]) -> R:
    """Run `work` to its end. What Kafka or TLS refuse becomes a CannotRunError (UNAVAILABLE) that names the address."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        return asyncio.run(work)
    except KafkaConnectionError as error:
        raise CannotRunError(f"No Kafka answers at {bootstrap}: {error}", ExitCode.UNAVAILABLE) from error
    except (KafkaError, TopicsError) as error:
        raise CannotRunError(f"Kafka at {bootstrap} refused: {error}", ExitCode.UNAVAILABLE) from error
    except TimeoutError as error:
        raise CannotRunError(f"Kafka at {bootstrap} did not answer in time", ExitCode.UNAVAILABLE) from error
    except ssl.SSLError as error:
        raise CannotRunError(f"TLS to Kafka at {bootstrap} failed: {error}", ExitCode.UNAVAILABLE) from error
    except FileNotFoundError as error:
        raise CannotRunError(f"A TLS file cannot be read: {error}") from error
