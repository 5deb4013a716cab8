"""Small logs on which the engine once was wrong, or easily could be: what shrinking left of larger ones."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.oracle.model.log import ENGINE, Histogram, Message, Policy, Sample
from tests.oracle.plans import METRICS, Case

IN_FLIGHT = METRICS[0]
USUAL = Policy("chat", (IN_FLIGHT,), up_s=5, down_s=10)


@dataclass(frozen=True)
class Kept:
    """`killed`: the worker dies before this entry, all its ticks committed; null where it lives on."""

    name: str
    log: tuple[Message, ...]
    killed: int | None = None
    policies: tuple[Policy, ...] = (USUAL,)


def said(at_s: int, **fields: Any) -> Sample:
    values: dict[str, Any] = {"endpoint": "chat", "replica": "r", "source": ENGINE, "scalars": BUSY, **fields}
    return Sample(at_s=at_s, **values)


BUSY = {"running": Fraction(4), "waiting": Fraction(1, 2)}
IDLE = {"running": Fraction(1, 8), "waiting": 0}


def read(stamped_s: float, *samples: Sample) -> Message:
    """A record, or a frame of several; its offset is that of its place in the log."""
    return Message(0, Fraction(stamped_s), samples, len(samples) > 1)


KEPT = (
    # received:  1334  1335  1336  1337  1338 (one frame: the 5th of the source corrects its clock)  |killed  1346
    # says:      1351  1352  1353  1354, 1355                                                        |        1340
    # The frame's first row came before the correction and stays where it was, after the restart too. (r3 says 1328 in
    # it, so that ticks begin.)
    Kept(
        "a_clock_is_corrected_in_the_middle_of_a_frame",
        (
            read(1334, said(1351)),
            read(1335, said(1352)),
            read(1336, said(1353)),
            read(1337, said(1354), said(1355, scalars=IDLE), said(1328, replica="r3")),
            read(1345.75, said(1340, replica="r2")),
        ),
        killed=4,
    ),
    # received:  1400 (says 1453: a minute ahead)  1401  |killed  1409 (says 1127)
    # The floor was moved by the first sample, beyond what the next tick reads; after the restart it is no lower.
    Kept(
        "a_sample_from_the_future_begins_an_endpoint",
        (
            read(1400.75, said(1393)),
            read(1400.75, said(1453, replica="r2")),
            read(1408.875, said(1127, replica="r3")),
        ),
        killed=2,
    ),
    # received:  1530 (frame: 1497, 1528, 1515)  1536  |killed  1530
    # says:                                      1528  |        1497: unsteady, and quarantined
    # What it says counts no more. But it spoke at 1528, and is not given up hearing before 1536.
    Kept(
        "a_quarantined_source_is_heard",
        (
            read(1530.375, said(1497), said(1528), said(1515)),
            read(1536.125, said(1528, seq=1)),
            read(1529.5, said(1497, seq=1)),
        ),
        killed=2,
        policies=(Policy("chat", (IN_FLIGHT,), up_s=20, down_s=10, patience_s=8),),
    ),
    # received:  1217 1218 1220  1223  1227                                                            (r2: 1224
    # says:      1175 1176 1177  1222  1223: unsteady; in the same frame a router says 1218 of this replica   1277)
    # The newest second of the replica is the 1223rd, although the windows show no more than the router's.
    Kept(
        "a_router_speaks_for_a_quarantined_engine",
        (
            read(1216.5, said(1175)),
            read(1217.5, said(1176)),
            read(1219.5, said(1177)),
            read(1223, said(1222)),
            read(1223.625, said(1277, replica="r2")),
            read(1227.25, said(1223), said(1218, source="router", reporter="gw")),
        ),
        policies=(Policy("chat", (IN_FLIGHT,), up_s=5, down_s=30, patience_s=8),),
    ),
    # One request was turned away, and would have been in flight for 114 ms: a histogram without bounds has a mean.
    Kept(
        "a_histogram_without_bounds",
        (
            read(
                1595.5,
                said(
                    1594,
                    scalars={**BUSY, "rejections": 1},
                    histograms={"e2e_ms": Histogram((), (1,), Fraction(114))},
                ),
            ),
        ),
    ),
    # received:  1151  |killed  the input ends
    # says:      1137  |
    # All was read before, so that nothing is read anew: the ticks up to 1150 are made all the same.
    Kept(
        "the_input_ends_with_what_was_read_before_a_kill",
        (read(1151, said(1137)), read(1139.875, said(1137))),
        killed=2,
    ),
    # received:  1001                          1401  |killed  1402  1410
    # says:      1000, epoch 1                 1400, epoch 2  |        1401, epoch 1
    # The log is not read back to epoch 1's beginning; what is remembered tells that it is the older one.
    Kept(
        "an_older_epoch_speaks_after_a_restart",
        (
            read(1001, said(1000, epoch="1")),
            read(1401, said(1400, epoch="2")),
            read(1402, said(1401, epoch="1")),
            read(1410, said(1409, epoch="2")),
        ),
        killed=2,
    ),
    # received:  1064  1065               1067
    # says:      1063  1073 (r0: ahead)   1044 (r0: 23 s late)
    # r0 is in no second near the tick of 1065, nor in the blocks before it, and then far back in them.
    Kept(
        "a_late_sample_is_of_a_replica_that_was_silent_since",
        (
            read(1064.375, said(1063, replica="r1")),
            read(1065.875, said(1073, replica="r0", reporter="r0")),
            read(1067, said(1044, replica="r0", reporter="r0")),
        ),
        policies=(Policy("chat", (IN_FLIGHT,), up_s=5, down_s=10, patience_s=8),),
    ),
    # 18 of 19 seconds were heard, and 19 of the window's 20 observed: nine tenths of it, whatever quotients make of it.
    Kept(
        "eighteen_of_twenty_seconds_are_nine_tenths",
        (*(read(second + 1, said(second)) for second in range(1496, 1513)), read(1516, said(1513))),
        policies=(Policy("chat", (IN_FLIGHT,), up_s=20, down_s=30, patience_s=600),),
    ),
    # received:  1560  1562 (code's tick 1560 is due)  |killed  1561 (chat's first)
    # says:      1559  1561                            |        1529
    # Processing time does not go back with the worker that had reached it, for nobody.
    Kept(
        "a_neighbours_tick_was_the_latest_before_a_kill",
        (
            read(1560, said(1559, endpoint="code")),
            read(1562.125, said(1561, endpoint="code")),
            read(1561.125, said(1529)),
        ),
        killed=2,
        policies=(
            Policy("chat", (IN_FLIGHT,), up_s=10, down_s=300, patience_s=600),
            Policy("code", (IN_FLIGHT,), up_s=10, down_s=5, patience_s=8),
        ),
    ),
)


def case_of(kept: Kept) -> Case:
    entries = tuple(Message(offset, one.stamped_s, one.samples, one.is_frame) for offset, one in enumerate(kept.log))
    return Case(kept.policies, entries, () if kept.killed is None else ((kept.killed, 1.0),))
