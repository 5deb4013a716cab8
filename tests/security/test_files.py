"""Files of certificates: one that cannot be used is told in one line, one that was read may go."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from structlog.testing import capture_logs

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.kafka_door import enter
from headrace.kafka_reach import KafkaReach
from headrace.settings import KafkaSettings, load
from headrace.tls_files import tls_file_problem
from wire.admission import RefusedError
from wire.kafka import KafkaAccess

SPOIL: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda file: None, "cannot be read: No such file or directory"),
    "a directory": (lambda file: file.mkdir(), "cannot be read: Is a directory"),
    "empty": (lambda file: file.touch(), "is empty"),
    "no PEM": (lambda file: file.write_text("none"), "in PEM form"),
}


@pytest.fixture
def access(tmp_path: Path) -> KafkaAccess:
    """To nobody, with a certificate of its own."""
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "own.pem"))
    own.private_key_pem.write_to_path(str(tmp_path / "own.key"))
    return KafkaAccess(
        bootstrap="127.0.0.1:9",
        security_protocol="SSL",
        ssl_cafile=str(tmp_path / "authority.pem"),
        ssl_certfile=str(tmp_path / "own.pem"),
        ssl_keyfile=str(tmp_path / "own.key"),
    )


@pytest.mark.parametrize("setting", ["ssl_cafile", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize("spoiled", SPOIL)
async def test_a_file_that_cannot_be_used_is_told_before_anything_connects(
    access: KafkaAccess, tmp_path: Path, spoiled: str, setting: str
) -> None:
    spoil, told = SPOIL[spoiled]
    spoil(tmp_path / "spoiled.pem")
    with pytest.raises(CannotRunError) as caught:
        await enter(replace(access, **{setting: str(tmp_path / "spoiled.pem")}), [])  # type: ignore[arg-type]  # texts
    assert caught.value.code is ExitCode.USAGE
    assert caught.value.message.startswith(f"{setting}: {tmp_path / 'spoiled.pem'}: ")
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def _locked(key: bytes) -> bytes:
    opened = serialization.load_pem_private_key(key, None)
    best = serialization.BestAvailableEncryption(b"of the key")
    return opened.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, best)


async def test_a_key_that_does_not_fit_is_told(access: KafkaAccess, tmp_path: Path) -> None:
    other, locked = tmp_path / "other.key", tmp_path / "locked.key"
    other.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
    locked.write_bytes(_locked((tmp_path / "own.key").read_bytes()))
    own = access.ssl_certfile
    wrong = {
        f"ssl_keyfile: {other}: is not the key of the certificate in {own}": {"ssl_keyfile": str(other)},
        f"ssl_keyfile: {own}: holds no private key in PEM form": {"ssl_keyfile": own},
        f"ssl_password, ssl_password_file: required to open the private key in {locked}, and the right one": {
            "ssl_keyfile": str(locked),
            "ssl_password": "another",
        },
    }
    for told, given in wrong.items():
        assert tls_file_problem(replace(access, **given)) == told  # type: ignore[arg-type]  # texts
    assert tls_file_problem(replace(access, ssl_keyfile=str(locked), ssl_password="of the key")) is None


def test_files_that_were_read_may_go(access: KafkaAccess, tmp_path: Path) -> None:
    """While a secret is exchanged its files are gone for a moment: clients that are made then go on with the old."""
    password = tmp_path / "password"
    password.write_text("of the test")
    settings = load(
        KafkaSettings,
        {},
        environment={
            "HEADRACE_BOOTSTRAP": "kafka:9093",
            "HEADRACE_SECURITY_PROTOCOL": "SASL_SSL",
            "HEADRACE_SASL_MECHANISM": "SCRAM-SHA-512",
            "HEADRACE_SASL_USERNAME": "worker",
            "HEADRACE_SASL_PASSWORD_FILE": str(password),
        },
    )
    context = access.ssl_context()
    for file in tmp_path.iterdir():
        file.unlink()
    assert settings.access().sasl_password == "of the test"
    assert replace(access, client_id="another").ssl_context() is context


def test_why_kafka_refuses_is_logged_once(access: KafkaAccess) -> None:
    reach = KafkaReach(access, "policies")
    with capture_logs() as lines:
        for _ in range(3):
            reach._tell(RefusedError("it does not accept the certificate"))
        reach._tell(OSError("away"))
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("kafka_refuses", "it does not accept the certificate")
    ]
