"""Memory that comes from the system page by page as it is written, and goes back to it row by row.

Not from numpy: it asks for pages of 2 MB, and the first row of a chunk would take fifty rows'; and what is freed
between other arrays stays with the process.
"""

from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class PrivatePages:
    """An array of zeros, `flat` (size,); its memory lives as long as the array or a view of it."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        item_size = np.dtype(dtype).itemsize
        self._memory = mmap(-1, max(1, size * item_size), MAP_PRIVATE | MAP_ANONYMOUS)
        self._item_size = item_size
        self.flat: NDArray[Any] = np.frombuffer(self._memory, dtype, size)

    def clear(self, first: int, end: int) -> None:
        """Make the items `[first, end)` zero; the system gets the pages back that they fill."""
        begin, stop = first * self._item_size, end * self._item_size
        first_page, end_page = -(-begin // PAGESIZE) * PAGESIZE, stop // PAGESIZE * PAGESIZE
        octets = np.frombuffer(self._memory, np.uint8)
        if first_page >= end_page:
            octets[begin:stop] = 0
            return
        octets[begin:first_page] = 0
        octets[end_page:stop] = 0
        self._memory.madvise(MADV_DONTNEED, first_page, end_page - first_page)
