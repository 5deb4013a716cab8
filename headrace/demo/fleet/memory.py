"""How much memory a whole run takes: this process and all below it, shared pages counted once."""

import asyncio

import psutil

EVERY_S = 1.0
"""Real seconds between two looks; the kernel adds up the pages of a large process in a few milliseconds."""


class MemoryWatch:
    """Keeps the largest sum seen, in bytes: proportional set sizes, where the system tells them, else resident ones."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self.by_process: dict[str, int] = {}
        """Of the moment of the peak, by the command's last words."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._keep(await asyncio.to_thread(_sizes))
            await asyncio.sleep(EVERY_S)

    def _keep(self, sizes: dict[str, int]) -> None:
        if sum(sizes.values()) > self.peak_bytes:
            self.peak_bytes, self.by_process = sum(sizes.values()), sizes


def _sizes() -> dict[str, int]:
    own = psutil.Process()
    sizes: dict[str, int] = {}
    for process in (own, *own.children(recursive=True)):
        try:
            told = process.memory_full_info()
            name = f"{process.name()} {process.pid}"
        except psutil.Error:  # ended meanwhile
            continue
        sizes[name] = getattr(told, "pss", told.rss)
    return sizes
