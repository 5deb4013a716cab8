"""Whether Kafka lets us in, and lets us do what we are about to do: asked over one connection, before clients start.

aiokafka's clients log a failed handshake, try again and in the end say that they could not connect. What stands in the
way is known at the first try: a certificate, a password, a protocol, a right. It is told once, in one line.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.coordination import FindCoordinatorRequest

from wire.acls import Resource, Right
from wire.authorized_operations import AuthorizedOperationsRequest, allowed_operations
from wire.certificates import end_of
from wire.kafka import KafkaAccess

ANSWER_S = 10.0
"""For each step of one connection."""

RETRY_S = 1.0
"""A broker that is about to stop closes connections as one that wants another protocol does: it is asked again once."""
TOLD_MAX = 6
"""Rights that are named where many are missing."""

AUTHORIZATION_ERRORS = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
"""What Kafka answers to who may not do something."""

_COORDINATORS = {Resource.GROUP: 0, Resource.TRANSACTIONAL_ID: 1}
_TLS_RECORD_BYTES = (0x15030000, 0x1503FFFF)
"""What a TLS alert looks like to who takes its first bytes for a length."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
"""What OpenSSL makes of an answer that is none of TLS; a Kafka without TLS closes the connection."""
_UNKNOWN_ISSUER = (18, 19, 20, 21)
_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_*: self-signed, alone or in a chain; no issuer's certificate, or none for the first; a host name
and an IP address that the certificate does not have."""


class RefusedError(Exception):
    """Kafka, or TLS on the way to it, refuses us; no other try cures that. The message is one line."""


async def admit(access: KafkaAccess, rights: Sequence[Right] = ()) -> None:
    """Return when one of the addresses lets us in and all `rights` are ours.

    Raises RefusedError with what is wrong; KafkaConnectionError, with the reason, where no address answers; OSError
    where a file of TLS cannot be used.
    """
    options = {name: value for name, value in access.client_options().items() if name != "bootstrap_servers"}
    problems: list[Exception] = []
    for address in access.bootstrap.split(","):
        for wait_s in (RETRY_S, None):
            try:
                async with _connection(options, address.strip()) as connection:
                    missing = await _missing(connection, rights)
            except (KafkaError, OSError, TimeoutError) as error:
                if wait_s is not None and _may_be_a_restart(error):
                    await asyncio.sleep(wait_s)
                    continue
                problems.append(_told(access, address.strip(), error))
                break
            if missing:
                raise RefusedError(missing_told(access, missing))
            return
    raise next((problem for problem in problems if isinstance(problem, RefusedError)), problems[0])


async def reason_of(access: KafkaAccess, error: Exception) -> Exception:
    """Of a client's error, the one that says why: aiokafka tells of all that it could not connect."""
    if isinstance(error, KafkaConnectionError):
        try:
            await admit(access)
        except RefusedError as refused:
            return refused
        except (KafkaError, OSError):
            pass  # It was away before, and is.
    return error


def user_of(access: KafkaAccess) -> str:
    """Who we are to Kafka, as far as that is known here: it makes a user of a certificate by rules of its own."""
    if access.uses_sasl:
        return f"User:{access.sasl_username}"
    if access.uses_tls and access.ssl_certfile:
        return f"the user of {access.ssl_certfile}"
    return "User:ANONYMOUS"


@asynccontextmanager
async def _connection(options: Mapping[str, Any], address: str) -> AsyncIterator[AIOKafkaConnection]:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    async with asyncio.timeout(3 * ANSWER_S):
        connection = await create_conn(host, int(port), request_timeout_ms=int(ANSWER_S * 1000), **options)
        try:
            yield connection
        finally:
            connection.close()


async def _missing(connection: AIOKafkaConnection, rights: Sequence[Right]) -> list[Right]:
    on_topics = [right for right in rights if right.resource is Resource.TOPIC]
    others = [right for right in rights if right.resource in _COORDINATORS]
    return [
        *await _missing_on_topics(connection, on_topics),
        *[right for right in others if await _is_denied(connection, right)],
    ]


def missing_told(access: KafkaAccess, missing: Sequence[Right]) -> str:
    """One line; the first few of many."""
    more = [f"and {len(missing) - TOLD_MAX} more"] if len(missing) > TOLD_MAX else []
    told = "; ".join([*map(str, missing[:TOLD_MAX]), *more])
    return f"Kafka at {access.bootstrap} does not allow {user_of(access)}: {told} (hint: headrace topics acls)"


async def _missing_on_topics(connection: AIOKafkaConnection, rights: Sequence[Right]) -> list[Right]:
    """Those that are not ours; of topics that are not there nothing is known."""
    names = sorted({right.name for right in rights})
    request = AuthorizedOperationsRequest(names)
    if not request.is_known_to(connection._versions):
        return []
    # Also without topics: a listener that wants SASL tells by closing the connection.
    response = await connection.send(request)
    allowed = allowed_operations(response)
    return [right for right in rights if right.name in allowed and right.operation not in allowed[right.name]]


async def _is_denied(connection: AIOKafkaConnection, right: Right) -> bool:
    """By asking who coordinates it, which is for those who may use it."""
    key = f"{right.name}0" if right.is_prefix else right.name
    response: Any = await connection.send(FindCoordinatorRequest(key, _COORDINATORS[right.resource]))
    denied = (GroupAuthorizationFailedError.errno, TransactionalIdAuthorizationFailed.errno)
    return response.error_code in denied


def _may_be_a_restart(error: Exception) -> bool:
    cause = error.__cause__ or error
    is_closed = isinstance(cause, asyncio.IncompleteReadError) and not _is_tls(cause.expected)
    return is_closed or isinstance(cause, ConnectionResetError)


def _told(access: KafkaAccess, address: str, error: Exception) -> Exception:
    """The error as one of the two that `admit` raises."""
    why = _why_refused(access, error)
    if why is None:
        unreachable: Exception = KafkaConnectionError(f"{address}: {_reason(error)}")
        return unreachable
    return RefusedError(f"Kafka at {address} does not let {user_of(access)} in: {why}")


def _why_refused(access: KafkaAccess, error: Exception) -> str | None:
    cause = error.__cause__ or error
    match cause:
        case ssl.SSLCertVerificationError(verify_message=told, verify_code=code):
            return f"the broker's certificate is not accepted: {told.rstrip('.')}{_cure(access, code)}"
        case ssl.SSLError(reason=str() as reason) if "CERTIFICATE" in reason:
            return _why_certificate(access)
        case ssl.SSLError(reason=str() as reason) if reason in _NO_TLS:
            return f"it does not speak TLS there, and we speak {access.security_protocol} (security_protocol)"
        case ssl.SSLError():
            return f"TLS failed: {cause.reason or cause}"
        case SaslAuthenticationFailed():
            return f"wrong user or password ({access.sasl_mechanism})"
        case UnsupportedSaslMechanismError():
            return f"it does not offer {access.sasl_mechanism} (sasl_mechanism)"
        case IllegalSaslStateError():
            return f"it does not authenticate there, and we speak {access.security_protocol} (security_protocol)"
        case asyncio.IncompleteReadError(expected=expected) if _is_tls(expected):
            return f"it speaks TLS there, and we speak {access.security_protocol} (security_protocol)"
        case asyncio.IncompleteReadError():
            return f"it closes the connection; does it want {_other_sasl(access)}? (security_protocol)"
        case ConnectionResetError() if access.uses_tls:
            return f"it does not speak TLS there, and we speak {access.security_protocol} (security_protocol)"
    return None


def _cure(access: KafkaAccess, verify_code: int) -> str:
    """What to look at, where a setting of ours can be why."""
    if verify_code in _UNKNOWN_ISSUER:
        trusted = access.ssl_cafile or "not given, so the system's authorities count"
        return f" (ssl_cafile: {trusted})"
    if verify_code in _OTHER_NAME:
        return " (bootstrap: by a name that is in the broker's certificate)"
    return ""


def _why_certificate(access: KafkaAccess) -> str:
    if access.ssl_certfile is None:
        return "it wants a client's certificate (ssl_certfile)"
    end = end_of(access.ssl_certfile)
    ending = "" if end is None else f", which ends at {end}"
    return (
        f"it does not accept the certificate in {access.ssl_certfile}{ending}: "
        "expired, or of an authority that it does not trust"
    )


def _is_tls(expected: int | None) -> bool:
    return expected is not None and _TLS_RECORD_BYTES[0] <= expected <= _TLS_RECORD_BYTES[1]


def _other_sasl(access: KafkaAccess) -> str:
    return "SASL_SSL" if access.uses_tls else "SASL_PLAINTEXT"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {ANSWER_S:g} s"
    return str(error) or type(error).__name__
