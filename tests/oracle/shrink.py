"""Makes a case that fails as small as it gets, and shows it as a table."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.model.log import Change, Clock, Entry, Message, Sample
from tests.oracle.plans import Case


def shrink(case: Case, fails: Callable[[Case], object]) -> Case:
    """The smallest case that still fails, as far as leaving out one thing after the other goes."""
    going = True
    while going:
        going = False
        for smaller in _smaller(case):
            if fails(smaller):
                case, going = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for length in (32, 8, 2, 1):
        for start in range(0, len(case.entries), length):
            yield _without(case, start, min(len(case.entries), start + length))
    for place in range(len(case.kills)):
        yield replace(case, kills=(*case.kills[:place], *case.kills[place + 1 :]))
    for place, entry in enumerate(case.entries):
        if isinstance(entry, Message):
            yield from (_with(case, place, smaller) for smaller in _simpler(entry))
    for place, policy in enumerate(case.policies):
        for metric in policy.metrics if len(policy.metrics) > 1 else ():
            fewer = replace(policy, metrics=tuple(one for one in policy.metrics if one != metric))
            yield replace(case, policies=(*case.policies[:place], fewer, *case.policies[place + 1 :]))


def _without(case: Case, start: int, end: int) -> Case:
    """Without the entries `[start, end)`; a worker still dies between the same entries."""
    kept = _renumbered((*case.entries[:start], *case.entries[end:]))
    kills = tuple((place - max(0, min(place, end) - start), share) for place, share in case.kills)
    return replace(case, entries=kept, kills=tuple(kill for kill in kills if kill[0]))


def _with(case: Case, place: int, entry: Entry) -> Case:
    return replace(case, entries=(*case.entries[:place], entry, *case.entries[place + 1 :]))


def _renumbered(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    offset = 0
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Message):
            found.append(replace(entry, offset=offset))
            offset += 1
        else:
            found.append(entry)
    return tuple(found)


def _simpler(message: Message) -> Iterator[Message]:
    for place, sample in enumerate(message.samples):
        if len(message.samples) > 1:
            yield replace(message, samples=(*message.samples[:place], *message.samples[place + 1 :]))
        for simpler in _simpler_samples(sample):
            yield replace(message, samples=(*message.samples[:place], simpler, *message.samples[place + 1 :]))


def _simpler_samples(sample: Sample) -> Iterator[Sample]:
    if sample.received_s is not None:
        yield replace(sample, received_s=None)
    if sample.histograms:
        yield replace(sample, histograms={})
    for name in sample.scalars:
        yield replace(sample, scalars={other: value for other, value in sample.scalars.items() if other != name})


def shown(case: Case) -> str:
    """The log as a table, one row a line; offsets count from the first second."""
    lines = [f"{policy}" for policy in case.policies]
    lines += [f"killed before entry {place}, {share:.0%} of its ticks committed" for place, share in case.kills]
    for place, entry in enumerate(case.entries):
        match entry:
            case Message():
                for sample in entry.samples:
                    name = f"{sample.endpoint}/{sample.replica}/{sample.epoch}/{sample.source}/{sample.reporter}"
                    values = {key: str(value) for key, value in sample.scalars.items()}
                    values |= {key: f"{one.bounds} {one.counts} {one.sum}" for key, one in sample.histograms.items()}
                    received = float(entry.received_s(sample))
                    when = f"@{entry.offset} {received} at {sample.at_s} seq {sample.seq}"
                    lines.append(f"{place:4d} {when} {name} {values}")
            case Change():
                lines.append(f"{place:4d} {float(entry.received_s)} {entry.replica} {entry.state} at {entry.at_s}")
            case Clock():
                lines.append(f"{place:4d} clock {float(entry.now_s)}")
    return "\n".join(lines)
