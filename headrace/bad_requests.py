"""Keeps what is no HTTP from filling the log: any scanner may send it to any of our ports."""

import logging

from aiohttp.http_exceptions import HttpProcessingError

SERVER = "aiohttp.server"


class BadRequestsFilter(logging.Filter):
    """For aiohttp's server: its traceback of a request that cannot be read becomes one line, warned of and alike for
    all of them, so that repeated ones are left out. The client gets its 400 in any case."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, HttpProcessingError):
            record.msg, record.args = "bad_http_request", ()
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True
