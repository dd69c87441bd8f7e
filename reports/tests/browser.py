"""Opens a page from disk in headless Chromium and does what a reader does.

    browser.py PAGE.html SCREENSHOTS > FINDINGS.json

FINDINGS: console messages, requests that left the machine's disk, dialogs that opened, what the filters
left, what the transcript showed, the time of the first paint in milliseconds.
"""
import json
import sys
import time
from pathlib import Path
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--no-first-run"]


def open_browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.set_capability("unhandledPromptBehavior", "ignore")
    # Both named, so that the driver's own downloader never runs.
    options.binary_location = "/usr/bin/chromium"
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def requests(driver) -> list:
    urls = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
            url = message["params"].get("request", message["params"])["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                urls.append(url)
    return urls


def shoot(driver, folder: Path, name: str, width: int, media: list, whole: bool = True) -> None:
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": media})
    if whole:
        driver.execute_script("window.scrollTo(0, 0)")
    height = 900
    if whole:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        height = min(7000, driver.execute_script("return document.documentElement.scrollHeight"))
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    driver.get_screenshot_as_file(str(folder / f"{name}.png"))


def print_page(driver, folder: Path) -> int:
    """Writes what a printer gets; returns its pages."""
    import base64
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    (folder / "print.pdf").write_bytes(pdf)
    return pdf.count(b"/Type /Page\n") or pdf.count(b"/Type /Page")


def main() -> None:
    page, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    url = "file://" + quote(str(page))
    driver = open_browser()
    found: dict = {}
    try:
        driver.set_window_size(1280, 900)
        started = time.monotonic()
        driver.get(url)
        wait = WebDriverWait(driver, 30)
        count = driver.find_element(By.ID, "count")
        wait.until(lambda _: " of " in count.text)
        found["ready_seconds"] = time.monotonic() - started
        paints = driver.execute_script("return performance.getEntriesByType('paint').map((p) => [p.name, p.startTime])")
        found["first_paint_ms"] = min((at for _, at in paints), default=None)
        found["all"] = count.text

        rows = lambda: driver.find_elements(By.CSS_SELECTOR, "#list tbody tr")
        filtered = {}
        for name, value in [("result", "1"), ("result", "0"), ("tools", "some"), ("turned", "1"), ("loss", "1"), ("run", "0")]:
            started = time.monotonic()
            Select(driver.find_element(By.NAME, name)).select_by_value(value)
            filtered[f"{name}={value}"] = [count.text, len(rows())]
            found["slowest_filter_seconds"] = max(found.get("slowest_filter_seconds", 0), time.monotonic() - started)
            Select(driver.find_element(By.NAME, name)).select_by_value("")
        field = driver.find_element(By.NAME, "uid")
        field.send_keys("hostile")
        filtered["uid"] = [count.text, len(rows())]
        found["filtered"] = filtered

        found["names"] = [button.text for button in driver.find_elements(By.CSS_SELECTOR, "#list tbody button")]
        if found["names"]:
            driver.find_element(By.CSS_SELECTOR, "#list tbody button").click()
            dialog = driver.find_element(By.ID, "transcript")
            wait.until(lambda _: dialog.get_attribute("open") is not None)
            more = [button for button in dialog.find_elements(By.TAG_NAME, "button") if button.text.startswith("Show all")]
            found["long_texts"] = [button.text for button in more]
            for button in more:
                driver.execute_script("arguments[0].click()", button)
            found["transcript"] = driver.execute_script("return arguments[0].innerText", dialog)[:6000]
            found["transcript_length"] = driver.execute_script("return arguments[0].textContent.length", dialog)
            images = "[...arguments[0].querySelectorAll('.film img')]"
            driver.execute_script(f"for (const i of {images}) i.loading = 'eager'", dialog)
            wait.until(lambda _: driver.execute_script(f"return {images}.every((i) => i.complete)", dialog))
            found["frames"] = driver.execute_script(f"return {images}.length", dialog)
            found["frames_loaded"] = driver.execute_script(f"return {images}.filter((i) => i.naturalWidth > 0).length", dialog)
            found["inserted"] = driver.execute_script(
                "return [...arguments[0].querySelectorAll('script,img:not(.film img),iframe,object,embed,link,style,a,form,base,meta')].map((e) => e.outerHTML)", dialog)
            found["handlers"] = driver.execute_script(
                "return [...document.querySelectorAll('*')].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name))).length")
            found["address"] = driver.execute_script("return location.hash")
            driver.find_element(By.ID, "close").click()
            found["closed"] = dialog.get_attribute("open") is None
        field.clear()
        driver.execute_script("arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", field)
        found["ran"] = driver.execute_script("return window.hostile ?? null")
        found["title"] = driver.title
        found["wide"] = driver.execute_script("return document.documentElement.scrollWidth > document.documentElement.clientWidth")

        light = [{"name": "prefers-color-scheme", "value": "light"}]
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        shoot(driver, folder, "light", 1280, light)
        shoot(driver, folder, "dark", 1280, dark)
        shoot(driver, folder, "phone", 390, light)
        # Boxes that are wider inside, and those of them without the shadow that says so.
        found["cut"], found["unmarked"] = driver.execute_script("""
            const cut = [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth);
            return [cut.length, cut.filter((box) => !getComputedStyle(box).backgroundImage.includes('gradient')).length]""")
        found["phone_wide"] = driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        if found["names"]:
            field.send_keys("hostile")
            driver.find_elements(By.CSS_SELECTOR, "#list tbody button")[-1].click()
            time.sleep(0.3)
            shoot(driver, folder, "transcript", 1280, light, whole=False)
            driver.execute_script("[...document.querySelectorAll('#transcript-body h3')].find((h) => h.textContent === 'Over the video').scrollIntoView()")
            shoot(driver, folder, "timeline", 1280, light, whole=False)
            shoot(driver, folder, "transcript-phone", 390, dark, whole=False)
            driver.execute_script("document.getElementById('close').click()")
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": light})
        found["pages"] = print_page(driver, folder)
        found["console"] = [entry["message"] for entry in driver.get_log("browser")]
        found["requests"] = requests(driver)
    finally:
        driver.quit()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
