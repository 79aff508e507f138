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
    if any(map(shutil.which, BROWSERS)) and shutil.which("chromedriver"):
        return ""
    return "no Chromium with its driver here (Debian: apt-get install chromium chromium-driver)"


@contextmanager
def browser(profile):
    """A driver with an empty profile; its performance log tells every request."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = next(filter(None, map(shutil.which, BROWSERS)))
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        prefer(driver, "light")
        yield driver
    finally:
        driver.quit()


def prefer(driver, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def js(driver, expression):
    return driver.execute_script(f"return {expression}")


def wait(driver, expression="document.documentElement.dataset.drawn"):
    """Wait until an expression is true, by default that all figures are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 60).until(lambda driver: js(driver, expression))


def open_page(driver, file, width):
    """Open a file in a window of this width, narrow ones as on a telephone, and wait for its figures."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get("about:blank")
    driver.get_log("performance")  # the browser's own first page
    driver.get(file.as_uri())
    wait(driver)


def check_quiet(driver, file):
    """The page asked for nothing but itself, and the console has no errors and warnings."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(("data:", "blob:", "chrome"))} == {file.as_uri()}
    assert [e for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
