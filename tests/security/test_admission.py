"""Who is let in, and what those who are not are told: against the real broker, at the first connection."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiokafka.errors import KafkaConnectionError

from headrace.broker_files import free_port
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.kafka_door import enter, enter_if_there
from tests.security.counting_proxy import CountingProxy
from tests.security.secured_kafka import (
    ELSEWHERE,
    EXPIRED,
    MUTUAL,
    OPEN,
    PLAIN_PASSWORD,
    PLAIN_USER,
    SCRAM,
    SecuredKafka,
)
from tests.security.secured_line import NAMES
from wire.acls import Operation, Role, rights_of
from wire.admission import RefusedError, admit
from wire.certificates import end_of
from wire.kafka import KafkaAccess

pytestmark = pytest.mark.kafka

Choose = Callable[[SecuredKafka], KafkaAccess]


def tls(listener: str, **rest: str) -> Choose:
    return lambda kafka: KafkaAccess(
        bootstrap=kafka.bootstrap(listener),
        **{"security_protocol": "SSL", "ssl_cafile": kafka.authorities, **rest},  # type: ignore[arg-type]  # texts alone
    )


def plain_user(kafka: SecuredKafka, given: str) -> KafkaAccess:
    return replace(kafka.scram(Role.WORKER), sasl_mechanism="PLAIN", sasl_username=PLAIN_USER, sasl_password=given)


GOOD: dict[str, Choose] = {
    "a password, SCRAM-SHA-512": lambda kafka: kafka.scram(Role.WORKER),
    "a password, SCRAM-SHA-256": lambda kafka: replace(kafka.scram(Role.WORKER), sasl_mechanism="SCRAM-SHA-256"),
    "a password, PLAIN": lambda kafka: plain_user(kafka, PLAIN_PASSWORD),
    "a certificate": lambda kafka: kafka.mutual("client-worker"),
    "the second address": lambda kafka: replace(
        kafka.scram(Role.WORKER), bootstrap=f"127.0.0.1:{free_port()},{kafka.bootstrap(SCRAM)}"
    ),
    "the broker's name unchecked": lambda kafka: replace(tls(ELSEWHERE)(kafka), ssl_check_hostname=False),
}

BAD: dict[str, tuple[Choose, str]] = {
    "wrong password": (
        lambda kafka: replace(kafka.scram(Role.WORKER), sasl_password="not-this-one"),
        r"does not let User:headrace-worker in: wrong user or password \(SCRAM-SHA-512\)",
    ),
    "wrong password, PLAIN": (
        lambda kafka: plain_user(kafka, "not-this-one"),
        r"does not let User:headrace-plain in: wrong user or password \(PLAIN\)",
    ),
    "unknown user": (
        lambda kafka: replace(kafka.scram(Role.WORKER), sasl_username="nobody"),
        r"does not let User:nobody in: wrong user or password \(SCRAM-SHA-512\)",
    ),
    "the broker's certificate has expired": (tls(EXPIRED), "certificate is not accepted: certificate has expired$"),
    "the broker's certificate is of another authority": (
        lambda kafka: tls(SCRAM, ssl_cafile=kafka.file("other-authority"))(kafka),
        r"certificate is not accepted: unable to get local issuer certificate \(ssl_cafile: \S+other-authority.pem\)$",
    ),
    "the broker's certificate is of no authority of this system": (
        lambda kafka: replace(tls(MUTUAL)(kafka), ssl_cafile=None),
        r"unable to get local issuer certificate \(ssl_cafile: not given, so the system's authorities count\)$",
    ),
    "the broker's certificate names another host": (
        tls(ELSEWHERE),
        "certificate is not accepted: IP address mismatch, certificate is not valid for '127.0.0.1' "
        r"\(bootstrap: by a name that is in the broker's certificate\)$",
    ),
    "our certificate has expired": (
        lambda kafka: kafka.mutual("client-expired"),
        r"client-expired.pem, which ends at 2024-01-01T00:00:00\+00:00: expired, or",
    ),
    "our certificate is of another authority": (
        lambda kafka: kafka.mutual("client-other"),
        "does not accept the certificate in .*client-other.pem, .* of an authority that it does not trust",
    ),
    "no certificate": (lambda kafka: kafka.mutual(None), r"wants a client's certificate \(ssl_certfile\)"),
    "no TLS where it is wanted": (
        lambda kafka: KafkaAccess(bootstrap=kafka.bootstrap(MUTUAL)),
        r"it speaks TLS there, and we speak PLAINTEXT \(security_protocol\)",
    ),
    "TLS where there is none": (
        lambda kafka: replace(tls(MUTUAL)(kafka), bootstrap=kafka.broker.bootstrap),
        r"it does not speak TLS there, and we speak SSL \(security_protocol\)",
    ),
    "no SASL where it is wanted": (tls(SCRAM), r"does it want SASL_SSL\? \(security_protocol\)"),
    "SASL where there is none": (
        lambda kafka: replace(kafka.scram(Role.WORKER), bootstrap=kafka.bootstrap(EXPIRED), ssl_check_hostname=False),
        "certificate has expired",
    ),
    "SASL on a listener with TLS alone": (
        lambda kafka: replace(kafka.scram(Role.WORKER), bootstrap=kafka.bootstrap(OPEN)),
        r"it does not authenticate there, and we speak SASL_SSL \(security_protocol\)",
    ),
    "SASL without TLS where TLS is wanted": (
        lambda kafka: replace(kafka.scram(Role.WORKER), security_protocol="SASL_PLAINTEXT", ssl_cafile=None),
        r"it speaks TLS there, and we speak SASL_PLAINTEXT \(security_protocol\)",
    ),
    "SASL on a plain listener": (
        lambda kafka: KafkaAccess(
            bootstrap=kafka.broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_username="u",
            sasl_password="not-this-one",
        ),
        "it does not authenticate there, and we speak SASL_PLAINTEXT",
    ),
}


@pytest.mark.parametrize("name", GOOD)
async def test_who_is_let_in(secured: SecuredKafka, name: str) -> None:
    await enter(GOOD[name](secured), ())


@pytest.mark.parametrize("name", BAD)
async def test_who_is_not_let_in_is_told_so_once_in_one_line(secured: SecuredKafka, name: str) -> None:
    choose, told = BAD[name]
    access = choose(secured)
    async with CountingProxy(access.bootstrap) as proxy:
        with pytest.raises(CannotRunError, match=told) as caught:
            await enter_if_there(replace(access, bootstrap=proxy.bootstrap), ())
    assert caught.value.code is ExitCode.REFUSED
    assert len(caught.value.message.splitlines()) == 1
    assert str(access.sasl_password) not in caught.value.message
    # A connection that is closed without a word is tried once more: the broker may just be stopping.
    assert proxy.connections <= 2


async def test_an_answer_that_is_none_of_tls_is_told() -> None:
    """As of a web server, whose port was given by mistake."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        access = KafkaAccess(bootstrap=f"127.0.0.1:{port}", security_protocol="SSL")
        with pytest.raises(RefusedError, match="it does not speak TLS there, and we speak SSL"):
            await admit(access)


async def test_a_kafka_that_is_away_is_no_refusal() -> None:
    access = KafkaAccess(bootstrap=f"127.0.0.1:{free_port()}")
    with pytest.raises(KafkaConnectionError, match="Connect call failed"):
        await admit(access)
    with pytest.raises(CannotRunError, match="No Kafka answers at") as caught:
        await enter(access, ())
    assert caught.value.code is ExitCode.UNAVAILABLE
    await enter_if_there(access, ())


async def test_files_that_cannot_be_used_are_named(secured: SecuredKafka) -> None:
    absent = replace(secured.mutual("client-worker"), ssl_certfile="/nowhere/client.pem")
    with pytest.raises(
        CannotRunError, match=r"^ssl_certfile: /nowhere/client\.pem: cannot be read: No such file"
    ) as caught:
        await enter(absent, ())
    assert caught.value.code is ExitCode.USAGE
    no_certificate = replace(secured.mutual(None), ssl_certfile=secured.authorities)
    with pytest.raises(
        CannotRunError, match=r"^ssl_certfile: \S+: holds no private key in PEM form \(hint: ssl_keyfile"
    ) as caught:
        await enter(no_certificate, ())
    assert caught.value.code is ExitCode.USAGE


async def test_missing_rights_are_named_with_the_user(secured: SecuredKafka) -> None:
    """Of a group, and of transactional ids: the topics are not there yet, and of those nothing is known."""
    access = secured.scram(Role.SINK)
    with pytest.raises(RefusedError) as caught:
        await admit(access, rights_of(Role.WORKER, NAMES))
    told = re.fullmatch(
        r"Kafka at \S+ does not allow User:headrace-sink: (.*) \(hint: headrace topics acls\)", str(caught.value)
    )
    assert told is not None
    assert told[1].split("; ")[-1].startswith("and ") or "group secured.headrace-worker" in told[1]


def test_the_end_of_a_certificate_is_read(secured: SecuredKafka) -> None:
    assert end_of(secured.file("client-expired")) == "2024-01-01T00:00:00+00:00"
    assert end_of(secured.file("client-worker")) == "3000-01-01T00:00:00+00:00"
    assert end_of("/nowhere") is None
    assert end_of(__file__) is None


def test_every_operation_is_known_to_the_broker() -> None:
    used = {right.operation for role in Role for right in rights_of(role, NAMES)}
    assert used == set(Operation)
