"""Where settings come from, which place wins, and what is told when they are wrong."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from headrace.exit_codes import CannotRunError
from headrace.flag_names import POSITIONAL
from headrace.settings import (
    KafkaSettings,
    LocalKafkaSettings,
    PartitionSettings,
    ProcessSettings,
    Settings,
    environment_of,
    load,
)
from headrace.variables import unread


class ExampleSettings(KafkaSettings, PartitionSettings, ProcessSettings):
    section: ClassVar[str] = "example"

    rate: float = Field(1.0, gt=0, le=10, description="How often.")
    colour: Literal["red", "green"] = Field("red", description="Which.")
    names: tuple[str, ...] = Field((), description="Several.")


GOOD: dict[str, object] = {"bootstrap": "h:1"}


def lines_of(flags: dict[str, object], environment: dict[str, str], config: Path | None = None) -> list[str]:
    with pytest.raises(CannotRunError) as caught:
        load(ExampleSettings, flags, config, environment)
    return caught.value.message.splitlines()


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text('[kafka]\nbootstrap = "file:1"\npartitions = 3\n[example]\nrate = 2.0\nnames = ["a", "b"]\n')
    environment = {"HEADRACE_BOOTSTRAP": "env:1", "HEADRACE_PARTITIONS": "4", "HEADRACE_EXAMPLE_RATE": "3"}
    loaded = load(ExampleSettings, {"bootstrap": "flag:1", "rate": None}, config, environment)
    assert (loaded.bootstrap, loaded.partitions, loaded.rate) == ("flag:1", 4, 3.0)
    assert loaded.names == ("a", "b")
    assert loaded.colour == "red"


def test_the_variable_names_the_file_too(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text('[kafka]\nbootstrap = "file:1"\n[other]\nanything = 1\n')
    assert load(ExampleSettings, {}, None, {"HEADRACE_CONFIG": str(config)}).bootstrap == "file:1"


def test_what_only_others_read_in_a_shared_section_is_no_mistake(tmp_path: Path) -> None:
    class Consumes(KafkaSettings):
        section: ClassVar[str] = "consumes"
        rate: float = 1.0

    config = tmp_path / "headrace.toml"
    config.write_text(
        '[kafka]\nbootstrap = "file:1"\npartitions = 3\npartition = 3\n[consumes]\nrate = 1\npartitions = 3\n'
    )
    with pytest.raises(CannotRunError) as caught:
        load(Consumes, {}, config, {"HEADRACE_PARTITIONS": "4"})
    assert caught.value.message.splitlines() == [
        f"{config}: [kafka] partition: unknown (did you mean partitions?)",
        f"{config}: [consumes] partitions: unknown (known: rate)",
    ]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("HEADRACE_EXAMPLE_RATES", "HEADRACE_EXAMPLE_RATE"),
        ("HEADRACE_KAFKA_BOOTSTRAP", "HEADRACE_BOOTSTRAP"),
        ("HEADRACE_WORKER_STALL_SECOND", "HEADRACE_WORKER_STALL_SECONDS"),
        ("HEADRACE_SASL_PASSWROD", "HEADRACE_SASL_PASSWORD"),
        ("HEADRACE_CLOCK_SPED", "HEADRACE_CLOCK_SPEED"),
    ],
)
def test_a_mistyped_variable_is_refused_without_its_value(given: str, meant: str) -> None:
    assert lines_of(dict(GOOD), {given: "hunter2"}) == [f"{given}: nothing reads this variable (did you mean {meant}?)"]


def test_a_mistyped_section_of_the_file_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text("[wroker]\nstall_seconds = 30\n[exampel]\nrate = 2\n[sink]\nthreads = 1\n[mine]\nx = 1\n")
    assert lines_of(dict(GOOD), {}, config) == [
        f"{config}: [wroker]: nothing reads this section (did you mean [worker]?)",
        f"{config}: [exampel]: nothing reads this section (did you mean [example]?)",
    ]


@pytest.mark.parametrize(
    "variable",
    [
        ("HEADRACE_WORKER_STALL_SECONDS", "30"),
        ("HEADRACE_WORKER_STALL_SECOND", ""),
        ("HEADRACE_HOME", "/opt"),
        ("HEADRACE_PORT", "80"),
        ("HEADRACE_TEST_SEED", "1"),
        ("HEADRACE_WORKER_PORT", "tcp://10.0.0.1:8080"),
        ("HEADRACE_WORKER_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("HEADRACE_HEALTH_SERVICE_HOST", "10.0.0.1"),
        ("HEADRACE_SERVICE_PORT_HTTP", "80"),
        ("HEADRACED_BOOTSTRAP", "h:1"),
    ],
    ids=lambda variable: "=".join(variable),
)
def test_what_is_of_others_is_left_alone(variable: tuple[str, str]) -> None:
    assert load(ExampleSettings, dict(GOOD), None, dict([variable])).bootstrap == "h:1"


def test_what_nothing_reads_is_known_by_name() -> None:
    given = {"HEADRACE_HOME": "/opt", "HEADRACE_BOOTSTRAP": "h:1", "HEADRACE_PORT": "udp://10.0.0.1:1", "PATH": "/"}
    assert unread(given) == ["HEADRACE_HOME"]
    assert unread({"HEADRACE_BOOTSTRAP_SERVERS": "h:1"}) == [
        "HEADRACE_BOOTSTRAP_SERVERS (did you mean HEADRACE_BOOTSTRAP?)"
    ]


def test_a_name_that_python_keeps_for_itself_is_plain_in_every_place(tmp_path: Path) -> None:
    class Range(Settings):
        section: ClassVar[str] = "range"
        from_: int = 0

    config = tmp_path / "headrace.toml"
    config.write_text("[range]\nfrom = 3\n")
    assert load(Range, {}, config, {}).from_ == 3
    assert load(Range, {}, None, {"HEADRACE_RANGE_FROM": "4"}).from_ == 4
    with pytest.raises(CannotRunError, match="--from: 'x', allowed: a whole number"):
        load(Range, {"from_": "x"}, None, {})


def test_a_list_in_a_variable_is_split_at_commas() -> None:
    loaded = load(ExampleSettings, dict(GOOD), None, {"HEADRACE_EXAMPLE_NAMES": "a, b"})
    assert loaded.names == ("a", "b")


def test_all_errors_are_told_at_once_with_place_value_and_range(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text('[kafka]\npartitions = 0\ntopic_prefx = "x"\n[example]\ncolour = "blue"\n')
    lines = lines_of({"rate": "eleven"}, {"HEADRACE_HEALTH_PORT": "70000"}, config)
    expected = [
        f"{config}: [kafka] topic_prefx: unknown (did you mean topic_prefix?)",
        "--bootstrap: required:",
        f"{config}: [kafka] partitions: 0, allowed: 1 to 1000",
        "HEADRACE_HEALTH_PORT: '70000', allowed: 0 to 65535",
        "--rate: 'eleven', allowed: above 0 to 10",
        f"{config}: [example] colour: 'blue', allowed: red or green",
    ]
    assert len(lines) == len(expected)
    for wanted in expected:
        assert [line for line in lines if line.startswith(wanted)], wanted


class TextSettings(Settings):
    section: ClassVar[str] = "text"

    group: str | None = Field(None, min_length=1, description="One.")
    name: str = Field("x", min_length=2, max_length=9, description="Another.")


def test_a_text_of_a_wrong_length_is_told_its_range() -> None:
    with pytest.raises(CannotRunError) as caught:
        load(TextSettings, {"group": "", "name": "long" * 3}, environment={})
    assert caught.value.message.splitlines() == [
        "--group: '', allowed: text of at least 1 character",
        "--name: 'longlonglong', allowed: text of 2 to 9 characters",
    ]


@pytest.mark.parametrize("host", ["a..b", ".a", "x" * 64, "", " ", "a\udcff", "\u00df" * 63, "http://localhost"])
def test_a_host_that_nobody_can_be_asked_for_is_refused(host: str) -> None:
    """To look it up raises UnicodeError, which no client expects."""
    lines = lines_of({"bootstrap": f"{host}:9092", "health_host": host}, {})
    assert [line.partition(":")[0] for line in lines] == ["--health-host", "--bootstrap"]
    assert lines[0].endswith("allowed: a host name or an IP address")
    assert "allowed: HOST:PORT" in lines[1]


@pytest.mark.parametrize(
    "host", ["localhost", "10.0.0.1", "[::1]", "kafka-0.kafka.svc.cluster.local.", "b\u00fccher.example"]
)
def test_a_host_that_may_be_there_is_taken(host: str) -> None:
    assert load(LocalKafkaSettings, {"bootstrap": f"{host}:9092"}, None, {}).bootstrap == f"{host}:9092"


@pytest.mark.parametrize(
    "address", ["::1:9092", "kafka:9092:9093", "PLAINTEXT://kafka:9092", "kafka:9092/", "[::1:9092"]
)
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    (line,) = lines_of({"bootstrap": address}, {})
    assert line.startswith(f"--bootstrap: {address!r}, allowed: HOST:PORT")


def test_contradictions_among_kafka_settings_are_told_together() -> None:
    lines = lines_of({"bootstrap": "h:1,nowhere", "security_protocol": "SASL_SSL"}, {})
    assert [line.split(":")[0] for line in lines] == [
        "--bootstrap",
        "sasl_username, sasl_password or sasl_password_file",
    ]


def test_a_wrong_field_hides_no_contradiction_of_others(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text('[kafka]\nbootstrap = "kafka"\nssl_cafile = "ca.pem"\n')
    lines = lines_of({"partitions": "0"}, {"HEADRACE_SASL_USERNAME": "me"}, config)
    assert lines == [
        "--partitions: '0', allowed: 1 to 1000",
        f"{config}: [kafka] bootstrap: 'kafka', allowed: HOST:PORT with a port of 1 to 65535, several with commas",
        "sasl_username: given, but PLAINTEXT does not authenticate (hint: SASL_SSL)",
        "ssl_cafile: given, but PLAINTEXT does not encrypt (hint: SSL or SASL_SSL)",
    ]


def test_a_check_that_reads_a_wrong_field_is_left_out() -> None:
    lines = lines_of({**GOOD, "security_protocol": "TLS"}, {"HEADRACE_SASL_USERNAME": "me"})
    assert [line.split(":")[0] for line in lines] == ["--security-protocol"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_USERNAME": "me"},
            "sasl_password or sasl_password_file: required by SASL_SSL",
        ),
        ({"SECURITY_PROTOCOL": "SASL_SSL", "SASL_PASSWORD": "hunter2"}, "sasl_username: required by SASL_SSL"),
        (
            {"SASL_USERNAME": "me", "SASL_PASSWORD": "hunter2"},
            "sasl_username, sasl_password: given, but PLAINTEXT does not authenticate (hint: SASL_SSL)",
        ),
        (
            {"SASL_PASSWORD": "hunter2"},
            "sasl_password: given, but PLAINTEXT does not authenticate (hint: SASL_SSL)",
        ),
        (
            {"SECURITY_PROTOCOL": "SSL", "SSL_KEYFILE": "own.key"},
            "ssl_keyfile: given without ssl_certfile, the certificate that it belongs to",
        ),
        (
            {"SSL_CERTFILE": "own.pem", "SSL_KEYFILE": "own.key"},
            "ssl_certfile, ssl_keyfile: given, but PLAINTEXT does not encrypt (hint: SSL or SASL_SSL)",
        ),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, dict) else "",
)
def test_half_of_what_belongs_together_is_told(given: dict[str, str], told: str) -> None:
    assert lines_of(dict(GOOD), {f"HEADRACE_{name}": value for name, value in given.items()}) == [told]


def test_a_secret_is_never_shown() -> None:
    environment = {"HEADRACE_SASL_PASSWORD": "hunter2", "HEADRACE_SASL_USERNAME": "me", "HEADRACE_PARTITIONS": "x"}
    told = "\n".join(lines_of({**GOOD, "security_protocol": "SASL_PLAINTEXT"}, environment))
    assert "hunter2" not in told
    good = load(
        ExampleSettings,
        {**GOOD, "security_protocol": "SASL_PLAINTEXT"},
        None,
        environment | {"HEADRACE_PARTITIONS": ""},
    )
    assert "hunter2" not in repr(good)
    assert good.access().sasl_password == "hunter2"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[kafka", "cannot be read as TOML"),
        (b"\xff", "cannot be read as TOML"),
        (b"bootstrap = 'x'", "inside a section"),
    ],
    ids=["half a table", "no UTF-8", "outside a section"],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    config = tmp_path / "headrace.toml"
    config.write_bytes(content)
    lines = lines_of(dict(GOOD), {}, config)
    assert len(lines) == 1
    assert str(config) in lines[0]
    assert told in lines[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in lines_of(dict(GOOD), {}, tmp_path / "absent.toml")[0]


def test_a_child_is_given_the_same_kafka(tmp_path: Path) -> None:
    environment = {
        "HEADRACE_BOOTSTRAP": "h:1",
        "HEADRACE_SECURITY_PROTOCOL": "SASL_SSL",
        "HEADRACE_SASL_USERNAME": "me",
        "HEADRACE_SASL_PASSWORD": "hunter2",
        "HEADRACE_SSL_CHECK_HOSTNAME": "false",
    }
    parent = load(LocalKafkaSettings, {}, None, environment)
    child = load(KafkaSettings, {}, None, environment_of(parent, "kafka"))
    assert child.access() == parent.access_to("h:1")
    assert not child.ssl_check_hostname


def test_a_positional_setting_is_asked_for_by_its_place() -> None:
    class Given(Settings):
        section: ClassVar[str] = "given"
        folder: Annotated[Path, POSITIONAL] = Field(description="Where.")

    with pytest.raises(CannotRunError, match=r"^FOLDER: required: Where\. \(or HEADRACE_GIVEN_FOLDER"):
        load(Given, {}, None, {})


def test_a_class_without_a_section_is_a_bug() -> None:
    with pytest.raises(TypeError, match="section"):
        type("Nameless", (KafkaSettings,), {"__module__": __name__})
