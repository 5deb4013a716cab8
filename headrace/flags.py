"""Command-line flags made from a settings class, so that a setting is described in one place."""

import inspect
import os
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic.fields import FieldInfo

from headrace.exit_codes import ExitCode, explain
from headrace.flag_names import POSITIONAL, flag_of, is_positional
from headrace.setting_ranges import allowed_text, is_secret, without_none
from headrace.settings import CONFIG_VARIABLE, Settings, load

__all__ = ["POSITIONAL", "models_of", "new_app", "settings_command", "unwrapped"]

M = TypeVar("M", bound=Settings)


def new_app(help_text: str | None = None) -> typer.Typer:
    """A Typer application that looks as all commands of Headrace do. One with a `help_text` has commands of its own."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode="rich",
        help=unwrapped(help_text or "") or None,
        pretty_exceptions_enable=False,
        no_args_is_help=help_text is not None,
    )


def settings_command(
    app: typer.Typer, model: type[M], name: str | None = None, exits: Iterable[ExitCode] = ()
) -> Callable[[Callable[[M], ExitCode | None]], Callable[[M], ExitCode | None]]:
    """Register `function(settings) -> exit code` (None: 0) under the flags of `model`.

    The function's docstring is the help; `exits` are the statuses it may end with beside 0 and 2. Values arrive as
    text and are checked by `load`, all at once. Secrets have no flag: a command line is seen by every user.
    """

    def register(function: Callable[[M], ExitCode | None]) -> Callable[[M], ExitCode | None]:
        def run(config: Path | None, **flags: object) -> None:
            if config is not None:
                os.environ[CONFIG_VARIABLE] = str(config)  # for child processes, which read their own sections
            code = function(load(model, flags, config))
            raise typer.Exit(ExitCode.OK if code is None else code)

        own_first = sorted(model.model_fields.items(), key=lambda item: model.__mro__.index(model.home_of(item[0])))
        parameters = [_parameter(model, field, info) for field, info in own_first if not is_secret(info)]
        run.__signature__ = inspect.Signature([_CONFIG, *parameters])  # type: ignore[attr-defined]  # read by Typer
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in [_CONFIG, *parameters]}
        run.__doc__ = unwrapped(function.__doc__ or "")
        run.settings_model = model  # type: ignore[attr-defined]  # read by models_of
        app.command(name, epilog=explain({ExitCode.OK, ExitCode.USAGE, *exits}))(run)
        return function

    return register


def models_of(app: typer.Typer) -> dict[str, type[Settings]]:
    """The settings of an application's commands, by the command's name; a single command's is empty."""
    callbacks = {info.name: info.callback for info in app.registered_commands}
    is_group = len(callbacks) > 1 or app.registered_callback is not None
    return {(name or "") if is_group else "": callback.settings_model for name, callback in callbacks.items()}  # type: ignore[union-attr]  # set by settings_command


def unwrapped(text: str) -> str:
    """Help text with each paragraph on one line, for the terminal to wrap; indented examples stay as they are."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if "\n    " in f"\n{part}" else " ".join(part.split()) for part in paragraphs)


_CONFIG = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Option(
            help=r"TOML file with settings, in sections such as \[kafka] (HEADRACE_CONFIG).", rich_help_panel="Options"
        ),
    ],
)


def _parameter(model: type[Settings], name: str, info: FieldInfo) -> inspect.Parameter:
    annotation = without_none(info.annotation)
    shown = _help(info)
    if is_positional(info):
        kind: Any = str | None
        option: Any = typer.Argument(help=shown, show_default=False, metavar=name.upper())
    elif annotation is bool and info.default is False:
        kind = bool | None
        option = typer.Option(flag_of(name), help=shown, rich_help_panel=_panel(model, name))
    else:
        kind = list[str] | None if typing.get_origin(annotation) is tuple else str | None
        option = typer.Option(
            flag_of(name), help=shown, metavar=_metavar(annotation), rich_help_panel=_panel(model, name)
        )
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])


def _help(info: FieldInfo) -> str:
    facts = []
    if info.is_required():
        facts.append("required")
    elif info.default_factory is None and info.default is not False and info.default not in (None, "", ()):
        facts.append(f"default: {info.default}")
    annotation = without_none(info.annotation)
    if (
        annotation in (int, float)
        or (annotation is bool and info.default)
        or typing.get_origin(annotation) is typing.Literal
    ):
        facts.append(allowed_text(info))
    told = f" ({'; '.join(facts)})" if facts else ""
    return f"{info.description or ''}{told}".strip().replace("[", r"\[")


def _metavar(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return "NAME"
    return {int: "N", float: "NUMBER", Path: "PATH", bool: "BOOL"}.get(annotation, "TEXT")


def _panel(model: type[Settings], name: str) -> str:
    """The title of a section's flags, which also tells their other two places."""
    section = model.section_of(name)
    variable = model.variable_of(name).removesuffix(name.upper())
    return rf"{section} (or {variable}*, or \[{section}] in the file)"
