"""From which offset each input of a partition is read: where its source asks for, as far as the logs go."""

from collections.abc import Mapping

from faust.types import TP

from streams.shell.log_offsets import LogBounds, LogOffsets, LogRecord
from streams.shell.tick_source import StartPositions, TickSource


async def start_offsets(
    logs: LogOffsets, inputs: Mapping[str, TP], plan: StartPositions, source: TickSource
) -> dict[TP, int]:
    """By input; `inputs` are named by their logical topics. The source is told where samples it asks for are gone.

    Raises KafkaError.
    """
    by_time = {inputs[topic]: at_s for topic, at_s in plan.times_s.items()}
    bounds = await logs.bounds(inputs.values())
    # The bounds come first: a record that arrives between the answers must not be skipped.
    found = await logs.records_at(by_time)
    requests = inputs["telemetry.requests"]
    if requests in found and found[requests].offset == bounds[requests].first > 0:
        source.log_begins(found[requests].stamped_s)
    return {tp: _start_offset(plan, topic, bounds[tp], found.get(tp)) for topic, tp in inputs.items()}


def _start_offset(plan: StartPositions, topic: str, bounds: LogBounds, at_time: LogRecord | None) -> int:
    wanted = [plan.offsets[topic]] if topic in plan.offsets else []
    if topic in plan.times_s:
        wanted.append(bounds.end if at_time is None else at_time.offset)
    return max(bounds.first, min([*wanted, bounds.end]) if wanted else bounds.first)
