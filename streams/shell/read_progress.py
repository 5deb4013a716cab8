"""How far a partition's inputs have been read, and until when nothing more is to be read."""

from collections.abc import Callable, Mapping

from faust.types import TP

from streams.shell.batching_consumer import ReadState


class ReadProgress:
    """Of the inputs of one partition. `read_state` asks the consumer, `unread` how many batches are on their way from
    it, `clock` gives UNIX seconds."""

    def __init__(
        self,
        inputs: Mapping[str, TP],
        read_state: Callable[[TP], ReadState],
        unread: Callable[[TP], int],
        clock: Callable[[], float],
    ) -> None:
        self.next_offsets: dict[str, int] = {}
        """By logical topic the offset after the last record that was fed."""
        self._inputs = inputs
        self._read_state = read_state
        self._unread = unread
        self._clock = clock
        self._ends_read_s: dict[str, float] = {}
        self._restarted_s = clock()

    def restart(self, next_offsets: Mapping[str, int]) -> None:
        """Reading has been set to these offsets; only fetches after this say anything about ends."""
        self.next_offsets = dict(next_offsets)
        self._ends_read_s = {}
        self._restarted_s = self._clock()

    def topics_at_end(self) -> dict[str, float]:
        """Logical topics of which everything in the log has been handed over, as far as their newest fetch tells; each
        with the moment at which that was asked for, UNIX s."""
        reads = {
            topic: self._read_state(tp)
            for topic, tp in self._inputs.items()
            if topic in self._ends_read_s and self._unread(tp) == 0
        }
        return {topic: read.asked_s for topic, read in reads.items() if read.at_end and read.asked_s is not None}

    @property
    def is_at_end(self) -> bool:
        return len(self.topics_at_end()) == len(self._inputs)

    def look(self) -> None:
        """See which topics have been read to their ends since the last look; to be called several times a second.

        An end counts for the moment at which the fetch that showed it was asked for: anything may have been written
        since. While the broker is away nothing is fetched, and time stands still.
        """
        for topic, tp in self._inputs.items():
            read = self._read_state(tp)
            if read.at_end and read.asked_s is not None and read.asked_s >= self._restarted_s:
                self._ends_read_s[topic] = read.asked_s

    def read_until_s(self) -> float | None:
        """Until when everything has been read, of the topic that lags most; null unless all are at their ends."""
        return min(self._ends_read_s.values()) if self.is_at_end else None

    def positions(self) -> dict[TP, int]:
        """The next offset of each input to feed. At the end it is the consumer's own position, which passes the
        markers of transactions that no record shows."""
        if not self.is_at_end:
            return {self._inputs[topic]: offset for topic, offset in self.next_offsets.items()}
        reads = {tp: self._read_state(tp).position for tp in self._inputs.values()}
        return {tp: position for tp, position in reads.items() if position is not None}
