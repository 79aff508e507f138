"""Headless Chromium, and what a page did in it. No other machine is asked for anything."""

import json
import shutil
from contextlib import contextmanager

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--no-default-browser-check", "--disable-extensions",
)  # fmt: skip


def missing():
    """Why there can be no browser tests here; nothing if there can."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium here (Debian: apt-get install chromium chromium-driver)"
    if not shutil.which("chromedriver"):
        return "no chromedriver here (Debian: apt-get install chromium-driver)"
    return ""


@contextmanager
def browser(profile, width=1280, height=900):
    """A driver with an empty profile; its performance log tells every request."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        resize(driver, width, height)
        prefer(driver, "light")
        yield driver
    finally:
        driver.quit()


def prefer(driver, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def resize(driver, width, height=900):
    """Make the window of another size; a narrow one is that of a telephone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def opened(driver, address, seconds=60):
    """Open a page and wait until its figures are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get("about:blank")
    driver.get_log("performance")  # the browser's own first page
    driver.get(address)
    WebDriverWait(driver, seconds).until(
        lambda d: d.execute_script("return document.documentElement.dataset.drawn")
    )


def requests(driver):
    """Addresses that the page asked for."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(message["params"]["request"]["url"])
    return [a for a in found if not a.startswith(("data:", "blob:", "chrome"))]


def complaints(driver):
    """Errors and warnings on the console."""
    return [e["message"] for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
