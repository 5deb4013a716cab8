"""The lines of an exported file, with their ends."""

import msgspec

from headrace.export_logs import Logged
from headrace.replay import as_line
from streams.endpoints.effects import PolicyDeleted


def record_line(logged: Logged, received_s: float | None) -> bytes:
    record = logged.record
    if isinstance(record, PolicyDeleted):
        return msgspec.json.encode({"topic": logged.topic, "endpoint": record.endpoint, "deleted": True}) + b"\n"
    if "received_s" in record.__struct_fields__:
        record = msgspec.structs.replace(record, received_s=received_s)
    return as_line(logged.topic, record, b'"continues":true,' if logged.continues else b"")


def clock_line(received_s: float, *, behind: bool = False, last_tick: int | None = None) -> bytes:
    line: dict[str, object] = {"topic": "clock", "received_s": received_s}
    if behind:
        line["behind"] = True
    if last_tick is not None:
        line["last_tick"] = last_tick
    return msgspec.json.encode(line) + b"\n"
