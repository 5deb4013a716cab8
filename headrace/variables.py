"""Every HEADRACE_* variable, and section of the settings' file, that something reads: a mistyped one is told by that.

They stand here as text: to ask the settings for it, a worker would have to load what a sink needs.
"""

import re
from collections.abc import Iterable, Mapping

from headrace.nearest import NEAR, nearest

PREFIX = "HEADRACE_"

_OF_SETTINGS = """
ACLS_ACTUATOR_GROUP ACLS_PRINCIPAL ACLS_PROCESS ACLS_SINK_GROUP ACLS_TOOL ACLS_WORKER_GROUP
ACTUATOR_ATTEMPTS ACTUATOR_DECISION_AGE_SECONDS ACTUATOR_DRY_RUN ACTUATOR_GROUP ACTUATOR_NAME
ACTUATOR_SESSION_TIMEOUT_SECONDS
ACTUATOR_FLEET_API ACTUATOR_FLEET_CALL_TIMEOUT_SECONDS
BROKER_DATA BROKER_FETCH_ONLY BROKER_HEAP_MB BROKER_PORT
COLLECT_ENDPOINT COLLECT_ENGINE_API_KEY COLLECT_OUT COLLECT_RECORDING COLLECT_REPLICA COLLECT_SPEED COLLECT_START
COLLECT_TIMEOUT_SECONDS
DEMO_DATA DEMO_NO_ACTUATOR DEMO_OPEN DEMO_SECONDS DEMO_SPEED
EXPLAIN_AT EXPLAIN_DECISION EXPLAIN_ENDPOINT EXPLAIN_JSON
EXPORT_ENDPOINT EXPORT_FROM EXPORT_OUT EXPORT_TO
FLEET_API_FILE FLEET_API_HOST FLEET_API_PORT FLEET_INSTANCE FLEET_JOURNAL FLEET_MESSAGES FLEET_SCENARIO
FLEET_SECONDS
BOOTSTRAP PARTITIONS SASL_MECHANISM SASL_PASSWORD SASL_PASSWORD_FILE SASL_USERNAME SECURITY_PROTOCOL SSL_CAFILE
SSL_CERTFILE SSL_CHECK_HOSTNAME SSL_KEYFILE SSL_PASSWORD SSL_PASSWORD_FILE TOPIC_PREFIX
POLICY_DELETE POLICY_FOLDER
HEALTH_FILE HEALTH_HOST HEALTH_PORT LOG_FORMAT LOG_LEVEL
REPLAY_OUT REPLAY_POLICIES REPLAY_TELEMETRY REPLAY_TOPICS
SINK_FLUSH_BYTES SINK_FLUSH_MESSAGES SINK_FLUSH_SECONDS SINK_GROUP SINK_MEMORY_BYTES SINK_READY_LAG
SINK_SESSION_TIMEOUT_SECONDS SINK_THREADS SINK_TOPICS
FORMAT SQL STORAGE_OPTIONS TABLES
TOPICS_REPLICATION_FACTOR TOPICS_RETENTION_BYTES
UP_DATA UP_POLICIES UP_TABLES UP_WORKERS
WORKER_GROUP WORKER_READY_LAG_SECONDS WORKER_SESSION_TIMEOUT_SECONDS WORKER_STALL_SECONDS
"""
_OF_OTHERS = "CACHE CLOCK_BASE CLOCK_SPEED CONFIG DATA"

SETTINGS = frozenset(PREFIX + name for name in _OF_SETTINGS.split())
"""Of all settings of all commands."""

_OF_FILES = "acls actuator actuator_fleet broker collect demo explain export fleet kafka policy process replay sink"

SECTIONS = frozenset(f"{_OF_FILES} tables topics up worker".split())
"""Of the settings' file."""

OTHERS = frozenset(PREFIX + name for name in _OF_OTHERS.split())
"""What is no setting: where things are, and which clock counts. DATA is where the tests find recordings."""

MISTYPED = 0.75
"""As near to another name is a slip of a hand, or a word too many or too few; farther off it may be somebody's own."""

_SERVICE_LINK = re.compile(r"HEADRACE(_\w+)?_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")
_LINKED_PORT = re.compile(r"(tcp|udp|sctp)://")


def misspelt(environment: Mapping[str, str], own: Iterable[str] = ()) -> list[str]:
    """One line for each variable that is near one that is read, but none; never its value. `own` are read too."""
    known = SETTINGS | OTHERS | set(own)
    near = {name: _nearest(name, known, MISTYPED) for name in _strange(environment, known)}
    return [f"{name}: nothing reads this variable (did you mean {meant}?)" for name, meant in near.items() if meant]


def misspelt_section(section: str, own: Iterable[str] = ()) -> str | None:
    """What is told of a section that is near one that is read, but none. `own` are read too."""
    known = SECTIONS | set(own)
    meant = None if section in known else nearest(section, known)
    return meant and f"[{section}]: nothing reads this section (did you mean [{meant}]?)"


def unread(environment: Mapping[str, str]) -> list[str]:
    """The variables that nothing reads, sorted, each with the name that it is a little like."""
    known = SETTINGS | OTHERS
    near = {name: _nearest(name, known, NEAR) for name in _strange(environment, known)}
    return [f"{name} (did you mean {meant}?)" if meant else name for name, meant in near.items()]


def _strange(environment: Mapping[str, str], known: frozenset[str]) -> list[str]:
    return sorted(
        name
        for name, value in environment.items()
        if name.startswith(PREFIX) and value and name not in known and not _is_service_link(name, value)
    )


def _is_service_link(name: str, value: str) -> bool:
    """Kubernetes gives each pod variables of each Service near it, and one may well be called `headrace-worker`."""
    is_port = name.endswith("_PORT") and _LINKED_PORT.match(value) is not None
    return is_port or _SERVICE_LINK.fullmatch(name) is not None


def _nearest(name: str, known: Iterable[str], least: float) -> str | None:
    """Compared without the prefix, which would make any two near."""
    meant = nearest(name.removeprefix(PREFIX), [word.removeprefix(PREFIX) for word in known], least)
    return meant and PREFIX + meant
