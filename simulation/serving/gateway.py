"""Requests that no replica has yet: they wait, first come, first served, until one takes requests again."""

import numpy as np

from simulation.serving.rows import Rows, joined, no_rows


class Gateway:
    """At most `waiting_max` requests wait; counters rise from 0 and never fall."""

    def __init__(self, waiting_max: int) -> None:
        if waiting_max < 0:
            raise ValueError(f"waiting_max must be at least 0, got {waiting_max}")
        self.waiting_max = waiting_max
        self.queue: Rows = no_rows()
        self.arrivals = 0
        self.arrived_input_tokens = 0
        self.rejections = 0
        self.aborted = 0
        self.forwarded = 0

    def let_through(self, rows: Rows, room: int, now_s: float) -> Rows:
        """Requests to hand to replicas that have `room` for them.

        While none waits here, all of `rows` where there is a replica (`room` 0 or more): it is the replicas that
        reject. Else, and where there is none (below 0), they wait behind the others, of which as many go as there is
        room; those arrive at their replica at `now_s`.
        """
        if room >= 0 and not len(self.queue):
            return rows
        places = self.waiting_max + max(room, 0) - len(self.queue)
        accepted = rows[:places]
        self.rejections += len(rows) - len(accepted)
        self.arrivals += len(accepted)
        self.arrived_input_tokens += int(accepted["input"].sum())
        waiting = joined(self.queue, accepted)
        going = waiting[: max(room, 0)]
        self.queue = waiting[len(going) :]
        self.forwarded += len(going)
        going["arrived_s"] = np.maximum(going["arrived_s"], now_s)
        return going

    def abort(self, now_s: float) -> None:
        """Clients whose patience has ended go away."""
        stays = self.queue["deadline_s"] > now_s
        self.aborted += len(stays) - int(stays.sum())
        self.queue = self.queue.compress(stays)
