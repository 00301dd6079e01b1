# SPDX-License-Identifier: Apache-2.0
"""The status page in a real browser (Debian's chromium, headless), and without one."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from hypersonic import __version__
from hypersonic.server.core.inference.card import CardReadings, CardStatus
from tests.server.conftest import Running, Script, Serve, write_model
from tests.support.optional import require

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1400,900",
)  # fmt: skip
EVIL = '<script>document.title = "owned"</script><img src=x onerror="document.title=1">'
X = np.ones((5, 3), np.float32)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    chromium, driver = require("chromium", "chromium"), require("chromedriver", "chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path}/profile"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options, Service(driver))
    try:
        yield opened
    finally:
        opened.quit()


def page(running: Running, path: str = "/") -> tuple[str, Message]:
    with urllib.request.urlopen(f"{running.http}{path}", timeout=20) as answer:
        return answer.read().decode(), answer.headers


def cells(browser: webdriver.Chrome, table: str) -> dict[str, list[str]]:
    """First column -> the other columns; read in one go, as the page may exchange its rows at any moment."""
    script = "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(r => [...r.cells].map(c => c.innerText))"
    return {first: rest for first, *rest in browser.execute_script(script, table)}


def number(text: str) -> float:
    return float(text.replace(",", "")) if re.fullmatch(r"[0-9.,]+", text) else -1.0


def test_a_browser_shows_models_with_live_rates_and_nothing_named_is_markup(
    serve: Serve,
    browser: webdriver.Chrome,
    tmp_path: Path,
) -> None:
    write_model(tmp_path / "models")
    write_model(tmp_path / "models", name=EVIL.replace("/", "\\"))
    broken = write_model(tmp_path / "models", name="broken")
    (broken / "1" / "broken").write_text(EVIL)
    stop = threading.Event()
    with serve(Script(instances=2), repository=tmp_path / "models", strict_readiness=False) as running:

        def load() -> None:
            while not stop.wait(0.02):
                running.infer(X)

        sending = threading.Thread(target=load)
        sending.start()
        try:
            browser.get(f"{running.http}/")
            waiting = WebDriverWait(browser, 60, 0.25)
            waiting.until(lambda b: number(cells(b, "models")["m"][3]) > 0)
            models = cells(browser, "models")
            assert models["m"][:3] == ["1", "READY", "sum"]
            assert number(models["m"][4]) > 0
            assert "UNAVAILABLE" in models["broken"][1]
            assert EVIL in models["broken"][1]
            waiting.until(lambda b: any(number(row[4]) > 0 for row in cells(b, "instances").values()))
            assert cells(browser, "instances")["sum_1"][2] == "IN SERVICE"
            assert EVIL.replace("/", "\\") in models
            assert browser.title == f"hypersonic {__version__} (Triton protocol): READY"
            assert not browser.find_elements(By.CSS_SELECTOR, "main script, main img")
            before = number(cells(browser, "models")["m"][8])
            waiting.until(lambda b: number(cells(b, "models")["m"][8]) > before)
        finally:
            stop.set()
            sending.join()
        assert not [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    WebDriverWait(browser, 60, 0.25).until(lambda b: b.find_element(By.ID, "stale").is_displayed())


def test_a_browser_shows_cards_with_their_readings_and_what_they_do_not_tell_not_at_all(
    serve: Serve, browser: webdriver.Chrome
) -> None:
    readings = CardReadings({"fpga": 71.4, "dimm0": 48.0}, 54.2, 225.0, 3)
    card = CardStatus("FPGA-1", "u250 <b>", 64 << 30, 12 << 20, lambda _max_age_s: readings)
    with serve(Script(instances=2, hang_from_run={"sum_1": 1}, card=card)) as running:
        running.infer(X)
        browser.get(f"{running.http}/")
        state, temperature, _, power, memory, reloads = cells(browser, "cards")["u250 <b>\nFPGA-1"]
        assert state in ("IN SERVICE", "1 OF 2 UNITS LOST")
        assert temperature == "fpga 71 °C\ndimm0 48 °C"
        assert (power, memory, reloads) == ("54 W of 225 W", "12.0 MiB of 64.0 GiB", "3")
    with serve() as running:
        running.infer(X)
        browser.get(f"{running.http}/")
        assert [row[1] + row[3] + row[4] + row[5] for row in cells(browser, "cards").values()] == ["\N{EN DASH}" * 4]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screenshot_shows_which_server_it_is_and_a_badge_on_each_card_that_does_not_exist(
    serve: Serve, browser: webdriver.Chrome, scheme: str, tmp_path: Path
) -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    card = CardStatus("FPGA-1", "u250", 64 << 30, 12 << 20, simulated=True)
    with serve(Script(card=card)) as running:
        browser.get(f"{running.http}/")
        assert browser.find_element(By.TAG_NAME, "h1").text == f"hypersonic {__version__} (Triton protocol) READY"
        assert list(cells(browser, "cards")) == ["u250 SIMULATED\nFPGA-1"]
        (badge,) = browser.find_elements(By.CSS_SELECTOR, "#cards .simulated")
        assert badge.is_displayed()
        browser.save_screenshot(str(tmp_path / "page.png"))
        pixels = np.asarray(Image.open(BytesIO(badge.screenshot_as_png)).convert("RGB")).reshape(-1, 3)
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    assert tuple(colours[counts.argmax()]) == {"light": (0xFF, 0xF0, 0xC7), "dark": (0x45, 0x31, 0x06)}[scheme]
    assert len(colours) > 10, "the letters, with smooth edges"
    with serve() as running:
        browser.get(f"{running.http}/")
        assert not browser.find_elements(By.CSS_SELECTOR, ".simulated")


def test_on_a_telephone_nothing_is_wider_than_the_screen(serve: Serve, browser: webdriver.Chrome, tmp_path: Path) -> None:
    for name in ("m", "x" * 128, EVIL.replace("/", "\\")):
        write_model(tmp_path / "models", name=name)
    broken = write_model(tmp_path / "models", name="broken")
    (broken / "1" / "broken").write_text("a_word_without_an_end_" * 40)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    with serve(Script(instances=2), repository=tmp_path / "models", strict_readiness=False) as running:
        running.infer(X)
        browser.get(f"{running.http}/")
        widths = browser.execute_script(
            "return [innerWidth, document.documentElement.scrollWidth, "
            "...[...document.querySelectorAll('.scroll')].map(r => r.scrollWidth - r.clientWidth)]"
        )
    assert widths[:2] == [390, 390]
    assert not any(widths[2:])


def test_a_name_cannot_pass_for_another(serve: Serve, tmp_path: Path) -> None:
    write_model(tmp_path / "models", name="x\u202eedom\u200b")
    with serve(repository=tmp_path / "models", strict_readiness=False) as running:
        html, _ = page(running)
    assert "x\\u202eedom\\u200b" in html
    assert "\u202e" not in html


def test_what_was_refused_and_who_is_connected_is_on_the_page(serve: Serve) -> None:
    with serve() as running:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            page(running, "/v2/models/nosuch")
        status = json.loads(page(running, "/status.json")[0])["server"]
        html, _ = page(running)
    assert status["calls_refused"] == {"not_found": 1}
    assert status["connections"]["http"] >= 1
    assert (status["streams"], status["clients_cut_off"]) == (0, 0)
    assert "not found 1" in html


def test_the_page_is_whole_without_scripts_and_loads_nothing_from_elsewhere(serve: Serve) -> None:
    with serve() as running:
        running.infer(X)
        html, headers = page(running)
        for path, kind in (("/status.js", "text/javascript"), ("/status.css", "text/css")):
            text, about = page(running, path)
            assert about["Content-Type"].startswith(kind)
            assert "http:" not in text
            assert "https:" not in text
            assert about["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == [
        "data:,", "status.css", "status.js", "status.json", "v2", "v2/models/stats",
    ]  # fmt: skip
    assert '<th scope="row">m</th>' in html
    assert "READY" in html
    assert "style=" not in html


def test_the_page_as_json(serve: Serve) -> None:
    with serve() as running:
        running.infer(X)
        text, headers = page(running, "/status.json")
    status = json.loads(text)
    assert headers["Cache-Control"] == "no-store"
    assert (status["server"]["name"], status["server"]["state"]) == ("triton", "READY")
    (model,) = status["models"]
    assert (model["name"], model["version"], model["state"], model["inferences"]) == ("m", "1", "READY", 5)
    assert [unit["name"] for unit in status["instances"]] == ["sum_1"]


def test_a_server_that_drains_or_lost_its_units_says_so(serve: Serve) -> None:
    with serve(Script(hang_from_run={"sum_1": 1})) as running:
        with pytest.raises(Exception, match=r"UNAVAILABLE|out of service"):
            running.infer(X)
        html, _ = page(running)
        assert "NOT READY" in html
        assert "OUT OF SERVICE" in html
        running.server.service.admission.close()
        assert "DRAINING" in page(running)[0]


def test_a_server_without_models_has_a_page(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with serve(repository=tmp_path / "empty") as running:
        assert "There is no model." in page(running)[0]
