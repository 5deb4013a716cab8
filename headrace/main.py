"""The command line. A command's module is imported when it is called, so a worker never loads what a sink needs."""

import gc
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from types import ModuleType
from typing import Annotated

import typer

from headrace.exit_codes import CannotRunError, ExitCode
from headrace.flags import new_app
from headrace.standard_output import OutputLostError, flush_output, output_lost, watch_output

HELP = """Per-second telemetry of model servers in, scaling decisions with reasons out.

Telemetry goes through Kafka; workers compute windows, signals and decisions from it; the sink keeps every topic in
Delta tables. On one machine, with everything included:

    headrace demo                      a fleet that follows its load, and says why
    headrace up --policies DIR         broker, workers and sink for your own telemetry

Against a cluster, each of these takes --bootstrap HOST:PORT (HEADRACE_BOOTSTRAP):

    headrace topics create             make the topics
    headrace policy apply DIR          publish what you want for each endpoint
    headrace worker                    decide; start as many as you like
    headrace actuator fleet            carry decisions out
    headrace sink --tables DIR         keep everything
    headrace collect                   read an engine's /metrics into Kafka

Every setting is a flag, a variable HEADRACE_* or a line of a TOML file (--config). `headrace COMMAND --help` has them.
"""

COMMANDS = {
    "up": "Run everything on this machine: broker, topics, policies, workers, sink.",
    "demo": "Show a fleet that follows its load, or with `engine` the line with real engines.",
    "broker": "Run a real Apache Kafka alone, and print its address.",
    "topics": "Create, list or check the topics.",
    "policy": "Check a folder of policies, or publish it.",
    "worker": "Compute windows, signals and decisions of some partitions.",
    "actuator": "Carry out decisions on scale targets, and tell what came of each.",
    "sink": "Write every topic into its Delta table, each record once.",
    "collect": "Turn an engine's /metrics, or a recording of it, into telemetry.",
    "fleet": "Run a simulated fleet that reports as a real one and is scaled over HTTP.",
    "replay": "Compute the decisions of a file of telemetry.",
    "explain": "Say in plain words why an endpoint was scaled as it was.",
    "export": "Write a replay file from what Kafka holds.",
    "tables": "List, query or check the Delta tables.",
}

app = new_app(HELP)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def _options(
    is_version_asked: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _lazy(name: str) -> Callable[[typer.Context], None]:
    def call(context: typer.Context) -> None:
        module = _import_command(name)
        try:
            code = module.app(args=context.args, prog_name=f"headrace {name}", standalone_mode=False)
        except (KeyboardInterrupt, typer.Abort):
            code = ExitCode.INTERRUPTED
        except (OutputLostError, BrokenPipeError) as error:
            raise output_lost(error) from error
        flush_output()
        raise typer.Exit(code or ExitCode.OK)

    return call


def _import_command(name: str) -> ModuleType:
    """What a module makes stays: looking for garbage in it again and again takes a tenth of a command's start."""
    gc.disable()
    try:
        return importlib.import_module(f"headrace.commands.{name}")
    finally:
        gc.freeze()
        gc.enable()


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help, context_settings=dict(_PASS_ON), add_help_option=False)(_lazy(_name))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its status; what a user did wrong is told without a traceback."""
    try:
        watch_output()
        try:
            app(args=arguments, prog_name="headrace")
        except OutputLostError as error:
            raise output_lost(error) from error
    except CannotRunError as error:
        error.tell()
        sys.exit(error.code)
    except KeyboardInterrupt:  # before a command runs: while its modules are imported, which takes a second or two
        sys.exit(ExitCode.INTERRUPTED)
    except Exception:
        traceback.print_exc()
        sys.exit(ExitCode.BUG)


if __name__ == "__main__":
    main()
