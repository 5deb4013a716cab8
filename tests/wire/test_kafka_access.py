"""Access to Kafka: settings checked before anything connects, and TLS with SASL against a real broker."""

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker_files import BrokerFolder, free_port
from headrace.broker_jars import find_java
from records.enums import Source
from records.telemetry import RequestSample
from tests.conftest import BrokerFactory
from wire.admin import TopicSettings, check_topics, create_topics
from wire.kafka import KafkaAccess, open_admin, open_consumer, open_producer, partition_of, started
from wire.producer import ProducerCounts, TelemetryProducer
from wire.topics import TopicNames

PASSWORD = "a-secret-of-the-test"


@given(key=st.text(max_size=40), partitions=st.integers(1, 64))
def test_keys_go_where_kafkas_own_partitioner_puts_them(key: str, partitions: int) -> None:
    everyone = list(range(partitions))
    assert partition_of(key, partitions) == DefaultPartitioner()(key.encode(), everyone, everyone)


@pytest.mark.parametrize(
    ("key", "partition"),
    # From Kafka's own UtilsTest.testMurmur2: the hash of each text, here its partition of a hundred.
    [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536)],
)
def test_murmur2_is_javas(key: str, partition: int) -> None:
    assert partition_of(key, 100) == (partition & 0x7FFFFFFF) % 100


def test_every_contradiction_is_named() -> None:
    with pytest.raises(ValueError, match="bootstrap") as caught:
        KafkaAccess(
            bootstrap="one:9092,two,three:99999",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="MAGIC",
            ssl_cafile="ca.pem",
        )
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "bootstrap",
        "bootstrap",
        "sasl_mechanism",
        "sasl_username, sasl_password or sasl_password_file",
        "ssl_cafile",
    ]
    with pytest.raises(ValueError, match="security_protocol: 'TLS', allowed: PLAINTEXT, SSL"):
        KafkaAccess(bootstrap="one:9092", security_protocol="TLS")
    with pytest.raises(ValueError, match="does not authenticate"):
        KafkaAccess(bootstrap="one:9092", sasl_username="me")


def test_secrets_stay_out_of_texts() -> None:
    access = KafkaAccess(
        bootstrap="one:9092",
        security_protocol="SASL_SSL",
        sasl_username="me",
        sasl_password=PASSWORD,
        ssl_password=PASSWORD,
    )
    assert PASSWORD not in repr(access)
    assert PASSWORD not in str(access)


def keytool(*arguments: str) -> None:
    tool = find_java().with_name("keytool")
    subprocess.run([str(tool), *arguments, "-storepass", PASSWORD], check=True, capture_output=True)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A key store for the broker, and the PEM file that its clients trust."""
    store, trusted = folder / "broker.p12", folder / "ca.pem"
    subject = ["-alias", "broker", "-keystore", str(store)]
    keytool("-genkeypair", *subject, "-keyalg", "RSA", "-dname", "CN=broker", "-ext", "SAN=ip:127.0.0.1")
    keytool("-exportcert", *subject, "-rfc", "-file", str(trusted))
    return store, trusted


def secure_listener(folder: Path, store: Path, port: int) -> dict[str, str]:
    """Settings of a broker that has a listener with TLS and SASL beside its plain one."""
    ports = BrokerFolder(folder, {}).choose_ports(0)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listeners = f"PLAINTEXT://127.0.0.1:{ports.clients},SECURE://127.0.0.1:{port}"
    return {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{ports.controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{login} required user_pod="{PASSWORD}";',
        "listener.name.secure.ssl.keystore.location": str(store),
        "listener.name.secure.ssl.keystore.password": PASSWORD,
        "listener.name.secure.ssl.keystore.type": "PKCS12",
    }


@pytest.mark.kafka
async def test_all_clients_speak_tls_and_sasl(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    store, trusted = make_certificate(tmp_path)
    folder, port = tmp_path / "broker", free_port()
    await asyncio.to_thread(broker_factory, folder, properties=secure_listener(folder, store, port))
    access = KafkaAccess(
        bootstrap=f"127.0.0.1:{port}",
        security_protocol="SASL_SSL",
        sasl_username="pod",
        sasl_password=PASSWORD,
        ssl_cafile=str(trusted),
    )
    names = TopicNames("secure.")
    await create_topics(access, names, TopicSettings(partitions=1))
    assert await check_topics(access, names, 1) == []
    producer = TelemetryProducer(access, names)
    await producer.start()
    producer.send(RequestSample(endpoint="e", replica="r", at_s=1, source=Source.ENGINE))
    assert await producer.flush(30)
    assert producer.counts == ProducerCounts(sent=1)
    await producer.stop()
    async with open_consumer(access, names.real("telemetry.requests")) as consumer:
        assert (await consumer.getone()).key == b"e"

    for refused in (replace(access, sasl_password="wrong"), replace(access, ssl_cafile=None)):
        with pytest.raises(KafkaConnectionError):
            async with started(open_consumer(refused)):
                pass


@pytest.mark.parametrize("make", [open_admin, open_consumer, open_producer])
async def test_a_client_that_cannot_start_is_closed(make: Callable[[KafkaAccess], Any]) -> None:
    client = make(KafkaAccess(bootstrap=f"127.0.0.1:{free_port()}"))
    with pytest.raises(KafkaConnectionError):
        async with started(client):
            raise AssertionError("nobody answers there")
    assert client._closed
