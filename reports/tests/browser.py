"""Opens a page from disk in headless Chromium and does what a reader does.

    browser.py PAGE.html SCREENSHOTS [ADDRESS OF A PAIR] > FINDINGS.json

FINDINGS: console messages, requests that left the machine's disk, what filters, words and orders left, what a pair
of transcripts showed, what an address restored, what the keyboard alone reached, times of first paint and filters in
milliseconds.
"""
import json
import sys
import time
from pathlib import Path
from urllib.parse import quote

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

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


def contrast(driver) -> list:
    """The least contrast of a text to what is behind it (WCAG 2.2, 1.4.3), and that text."""
    return driver.execute_script("""
        const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const parse = (color) => {
          context.clearRect(0, 0, 1, 1); context.fillStyle = color; context.fillRect(0, 0, 1, 1);
          return [...context.getImageData(0, 0, 1, 1).data];
        };
        const light = (color) => {
          const [r, g, b] = color.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const behind = (element) => {
          for (let at = element; at; at = at.parentElement) {
            const color = parse(getComputedStyle(at).backgroundColor);
            if (color[3] === 255) return color;
          }
          return [255, 255, 255, 255];
        };
        let least = [99, ""];
        for (const element of document.body.querySelectorAll("*")) {
          const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
          if (!own || element.matches("script, title, desc, option, :disabled, .skip") || !element.checkVisibility()) continue;
          const style = getComputedStyle(element);
          const [a, b] = [light(parse(element.closest("svg") ? style.fill : style.color)), light(behind(element))];
          const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (ratio < least[0]) least = [ratio, `${element.tagName} ${element.className.baseVal ?? element.className}: ${element.textContent.slice(0, 40)}`];
        }
        return least""")


def search(driver) -> dict:
    """Every filter of the list alone, words in questions and in transcripts, and the order of a column."""
    count = driver.find_element(By.ID, "count")
    clear = driver.find_element(By.CSS_SELECTOR, "#filters button[type=reset]")
    found: dict = {"counts": {}, "milliseconds": {}}

    def note(name: str, done=lambda text: True) -> None:
        WebDriverWait(driver, 60).until(lambda _: "transcripts read" not in count.text and done(count.text))
        found["counts"][name] = count.text
        clear.click()
        WebDriverWait(driver, 10).until(lambda _: driver.execute_script("return !location.hash.includes('=')"))

    for name, value in [("result", "wrong"), ("result", "right"), ("tools", "used"), ("flip", "gained"), ("flip", "any"),
                        ("loss", "truncated"), ("run", "direct · made-up-8b"), ("split", "lvbench"), ("tag", "duration: long")]:
        # The time until the list is drawn again, layout included.
        found["milliseconds"][f"{name}={value}"] = driver.execute_script("""
            const [select, value] = [document.forms.filters.elements[arguments[0]], arguments[1]];
            if (![...select.options].some((option) => option.value === value)) return null;
            const start = performance.now();
            select.value = value;
            select.dispatchEvent(new Event("input", { bubbles: true }));
            document.getElementById("list").offsetHeight;
            return performance.now() - start""", name, value)
        note(f"{name}={value}")
    field, deep = driver.find_element(By.NAME, "q"), driver.find_element(By.NAME, "in")
    for name, words, in_transcripts in [("name", "hostile", False), ("question", "alert(1) onerror", False),
                                        ("not in questions", "door opens", False), ("transcript", "door opens", True)]:
        if in_transcripts:
            deep.click()
        started = time.monotonic()
        field.send_keys(words)
        WebDriverWait(driver, 60).until(lambda _: "transcripts read" not in count.text)
        found["milliseconds"][f"words: {name}"] = 1000 * (time.monotonic() - started)
        note(name)
    return found


def shown(driver) -> list:
    """The rows of the list that are drawn, in their order."""
    return driver.execute_script("return [...document.querySelectorAll('#rows [role=row]')].map((row) => [...row.children].map((cell) => cell.textContent))")


def tables(driver) -> dict:
    """A table in its three orders and filtered; the links to its file."""
    find = "document.querySelector('table[data-table=scores]')"
    # The scores below each split's title.
    column = f"""const groups = [];
        for (const row of {find}.tBodies[0].rows) {{
          if (row.className === "span") groups.push([]); else groups.at(-1).push(row.cells[1].textContent);
        }}
        return groups"""
    button = driver.find_element(By.CSS_SELECTOR, "table[data-table=scores] th[data-column=score_percent] button")
    orders = [driver.execute_script(column)]
    for _ in range(3):
        button.send_keys(Keys.ENTER)
        orders.append(driver.execute_script(column))
    button.click()
    address = driver.execute_script("return location.hash")
    sort = driver.execute_script("return arguments[0].parentElement.getAttribute('aria-sort')", button)
    button.click()
    button.click()
    field = driver.find_element(By.CSS_SELECTOR, "section#scores .tools input")
    field.send_keys("lvbench")
    left = driver.execute_script(f"return [...{find}.tBodies[0].rows].map((row) => row.className)")
    field.send_keys(Keys.BACKSPACE * 7)
    links = driver.execute_script("return [...document.querySelectorAll('a[href^=\\'tables/\\']')].map((a) => a.getAttribute('href'))")
    return {"orders": orders, "address": address, "sort": sort, "left": left, "links": sorted(set(links))}


def keyboard(driver, url: str) -> dict:
    """The page without a mouse: from the top to the list, through it, into a sample and back."""
    driver.get("about:blank")
    driver.get(url)
    WebDriverWait(driver, 30).until(lambda _: " of " in driver.find_element(By.ID, "count").text)
    press = lambda *keys: [ActionChains(driver).send_keys(key).perform() for key in keys]
    focus = lambda: driver.execute_script("const at = document.activeElement; return at.id || at.name || at.getAttribute('aria-label') || at.textContent.trim().slice(0, 40)")
    ring = lambda: driver.execute_script("const style = getComputedStyle(document.activeElement); return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0")
    active = lambda: driver.execute_script("return document.getElementById(document.getElementById('list').getAttribute('aria-activedescendant')).firstChild.textContent")
    found: dict = {"order": [], "rings": True}
    press(Keys.TAB)
    found["first"] = focus()
    for _ in range(400):
        press(Keys.TAB)
        found["rings"] = found["rings"] and ring()
        found["order"].append(focus())
        if focus() == "list":
            break
    found["rows"] = [active()]
    for key in [Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.END, Keys.HOME, Keys.PAGE_DOWN]:
        press(key)
        found["rows"].append(active())
    dialog = driver.find_element(By.ID, "transcript")
    title = lambda: driver.find_element(By.ID, "transcript-title").text
    is_open = lambda: dialog.get_attribute("open") is not None
    press(Keys.HOME, Keys.ENTER)
    WebDriverWait(driver, 10).until(lambda _: is_open())
    found["opened"] = title()
    press(Keys.ARROW_RIGHT)
    WebDriverWait(driver, 10).until(lambda _: title() != found["opened"])
    found["next"] = title()
    press(Keys.ESCAPE)
    WebDriverWait(driver, 10).until(lambda _: not is_open())
    found["back"], found["row"] = focus(), active()
    return found


def pair(driver, url: str, address: str) -> dict:
    """What an address restores: filters, an open sample and the run beside it."""
    driver.get("about:blank")
    driver.get(url + address)
    dialog = driver.find_element(By.ID, "transcript")
    WebDriverWait(driver, 30).until(lambda _: dialog.get_attribute("open") is not None)
    return driver.execute_script("""
        const dialog = document.getElementById("transcript"), filters = document.forms.filters;
        const all = (selector) => [...dialog.querySelectorAll(selector)];
        return { title: document.getElementById("transcript-title").textContent, count: document.getElementById("count").textContent,
          sides: all("article > h3").map((title) => title.textContent), split: filters.split.value, flip: filters.flip.value,
          result: filters.result.value, lines: all("svg text").map((text) => text.textContent).slice(0, 2),
          windows: all("svg .window").length, evidence: all("svg .evidence").length, frames: all("svg .frame").length,
          wide: dialog.scrollWidth > dialog.clientWidth }""")


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
        found["drawn"] = len(shown(driver))
        found["search"] = search(driver)
        found["tables"] = tables(driver)

        field = driver.find_element(By.NAME, "q")
        field.send_keys("hostile")
        found["names"] = [row[0] for row in shown(driver)]
        if found["names"]:
            driver.find_element(By.CSS_SELECTOR, "#rows [role=row]").click()
            dialog = driver.find_element(By.ID, "transcript")
            wait.until(lambda _: dialog.get_attribute("open") is not None)
            more = [button for button in dialog.find_elements(By.TAG_NAME, "button") if button.text.startswith("Show all")]
            found["long_texts"] = [button.text for button in more]
            for button in more:
                driver.execute_script("arguments[0].click()", button)
            found["transcript"] = driver.execute_script("return arguments[0].innerText", dialog)[:9000]
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
        driver.find_element(By.CSS_SELECTOR, "#filters button[type=reset]").click()
        found["ran"] = driver.execute_script("return window.hostile ?? null")
        found["title"] = driver.title
        found["wide"] = driver.execute_script("return document.documentElement.scrollWidth > document.documentElement.clientWidth")

        light = [{"name": "prefers-color-scheme", "value": "light"}]
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        shoot(driver, folder, "light", 1280, light)
        found["height"] = driver.execute_script("return document.documentElement.scrollHeight")
        found["contrast"] = {"light": contrast(driver)}
        shoot(driver, folder, "dark", 1280, dark)
        found["contrast"]["dark"] = contrast(driver)
        shoot(driver, folder, "phone", 390, light)
        # Boxes that are wider inside, and those of them without the shadow that says so.
        found["cut"], found["unmarked"] = driver.execute_script("""
            const cut = [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth);
            return [cut.length, cut.filter((box) => !getComputedStyle(box).backgroundImage.includes('gradient')).length]""")
        found["phone_wide"] = driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
        # A table that is moved sideways keeps its first column in view.
        found["first_column"] = driver.execute_script("""
            const box = document.querySelector('section#scores table').closest('.scroll');
            box.scrollLeft = 200;
            return box.querySelector('tbody tr:not(.span) th').getBoundingClientRect().left - box.getBoundingClientRect().left""")
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        if len(sys.argv) > 3:
            found["pair"] = pair(driver, url, sys.argv[3])
            shoot(driver, folder, "pair", 1280, light, whole=False)
            shoot(driver, folder, "pair-phone", 390, dark, whole=False)
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        found["keyboard"] = keyboard(driver, url)
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": light})
        found["pages"] = print_page(driver, folder)
        found["console"] = [entry["message"] for entry in driver.get_log("browser")]
        found["requests"] = requests(driver)
    finally:
        driver.quit()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
