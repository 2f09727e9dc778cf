"""A headless Chromium for tests of pages, without background requests; console messages and requests are kept."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)


def missing() -> str | None:
    """Why there is no browser here, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"{program} is not installed (make browser)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    return None


def require_browser() -> None:
    """Skip where there is no browser; fail where there must be one (KREPES_BROWSER=required, in .ci/run)."""
    reason = missing()
    if reason is None:
        return
    if os.environ.get("KREPES_BROWSER") == "required":
        pytest.fail(f"No browser tests: {reason}.")
    pytest.skip(f"no browser tests: {reason}")


class Browser:
    """A page in Chromium."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(
        self, page: Path, width: int = 1300, height: int = 900, dark: bool = False, hash: str = ""
    ) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.command("Emulation.setDeviceMetricsOverride", **size)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[theme])
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(page.as_uri() + hash)

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def console(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, without the page itself and data in it."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
        addresses = [event["request"]["url"] for event in sent if event.get("type") != "Document"]
        return [address for address in addresses if not address.startswith(("data:", "about:"))]

    def click(self, x: float, y: float) -> None:
        """A real click at a place of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, places: list[tuple[float, float]], modifiers: int = 0) -> None:
        """The mouse pressed at the first place of the window, moved along the others and let go; 8 is Shift, 1 Alt."""
        kinds = ["mousePressed", *["mouseMoved"] * (len(places) - 2), "mouseReleased"]
        for kind, (x, y) in zip(kinds, places):
            self.command(
                "Input.dispatchMouseEvent",
                type=kind, x=x, y=y, button="left", buttons=1, clickCount=1, modifiers=modifiers,
            )  # fmt: skip

    def nodes(self) -> list[dict[str, Any]]:
        """What a screen reader is told: [{role, name, focusable}] of everything that is not ignored."""
        found = self.command("Accessibility.getFullAXTree")["nodes"]
        return [
            {
                "role": node["role"]["value"],
                "name": node.get("name", {}).get("value", ""),
                "focusable": any(p["name"] == "focusable" for p in node.get("properties", [])),
            }
            for node in found
            if not node["ignored"]
        ]

    def wheel(self, x: float, y: float, by: float) -> None:
        self.command("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=by)

    def press(self, key: str) -> None:
        """A key, to whatever has the focus."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(key).perform()


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    from selenium.webdriver import Chrome
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
