"""A Kafka with TLS, SASL, mTLS and Kafka's own authorizer, shared by all tests of a process."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from headrace.broker import EmbeddedBroker
from headrace.broker_files import BrokerFolder, free_port
from wire.acls import Role
from wire.kafka import KafkaAccess

SCRAM, MUTUAL, OPEN, EXPIRED, ELSEWHERE = "SCRAM", "MUTUAL", "OPEN", "EXPIRED", "ELSEWHERE"
LISTENERS = {SCRAM: "SASL_SSL", MUTUAL: "SSL", OPEN: "SSL", EXPIRED: "SSL", ELSEWHERE: "SSL"}
"""Beside the plain one, whose users are unknown and may do everything: the tests' administrators."""
SERVER_CERTIFICATES = {SCRAM: "broker", MUTUAL: "broker", OPEN: "broker", EXPIRED: "expired", ELSEWHERE: "elsewhere"}
JAAS = "org.apache.kafka.common.security"
PLAIN_USER, PLAIN_PASSWORD = "headrace-plain", "a-plain-secret"


def user(role: Role) -> str:
    return f"headrace-{role.value}"


def password(role: Role) -> str:
    return f"secret-of-{role.value}"


@dataclass(frozen=True)
class SecuredKafka:
    """`ports` by listener; `folder` has the certificates as PEM files."""

    folder: Path
    broker: EmbeddedBroker
    ports: dict[str, int]

    @property
    def administrator(self) -> KafkaAccess:
        return KafkaAccess(bootstrap=self.broker.bootstrap)

    @property
    def authorities(self) -> str:
        return str(self.folder / "authority.pem")

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def bootstrap(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def scram(self, role: Role) -> KafkaAccess:
        """How a process of this role gets in with its password."""
        return KafkaAccess(
            bootstrap=self.bootstrap(SCRAM),
            security_protocol="SASL_SSL",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username=user(role),
            sasl_password=password(role),
            ssl_cafile=self.authorities,
        )

    def mutual(self, certificate: str | None) -> KafkaAccess:
        """How a process gets in with a certificate."""
        return KafkaAccess(
            bootstrap=self.bootstrap(MUTUAL),
            security_protocol="SSL",
            ssl_cafile=self.authorities,
            ssl_certfile=None if certificate is None else self.file(certificate),
        )

    def log(self) -> str:
        """Of the broker, oldest first."""
        logs = [self.broker.log_path.with_name(f"{self.broker.log_path.name}.{number}") for number in (1, 2)]
        return "".join(path.read_text() for path in (*logs, self.broker.log_path) if path.exists())


def environment_of(access: KafkaAccess, password_file: Path | None = None) -> dict[str, str]:
    """A process's settings; with `password_file` the password goes there."""
    given = {
        "BOOTSTRAP": access.bootstrap,
        "SECURITY_PROTOCOL": access.security_protocol,
        "SASL_MECHANISM": access.sasl_mechanism if access.uses_sasl else None,
        "SASL_USERNAME": access.sasl_username,
        "SASL_PASSWORD": access.sasl_password if password_file is None else None,
        "SASL_PASSWORD_FILE": None if password_file is None else str(password_file),
        "SSL_CAFILE": access.ssl_cafile,
        "SSL_CERTFILE": access.ssl_certfile,
    }
    if password_file is not None:
        password_file.write_text(f"{access.sasl_password}\n")
        password_file.chmod(0o600)
    return {f"HEADRACE_{name}": value for name, value in given.items() if value is not None}


def start_secured(folder: Path, properties: dict[str, str]) -> SecuredKafka:
    """Makes the certificates and starts the broker; whoever calls it kills it."""
    make_certificates(folder)
    ports = BrokerFolder(folder / "broker", {}).choose_ports(0)
    own = {name: free_port() for name in LISTENERS}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in {"PLAINTEXT": ports.clients, **own}.items())
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
    broker = EmbeddedBroker(
        folder / "broker",
        properties={
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{ports.controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "false",
            **_of_listeners(folder),
            **properties,
        },
        quick_start=True,
    )
    broker.start()
    return SecuredKafka(folder, broker, own)


def _of_listeners(folder: Path) -> dict[str, str]:
    own = {
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule required;",
        "listener.name.scram.plain.sasl.jaas.config": (
            f'{JAAS}.plain.PlainLoginModule required user_{PLAIN_USER}="{PLAIN_PASSWORD}";'
        ),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
    }
    for listener, certificate in SERVER_CERTIFICATES.items():
        name = f"listener.name.{listener.lower()}.ssl"
        own |= {
            f"{name}.keystore.type": "PEM",
            f"{name}.keystore.location": str(folder / f"{certificate}.pem"),
            f"{name}.truststore.type": "PEM",
            f"{name}.truststore.location": str(folder / "authority.pem"),
        }
    return own


def make_certificates(folder: Path) -> None:
    """Of the broker and its clients, good and bad, each with its key in one PEM file."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    other.cert_pem.write_to_path(folder / "other-authority.pem")
    past = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    made = {
        "broker": authority.issue_cert("127.0.0.1"),
        "expired": authority.issue_cert("127.0.0.1", not_after=past),
        "elsewhere": authority.issue_cert("kafka.example"),
        "client-expired": authority.issue_cert("client", common_name=user(Role.WORKER), not_after=past),
        "client-other": other.issue_cert("client", common_name=user(Role.WORKER)),
        **{f"client-{role.value}": authority.issue_cert("client", common_name=user(role)) for role in Role},
    }
    for name, certificate in made.items():
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        pem = key.private_bytes(
            # Java reads no other form.
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        (folder / f"{name}.pem").write_bytes(pem + chain)
