"""Settings of every process: flags over `HEADRACE_*` variables over a TOML file over defaults, checked as a whole.

A settings class is a frozen pydantic model; its fields are the flags (`health_port`: `--health-port`), the variables
and the keys in the file's section. Variables of what many commands share are short (`HEADRACE_HEALTH_PORT`), those of
one command name its section (`HEADRACE_BROKER_PORT`). Nothing but `load` reads the environment or the file, and it
reports all that is wrong at once.
"""

import os
import tomllib
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import pydantic
from pydantic import Field, SecretStr
from pydantic_core import ErrorDetails

from headrace.exit_codes import CannotRunError
from headrace.flag_names import flag_of, is_positional
from headrace.host_name import HostName
from headrace.kafka_address import ADDRESSES
from headrace.nearest import did_you_mean
from headrace.secret_files import secret_file_problems, secret_of
from headrace.setting_checks import check, contradictions, without
from headrace.setting_ranges import allowed_text, is_secret
from headrace.variables import PREFIX, misspelt, misspelt_section
from wire.access_checks import TLS_FILES, sasl_problems, tls_problems
from wire.kafka import KafkaAccess
from wire.topics import TopicNames
from wire.web_logins import without_logins

CONFIG_VARIABLE = "HEADRACE_CONFIG"
SHARED_SECTIONS = ("kafka", "process", "tables")

M = TypeVar("M", bound="Settings")


class Settings(pydantic.BaseModel):
    """Base of all settings. `section` is the table of the file that holds the fields defined in that class.

    What contradicts is told by methods marked with `check`; those that read a field in `unknown` are left out. The file
    may hold `of_others` too, (section, key): only some of those who share a section read them.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    section: ClassVar[str]
    of_others: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    unknown: ClassVar[frozenset[str]] = frozenset()

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = contradictions(self, self.unknown)
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        if "section" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} needs its own `section: ClassVar[str]`")

    @classmethod
    def home_of(cls, field: str) -> type["Settings"]:
        """The class that introduced a field."""
        return [base for base in cls.__mro__ if issubclass(base, Settings) and field in base.model_fields][-1]

    @classmethod
    def section_of(cls, field: str) -> str:
        """The file's section of a field."""
        return cls.home_of(field).section

    @classmethod
    def variable_of(cls, field: str) -> str:
        """The environment variable of a field."""
        section = cls.section_of(field)
        return PREFIX + (field if section in SHARED_SECTIONS else f"{section}_{field}").rstrip("_").upper()


class ClusterSettings(Settings):
    """How to speak to Kafka, wherever it is; the address is left to the subclasses."""

    section: ClassVar[str] = "kafka"
    of_others: ClassVar[frozenset[tuple[str, str]]] = frozenset({("kafka", "partitions")})

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Whether Kafka's clients encrypt (SSL) and authenticate (SASL)."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN", description="How to authenticate."
    )
    sasl_username: str | None = Field(
        None,
        description="User name for PLAIN and SCRAM; its password by HEADRACE_SASL_PASSWORD, the settings' file, or a "
        "file of its own.",
    )
    sasl_password: SecretStr | None = Field(None, description="Its password.")
    sasl_password_file: Path | None = Field(None, description="File that holds the password and nothing else.")
    ssl_cafile: Path | None = Field(None, description="PEM file of the authorities to trust; default: the system's.")
    ssl_certfile: Path | None = Field(None, description="PEM file of the client's certificate.")
    ssl_keyfile: Path | None = Field(None, description="PEM file of its private key.")
    ssl_password: SecretStr | None = Field(None, description="Password of the private key.")
    ssl_password_file: Path | None = Field(None, description="File that holds the private key's password.")
    ssl_check_hostname: bool = Field(True, description="Whether the broker's certificate must name the broker.")
    topic_prefix: str = Field(
        "", max_length=200, pattern="^[a-zA-Z0-9._-]*$", description="Goes before the name of every topic."
    )

    @check("security_protocol", "sasl_mechanism", "sasl_username", "sasl_password", "sasl_password_file")
    def _who_is_told(self) -> list[str]:
        has_password = self.sasl_password is not None or self.sasl_password_file is not None
        return sasl_problems(self.security_protocol, self.sasl_mechanism, self.sasl_username, has_password)

    @check("security_protocol", "ssl_cafile", "ssl_certfile", "ssl_keyfile")
    def _files_are_used(self) -> list[str]:
        return tls_problems(self.security_protocol, [name for name in TLS_FILES if getattr(self, name) is not None])

    @check("sasl_password", "sasl_password_file", "ssl_password", "ssl_password_file")
    def _passwords_are_there(self) -> list[str]:
        return [
            *secret_file_problems("sasl_password", self.sasl_password, self.sasl_password_file),
            *secret_file_problems("ssl_password", self.ssl_password, self.ssl_password_file),
        ]

    @property
    def topic_names(self) -> TopicNames:
        return TopicNames(self.topic_prefix)

    def access_to(self, bootstrap: str, client_id: str = "headrace") -> KafkaAccess:
        """Raises ValueError with every contradiction, one a line."""
        return KafkaAccess(
            bootstrap=bootstrap,
            security_protocol=self.security_protocol,
            sasl_mechanism=self.sasl_mechanism,
            sasl_username=self.sasl_username,
            sasl_password=secret_of(self.sasl_password, self.sasl_password_file),
            ssl_cafile=_plain(self.ssl_cafile),
            ssl_certfile=_plain(self.ssl_certfile),
            ssl_keyfile=_plain(self.ssl_keyfile),
            ssl_password=secret_of(self.ssl_password, self.ssl_password_file),
            ssl_check_hostname=self.ssl_check_hostname,
            client_id=client_id,
        )


class KafkaSettings(ClusterSettings):
    """A command that needs a Kafka that runs already."""

    section: ClassVar[str] = "kafka"

    bootstrap: Annotated[str, ADDRESSES] = Field(
        description="Kafka's address: HOST:PORT, several with commas. `headrace broker` runs one and prints its own."
    )

    def access(self, client_id: str = "headrace") -> KafkaAccess:
        return self.access_to(self.bootstrap, client_id)


class PartitionSettings(ClusterSettings):
    """A command that makes the topics, or judges them."""

    section: ClassVar[str] = "kafka"

    partitions: int = Field(12, ge=1, le=1000, description="Partitions of each topic: so many workers can have work.")


class LocalKafkaSettings(PartitionSettings):
    """A command that runs a Kafka of its own unless it is given one."""

    section: ClassVar[str] = "kafka"

    bootstrap: Annotated[str | None, ADDRESSES] = Field(
        None, description="Kafka's address, HOST:PORT, several with commas; default: an embedded broker is run."
    )


class ProcessSettings(Settings):
    """What every long-running process has."""

    section: ClassVar[str] = "process"

    health_host: HostName = Field(
        "127.0.0.1", description="Address on which /healthz, /readyz and /metrics are served."
    )
    health_port: int = Field(0, ge=0, le=65_535, description="Their port; 0 takes a free one and logs it.")
    health_file: Path | None = Field(None, description="File that gets their address (HOST:PORT) once it is served.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="auto: console on a terminal, else one JSON object a line; always on stderr."
    )


class Given(NamedTuple):
    """A value as it was given, and the words for where."""

    value: object
    origin: str


def load(
    model: type[M],
    flags: Mapping[str, object],
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> M:
    """Flags (None: not given) over the environment over the file (`config`, else HEADRACE_CONFIG) over defaults.

    Raises CannotRunError with one line for each setting that is wrong: where it came from, its value, what is allowed.
    """
    path = config or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)
    given, problems = _from_file(model, path) if path else ({}, [])
    problems += misspelt(environment, map(model.variable_of, model.model_fields))
    for name in model.model_fields:
        variable = model.variable_of(name)
        if environment.get(variable):
            text = environment[variable]
            is_list = typing.get_origin(model.model_fields[name].annotation) is tuple
            given[name] = Given([part.strip() for part in text.split(",")] if is_list else text, variable)
        if flags.get(name) not in (None, []):
            given[name] = Given(flags[name], flag_of(name))
    try:
        loaded = model.model_validate({name: entry.value for name, entry in given.items()})
    except pydantic.ValidationError as error:
        problems += [line for wrong in error.errors() for line in _problem_lines(model, given, wrong)]
        wrong_fields = frozenset(str(wrong["loc"][0]) for wrong in error.errors() if wrong["loc"])
        problems += _other_contradictions(model, given, wrong_fields)
    if problems:
        raise CannotRunError("\n".join(problems))
    return loaded


def environment_of(settings: Settings, section: str) -> dict[str, str]:
    """The variables that give a child process the same values of one section; secrets too, so for children alone."""
    variables = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if type(settings).section_of(name) == section and value is not None:
            shown = value.get_secret_value() if isinstance(value, SecretStr) else value
            variables[type(settings).variable_of(name)] = str(shown)
    return variables


def _from_file(model: type[Settings], path: Path) -> tuple[dict[str, Given], list[str]]:
    """The file's values for this model; sections of other commands are left to them."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CannotRunError(f"{path}: cannot be read as TOML: {error}") from error
    fields = {(model.section_of(name), name.rstrip("_")): name for name in model.model_fields}
    given: dict[str, Given] = {}
    problems: list[str] = []
    for section, table in tables.items():
        if not isinstance(table, dict):
            problems.append(f"{path}: {section}: {table!r}, allowed: inside a section, such as [kafka]")
            continue
        if told := misspelt_section(section, (home for home, _ in fields)):
            problems.append(f"{path}: {told}")
        known = {key for home, key in fields if home == section}
        others = {key for home, key in model.of_others if home == section}
        for key, value in table.items():
            if key in known:
                given[fields[section, key]] = Given(value, f"{path}: [{section}] {key}")
            elif known and key not in others:
                problems.append(f"{path}: [{section}] {key}: unknown{did_you_mean(key, {*known, *others})}")
    return given, problems


def _other_contradictions(model: type[Settings], given: Mapping[str, Given], wrong: frozenset[str]) -> list[str]:
    """What contradicts among the fields that are right: pydantic looks for it only where no field is wrong."""
    if not wrong:
        return []
    try:
        without(model, wrong).model_validate({name: entry.value for name, entry in given.items() if name not in wrong})
    except pydantic.ValidationError as error:
        return [line for other in error.errors() for line in _problem_lines(model, given, other)]
    return []


def _problem_lines(model: type[Settings], given: Mapping[str, Given], wrong: ErrorDetails) -> Iterator[str]:
    if not wrong["loc"]:
        yield from str(wrong["ctx"]["error"]).splitlines()
        return
    name = str(wrong["loc"][0])
    field = model.model_fields[name]
    if wrong["type"] == "missing":
        section, variable = model.section_of(name), model.variable_of(name)
        flag = name.upper() if is_positional(field) else flag_of(name)
        yield f"{flag}: required: {field.description} (or {variable}, or {name} in [{section}] of the file)"
        return
    entry = given[name]
    value = "(hidden)" if is_secret(field) else without_logins(repr(entry.value))
    yield f"{entry.origin}: {value}, allowed: {allowed_text(field) or wrong['msg']}"


def _plain(value: Path | None) -> str | None:
    return None if value is None else str(value)
