"""The frames of a partition's RequestSamples as columns; what frames that follow each other share is kept."""

import numpy as np
from numpy.typing import NDArray

from streams.controller.rebuild import REQUESTS
from streams.windows.columns import SampleColumns
from streams.windows.frame_numbers import columns_of_numbers
from streams.windows.identities import KnownIdentities
from wire.frames import Frame
from wire.known_frames import FrameReader, KnownFrame


class SampleFrames:
    """See the module's text."""

    def __init__(self) -> None:
        self._reader = FrameReader(REQUESTS)
        self._identities = KnownIdentities()

    def read(self, value: bytes) -> Frame | KnownFrame:
        """Raises DecodeError for a frame that cannot be read."""
        return self._reader.read(value)

    def columns(self, frame: Frame | KnownFrame, received_s: NDArray[np.float64]) -> SampleColumns:
        """The good rows of a frame; `received_s` float64 (n,), UNIX seconds."""
        if isinstance(frame, KnownFrame):
            identities = self._identities.of_layout(frame.layout, lambda: frame.batch)
            return columns_of_numbers(frame, identities, received_s)
        return SampleColumns.from_arrow(frame.batch, received_s, self._identities.of(frame.batch))
