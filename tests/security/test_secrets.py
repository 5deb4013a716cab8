"""Passwords: where they come from, and where they are not seen."""

import asyncio
import io
import logging
import sys
from pathlib import Path

import pytest
from aiohttp import encode_basic_auth, web
from aiohttp.test_utils import TestServer
from aiokafka.protocol.admin import SaslAuthenticateRequest_v0

from actuators.fleet_api import FleetApi
from headrace.commands.actuator import FleetActuatorSettings
from headrace.commands.collect import CollectSettings
from headrace.exit_codes import CannotRunError
from headrace.logs import configure_logs
from headrace.secret_files import SECRET_BYTES_MAX
from headrace.settings import KafkaSettings, ProcessSettings, environment_of, load
from tests.security.conftest import printed_acls
from wire.acls import Role
from wire.kafka import KafkaAccess
from wire.web_logins import login_of, without_logins

SECRET = "hunter2-of-the-test"
SASL = {
    "HEADRACE_BOOTSTRAP": "kafka:9093",
    "HEADRACE_SECURITY_PROTOCOL": "SASL_SSL",
    "HEADRACE_SASL_MECHANISM": "SCRAM-SHA-512",
    "HEADRACE_SASL_USERNAME": "worker",
}


def loaded(**more: str) -> KafkaSettings:
    return load(KafkaSettings, {}, environment={**SASL, **more})


def test_a_password_comes_from_a_file_without_its_line_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(f"{SECRET}\r\n".encode())
    settings = loaded(HEADRACE_SASL_PASSWORD_FILE=str(file), HEADRACE_SSL_PASSWORD_FILE=str(file))
    assert settings.access().sasl_password == settings.access().ssl_password == SECRET
    assert SECRET not in repr(settings)
    assert environment_of(settings, "kafka")["HEADRACE_SASL_PASSWORD_FILE"] == str(file)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "sasl_password_file: FILE: No such file or directory"),
        (b"", "sasl_password_file: FILE: empty"),
        (b"\n", "sasl_password_file: FILE: empty"),
        (b"\xff\xfe", "sasl_password_file: FILE: no text in UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), f"sasl_password_file: FILE: more than {SECRET_BYTES_MAX} bytes"),
    ],
)
def test_a_file_that_holds_no_password_is_told(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CannotRunError) as caught:
        loaded(HEADRACE_SASL_PASSWORD_FILE=str(file))
    assert caught.value.message == told.replace("FILE", str(file))


def test_a_password_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="sasl_password, sasl_password_file: both are given") as caught:
        loaded(HEADRACE_SASL_PASSWORD=SECRET, HEADRACE_SASL_PASSWORD_FILE=str(tmp_path))
    assert SECRET not in caught.value.message
    with pytest.raises(CannotRunError, match="sasl_password or sasl_password_file: required by SASL_SSL"):
        loaded()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_log_holds_a_password(log_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a traceback with it among the local variables, nor aiokafka's requests at level debug."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    flags = {"log_format": log_format, "log_level": "debug"}
    configure_logs(load(ProcessSettings, flags, environment={}), "test")
    try:
        _fail(KafkaAccess(bootstrap="kafka:1", security_protocol="SASL_SSL", sasl_username="u", sasl_password=SECRET))
    except RuntimeError:
        logging.getLogger("headrace.test").exception("failed")
    request = SaslAuthenticateRequest_v0(f"\0u\0{SECRET}".encode())
    logging.getLogger("aiokafka.conn").debug("Request to %s:%d %d: %s", "kafka", 1, 1, request)
    logging.getLogger("headrace.test").debug("seen")
    assert "failed" in written.getvalue()
    assert "seen" in written.getvalue()
    assert "RuntimeError" in written.getvalue()
    assert SECRET not in written.getvalue()


def _fail(access: KafkaAccess) -> None:
    options = {"sasl_plain_password": access.sasl_password}
    raise RuntimeError(f"{len(options)} options")


@pytest.mark.parametrize(
    ("url", "place", "login"),
    [
        ("http://host:8090/v1", "http://host:8090/v1", None),
        ("https://user:p%40ss@host", "https://host", ("user", "p@ss")),
        ("http://token@[::1]:80", "http://[::1]:80", ("token", "")),
    ],
)
def test_a_login_is_taken_out_of_a_url(url: str, place: str, login: tuple[str, str] | None) -> None:
    assert login_of(url) == (place, login)
    assert without_logins(f"no {url}!") == (
        f"no {url}!" if login is None else f"no {place.replace('//', '//(hidden)@')}!"
    )


async def test_the_scale_api_gets_the_login_and_nobody_else() -> None:
    seen: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("authorization"))
        return web.Response(status=500, text="no")

    app = web.Application()
    app.router.add_get("/v1/targets", answer)
    async with TestServer(app) as server:
        url = f"http://user:{SECRET}@127.0.0.1:{server.port}"
        async with FleetApi(url) as api:
            assert SECRET not in str(await api.reach("me"))
    assert seen == [encode_basic_auth("user", SECRET)]
    async with FleetApi(url) as api:
        told = await asyncio.wait_for(api.reach("me"), 10)
    assert told is not None
    assert "no connection to http://127.0.0.1:" in told
    assert SECRET not in told


def test_urls_that_are_wrong_are_told_without_their_login() -> None:
    wrong = {"HEADRACE_ACTUATOR_FLEET_API": f"ftp://user:{SECRET}@host", "HEADRACE_BOOTSTRAP": "kafka:9092"}
    with pytest.raises(CannotRunError, match=r"ftp://\(hidden\)@host") as caught:
        load(FleetActuatorSettings, {}, environment=wrong)
    assert SECRET not in caught.value.message
    flags = {"endpoint": "e", "replica": [f"ftp://user:{SECRET}@host"], "bootstrap": "kafka:9092"}
    with pytest.raises(CannotRunError, match=r"ftp://\(hidden\)@host") as caught:
        load(CollectSettings, flags, environment={})
    assert SECRET not in caught.value.message
    good = load(CollectSettings, {**flags, "replica": [f"http://user:{SECRET}@host:80"]}, environment={})
    assert good.replicas == ("host:80",)


def test_the_printed_rights_follow_the_settings() -> None:
    (line,) = printed_acls(
        *("--process", "actuator", "--process", "producer", "--principal", "User:CN={process},O=we"),
        *("--bootstrap", "kafka:9093", "--tool", "kafka-acls --command-config 'a b'", "--actuator-group", "own"),
    )[:1]
    assert line == (
        "kafka-acls --command-config 'a b' --bootstrap-server kafka:9093 --add --allow-principal "
        "User:CN=producer,O=we --operation Write --topic secured.telemetry.gpus --topic secured.telemetry.replicas "
        "--topic secured.telemetry.requests --topic secured.telemetry.targets"
    )
    assert any(line.endswith("--operation Read --group own") for line in printed_acls("--actuator-group", "own"))
    users = {word for line in printed_acls() for word in line.split() if word.startswith("User:")}
    assert users == {f"User:headrace-{role.value}" for role in Role}
    with pytest.raises(AssertionError, match=r"--process: 'nobody', allowed: producer, .*analyst"):
        printed_acls("--process", "nobody")
