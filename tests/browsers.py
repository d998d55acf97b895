"""Chromium without a window, driven by Selenium, for the tests and the benchmark of reports."""

import os
import pathlib
import shutil
from typing import Any

READY = "'ready' in document.documentElement.dataset"


def why_absent() -> str | None:
    """Why there is no browser; None if there is one."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "Chromium or its driver is absent (Debian: apt install chromium chromium-driver)"
    return None


def open_browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium has none for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Named, so that Selenium looks for no other, least of all in the network.
    service = Service(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def look(browser: Any, width: int, *, dark: bool = False) -> None:
    """The width of the screen, that of a phone below 500, and the scheme of colors."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def until(browser: Any, condition: str) -> None:
    """Wait until the condition holds, an expression of JavaScript."""
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, 60, 0.05).until(
        lambda driver: driver.execute_script(f"return Boolean({condition})"), condition
    )


def show(browser: Any, path: pathlib.Path, anchor: str = "") -> None:
    """Open a page from disk and wait until its plots and tables are ready."""
    browser.get("about:blank")
    browser.get(f"{path.as_uri()}{anchor}")
    until(browser, READY)
