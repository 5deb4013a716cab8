"""Prefill of a sub-step: one prompt after the other, each replica in its own order, beside its decoding."""

from dataclasses import dataclass

import numpy as np

from simulation.arrays import Floats, Mask
from simulation.serving.rows import Groups


@dataclass(frozen=True, eq=False, kw_only=True)
class Prefill:
    """What came of the candidates of a sub-step; times in s from its start, arrays over the candidates.

    A candidate with `start_s` at or after the sub-step's end does not begin. `work_until_s`: engine seconds that its
    replica has spent on prefill, in this sub-step, when the candidate's ends.
    """

    start_s: Floats
    end_s: Floats
    work_until_s: Floats
    begins: Mask
    ends: Mask


def run_prefill(ready_s: Floats, work_s: Floats, share: Floats, groups: Groups, duration_s: float) -> Prefill:
    """Candidates, sorted by `groups`, become ready at `ready_s` and take `work_s` engine seconds each, of which their
    replica spends `share` of its time, from 0 to 1, on prefill: start = max(ready, end of the one before)."""
    taking_s = work_s / share[groups.replica]
    taken_s = groups.running_sum(taking_s)
    latest_s = groups.running_max(ready_s - (taken_s - taking_s), float(taken_s.max(initial=0.0)) + duration_s)
    end_s = taken_s + latest_s
    start_s = np.maximum(end_s - taking_s, ready_s)
    return Prefill(
        start_s=start_s,
        end_s=end_s,
        work_until_s=groups.running_sum(work_s),
        begins=start_s < duration_s,
        ends=end_s <= duration_s,
    )
