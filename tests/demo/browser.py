"""A real Chromium without a window, that tells what a page asked for and what it complained about."""

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_INSTALL = "on Debian: apt-get install chromium chromium-driver"
HEIGHT = 900


class Browser:
    """One window. `open` forgets what was asked for and complained about before."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver
        self.requested: list[str] = []
        self.complaints: list[str] = []

    def open(self, page: Path, width: int, scheme: str = "light") -> None:
        """Show a file in a window of `width` CSS pixels, with the colours that `scheme` (light, dark) prefers."""
        driver = self._driver
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get("about:blank")
        self._logged("performance")
        driver.get(page.as_uri())
        events = [json.loads(entry["message"])["message"] for entry in self._logged("performance")]
        self.requested = [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        self.complaints = [entry["message"] for entry in self._logged("browser")]

    def _logged(self, kind: str) -> list[dict[str, str]]:
        """What came since the last time."""
        entries: list[dict[str, str]] = self._driver.get_log(kind)  # type: ignore[no-untyped-call]  # Selenium's gap
        return entries

    def ask(self, script: str) -> Any:
        """What a function's body of JavaScript returns."""
        return self._driver.execute_script(script)

    def hover(self, selector: str) -> None:
        """Put the mouse on the middle of the first element that matches."""
        place = self.ask(
            f"const it = document.querySelector({json.dumps(selector)}); it.scrollIntoView({{block: 'center'}});"
            "const box = it.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]"
        )
        moved = {"type": "mouseMoved", "x": place[0], "y": place[1]}
        self._driver.execute_cdp_cmd("Input.dispatchMouseEvent", moved)

    def picture(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self._driver.execute_cdp_cmd("Page.captureScreenshot", {})["data"])


@contextmanager
def open_browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile. Fails where none is installed."""
    binary = next((found for name in _NAMES if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    assert binary is not None, f"no Chromium on the PATH; {_INSTALL}"
    assert driver is not None, f"no chromedriver on the PATH; {_INSTALL}"
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(window)
    finally:
        window.quit()
