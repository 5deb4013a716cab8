"""What the engines did in a second: seconds of prefill and of decoding, and steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulation.arrays import Floats, Ints, Mask
from simulation.serving.pace import Pace


@dataclass(frozen=True, eq=False, kw_only=True)
class Spent:
    """On prefill in a sub-step, (replicas,): engine seconds, and the steps that it takes where nothing decodes."""

    seconds: Floats
    steps: Floats


def idle_after(taken: Ints, replica: NDArray[np.int32], ended_s: Floats, duration_s: float) -> Floats:
    """Seconds of a sub-step after each replica's last sequence ended, (replicas,); 0 where slots are still taken."""
    last_s = np.zeros(len(taken))
    np.maximum.at(last_s, replica, ended_s)
    return np.where(taken == 0, duration_s - last_s, 0.0)


class Work:
    """Shape (replicas,). Of this second: engine seconds of `prefill_s` and `decode_s`, and `sequence_s`, sequences
    times seconds of decoding. Since the replica was added: `steps`, engine iterations, with fractions."""

    def __init__(self) -> None:
        self.prefill_s: Floats = np.zeros(0)
        self.decode_s: Floats = np.zeros(0)
        self.sequence_s: Floats = np.zeros(0)
        self.steps: Floats = np.zeros(0)

    def add(self) -> None:
        """One more replica, at the end."""
        self.steps = np.append(self.steps, 0.0)

    def drop(self, replica: int) -> None:
        """One replica less."""
        self.steps = np.delete(self.steps, replica)

    def begin_second(self) -> None:
        """Start the second's sums anew."""
        self.prefill_s, self.decode_s, self.sequence_s = (np.zeros(len(self.steps)) for _ in range(3))

    def note(self, spent: Spent, pace: Pace, decoded_before: Mask, idle_s: Floats) -> None:
        """Add a sub-step, whose last `idle_s` nothing decoded.

        Beside decoding, prefill rides in its steps.
        """
        decode_s = np.maximum(pace.decode_s - idle_s, 0.0)
        self.prefill_s += spent.seconds
        self.decode_s += decode_s
        self.sequence_s += pace.sequence_s * decode_s / np.maximum(pace.decode_s, 1e-12)
        self.steps += decode_s / pace.step_s + np.where(decoded_before, 0.0, spent.steps)
