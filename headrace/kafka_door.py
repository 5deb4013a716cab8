"""The first thing a process does with Kafka: it says who it is, and asks whether it may do its work."""

from collections.abc import Sequence

from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.tls_files import tls_file_problem
from wire.acls import Resource, Right
from wire.admin import TopicsDeniedError, TopicsError, TopicsSettingError
from wire.admission import AUTHORIZATION_ERRORS, RefusedError, admit, missing_told, user_of
from wire.kafka import KafkaAccess

_RESOURCES = {
    GroupAuthorizationFailedError: Resource.GROUP,
    TransactionalIdAuthorizationFailed: Resource.TRANSACTIONAL_ID,
}
"""Of which nobody can ask what we may do to them: the error alone tells."""


async def enter(access: KafkaAccess, rights: Sequence[Right]) -> None:
    """Return when Kafka lets us in and `rights` are ours.

    Raises CannotRunError with one line: REFUSED for what only another setting or right cures, UNAVAILABLE where no
    Kafka answers, USAGE for a file that cannot be used.
    """
    if problem := tls_file_problem(access):
        raise CannotRunError(problem)
    try:
        await admit(access, rights)
    except RefusedError as error:
        raise CannotRunError(str(error), ExitCode.REFUSED) from error
    except KafkaConnectionError as error:
        raise CannotRunError(f"No Kafka answers at {error.args[0]}", ExitCode.UNAVAILABLE) from error


async def enter_if_there(access: KafkaAccess, rights: Sequence[Right]) -> None:
    """As `enter`, for who can wait for Kafka: that none answers is passed over."""
    try:
        await enter(access, rights)
    except CannotRunError as error:
        if error.code is not ExitCode.UNAVAILABLE:
            raise


async def turned_away(access: KafkaAccess, rights: Sequence[Right], error: KafkaError, who: str) -> CannotRunError:
    """What a process says that Kafka serves no longer: which right was taken from it, where that is why."""
    if isinstance(error, AUTHORIZATION_ERRORS):
        try:
            await enter(access, rights)
        except CannotRunError as found:
            return found
        meant = [right for right in rights if right.resource is _RESOURCES.get(type(error))]
        told = (
            missing_told(access, meant) if meant else f"Kafka at {access.bootstrap} refused {user_of(access)}: {error}"
        )
        return CannotRunError(told, ExitCode.REFUSED)
    message = f"Kafka at {access.bootstrap} does not serve {who}: {error}"
    return CannotRunError(message, ExitCode.UNAVAILABLE)


def topics_refused(error: TopicsError, where: str = "Kafka") -> CannotRunError:
    """What a command says whose topics Kafka refuses."""
    match error:
        case TopicsDeniedError():
            code = ExitCode.REFUSED
        case TopicsSettingError():
            code = ExitCode.USAGE
        case _:
            code = ExitCode.UNAVAILABLE
    return CannotRunError(f"{where} refused: {error}", code)
