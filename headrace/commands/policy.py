"""`headrace policy`: check a folder, publish it."""

from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import Field

from decisions.chain import policy_hash
from headrace.clock import Clock
from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import POSITIONAL, new_app, settings_command
from headrace.one_shot import ask_kafka
from headrace.policies.folder import load_folder
from headrace.policies.topic import Changes, publish
from headrace.settings import KafkaSettings, Settings
from records.policy import EndpointPolicy
from wire.acls import Role, rights_of

app = new_app(
    """Check a folder of policies, or publish it.

    A folder holds one YAML file for each endpoint, and models/*.yaml with what a request costs on a model and
    hardware. The smallest policy:

        endpoint: chat
        scaleTargetRef: {kind: Deployment, name: chat}
        minReplicas: 1
        maxReplicas: 8
        metrics: [{name: inflight_requests}]
    """
)


class CheckSettings(Settings):
    section: ClassVar[str] = "policy"

    folder: Annotated[Path, POSITIONAL] = Field(description="Folder with one YAML file for each endpoint.")


@settings_command(app, CheckSettings, name="check")
def check(settings: CheckSettings) -> ExitCode:
    """Tell everything that is wrong with a folder of policies, one line each: FILE:LINE: FIELD: VALUE, what is allowed.

    It needs no Kafka. Notes name what is accepted and not acted on by this version.

    Example:
        headrace policy check policies/
    """
    loaded = load_folder(settings.folder)
    for note in loaded.notes:
        typer.echo(f"{note} (note)")
    for policy in loaded.policies:
        typer.echo(f"{policy.endpoint}: good, {_summary(policy)}")
    return ExitCode.OK


class ApplySettings(KafkaSettings):
    section: ClassVar[str] = "policy"

    folder: Annotated[Path | None, POSITIONAL] = Field(None, description="Folder with one YAML file for each endpoint.")
    delete: tuple[str, ...] = Field((), description="Endpoint whose policy is deleted; may be repeated.")


@settings_command(app, ApplySettings, name="apply", exits=[ExitCode.UNAVAILABLE, ExitCode.REFUSED, ExitCode.PARTITIONS])
def apply(settings: ApplySettings) -> ExitCode:
    """Publish a folder of policies to Kafka, where the workers find them, and say what changed.

    Nothing is published when any file is wrong. Policies on the topic that are not in the folder stay, and are named;
    --delete removes one.

    Example:
        headrace policy apply policies/ --bootstrap 127.0.0.1:9092
        headrace policy apply --delete old-endpoint --bootstrap 127.0.0.1:9092
    """
    if settings.folder is None and not settings.delete:
        raise CannotRunError("FOLDER: required, or --delete ENDPOINT")
    loaded = load_folder(settings.folder) if settings.folder else None
    policies = loaded.policies if loaded else ()
    contradicted = sorted({policy.endpoint for policy in policies} & set(settings.delete))
    if contradicted:
        raise CannotRunError(f"--delete: {', '.join(contradicted)}, allowed: endpoints without a file in the folder")
    for note in loaded.notes if loaded else ():
        typer.echo(f"{note} (note)")
    clock = Clock.from_environment()
    access, names = settings.access(), settings.topic_names
    rights = rights_of(Role.POLICY, names)
    _tell(ask_kafka(access, rights, lambda: publish(access, names, policies, settings.delete, clock)))
    return ExitCode.OK


def _tell(changes: Changes) -> None:
    for endpoint in changes.created:
        typer.echo(f"{endpoint}: created")
    for endpoint, keys in changes.changed.items():
        typer.echo(f"{endpoint}: changed {', '.join(keys)}")
    for endpoint in changes.unchanged:
        typer.echo(f"{endpoint}: unchanged")
    for endpoint in changes.deleted:
        typer.echo(f"{endpoint}: deleted")
    for endpoint in changes.absent:
        typer.echo(f"{endpoint}: was not there, nothing to delete")
    for endpoint in changes.kept:
        typer.echo(f"{endpoint}: stays, though it is not in the folder (--delete {endpoint} removes it)")


def _summary(policy: EndpointPolicy) -> str:
    metrics = ", ".join(metric.name for metric in policy.metrics)
    return (
        f"{policy.min_replicas} to {policy.max_replicas} replicas by {metrics}, policy_hash {policy_hash(policy)[:12]}"
    )
