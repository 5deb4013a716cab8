"""Logs on stderr: one event name with fields a line, ours and the libraries' alike."""

import logging
import sys

import structlog
from structlog.typing import Processor

from headrace.bad_requests import SERVER, BadRequestsFilter
from headrace.log_repeats import RepeatsFilter, SameEventsFilter
from headrace.settings import ProcessSettings

_QUIET = {
    "aiokafka": logging.WARNING,
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    "mode.timers": logging.ERROR,
    "asyncio": logging.WARNING,
}
"""Libraries whose information is ours told twice; `--log-level debug` shows it all. Timers of Faust's that come late
change nothing: no time of ours depends on them."""
_PASSWORDS = "aiokafka.conn"
"""At level debug it tells requests as they are, and that of SASL PLAIN is the password."""
_REPEATING = ("aiokafka", SERVER, "asyncio")
"""Each of the first's clients tells each of its tries, many a second while brokers are away; the second tells of
whatever is sent to our ports, the third of each connection that it cannot accept, with thousands of tries a second."""
_BAD_REQUESTS = BadRequestsFilter()


def configure_logs(settings: ProcessSettings, process: str) -> None:
    """Send structlog and the standard library's logging through one formatter to stderr."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    console = settings.log_format == "console" or (settings.log_format == "auto" and sys.stderr.isatty())
    final: list[Processor] = (
        # Not rich's tracebacks, its default: they show local variables, and passwords are among them.
        [structlog.dev.ConsoleRenderer(sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(["repeated"])],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    level = getattr(logging, settings.log_level.upper())
    if level > logging.DEBUG:
        for name in _REPEATING:
            handler.addFilter(RepeatsFilter(name))
        handler.addFilter(SameEventsFilter())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(level if level == logging.DEBUG else max(level, quiet))
    logging.getLogger(_PASSWORDS).setLevel(max(level, logging.WARNING))
    logging.getLogger(SERVER).addFilter(_BAD_REQUESTS)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)
