"""The report in a real browser: figures and table are shown, nothing is fetched, nothing goes wrong."""

import base64
import json
import os
import shutil
import subprocess
import time

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(os.name == "nt", reason="the browser is driven through POSIX pipes"),
]
WIDTHS = {"desktop": 1280, "phone": 390}


class Browser:
    """Chromium driven through its debugging pipe: JSON messages that end with a zero byte."""

    def __init__(self, profile):
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()

        def arrange():  # the browser reads commands from descriptor 3 and writes answers to descriptor 4
            os.dup2(read_commands, 10)
            os.dup2(write_answers, 11)
            os.dup2(10, 3)
            os.dup2(11, 4)

        self._process = subprocess.Popen(
            [
                BROWSER,
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"),
            ],
            pass_fds=(3, 4),
            preexec_fn=arrange,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        os.set_blocking(self._answers, False)
        self._buffer = b""
        self._number = 0
        self._session = None
        self.events = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        """Send a command and wait for its answer; what else arrives is kept in ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda m: m.get("id") == self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def _wait(self, wanted, seconds=60.0):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            while b"\0" in self._buffer:
                line, self._buffer = self._buffer.split(b"\0", 1)
                message = json.loads(line)
                self.events.append(message)
                if wanted(message):
                    return message
            try:
                chunk = os.read(self._answers, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            if not chunk:
                break
            self._buffer += chunk
        raise TimeoutError(f"the browser did not answer in {seconds} s (exit code {self._process.poll()})")

    def open(self, path, width, dark=False):
        """Load a file at a screen width; events of earlier pages are forgotten."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        if not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._wait(lambda m: m.get("method") == "Page.loadEventFired")

    def evaluate(self, expression):
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"]["value"]

    def named(self, method):
        """Parameters of the events of one kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def screenshot(self, path):
        """Write the whole page as a picture."""
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        """End the browser and give everything back."""
        os.close(self._commands)  # the end of its commands is the end of the browser
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of a real comparison, made by the command line; text labels, and names that need escaping."""
    import numpy as np

    from multikernel.cli import main
    from multikernel.datasets import make_views

    folder = tmp_path_factory.mktemp("report")
    data = make_views(90, 2, 1, n_features=3, n_classes=3, random_state=0)
    labels = np.array(["<b>one</b>", "two & three", "four"])[data.y]
    views = {f"view {k}": data.X[:, columns] for k, columns in enumerate(data.views.values())}
    np.savez(folder / "views.npz", **views, y=labels)
    page = folder / "report.html"
    command = ["compare", "--data", str(folder / "views.npz"), "--cv", "2", "-C", "1,10", "-q", "-o", str(page)]
    command += ["--methods", "average,product,best"]
    assert main(command) == 0
    return page


@pytest.fixture(params=WIDTHS)
def opened(request, browser, report):
    browser.open(report, WIDTHS[request.param])
    return browser


SHOWN = """
(() => [...document.querySelectorAll('figure')].filter(f => !f.closest('details')).map(f => {
  const box = f.getBoundingClientRect();
  const pictures = [...f.querySelectorAll('svg, table')].filter(p => p.getBoundingClientRect().width > 0);
  return {id: f.id, width: box.width, height: box.height, visible: pictures.length,
          caption: f.querySelector('figcaption').innerText.length};
}))()
"""


def test_every_figure_is_shown_with_its_caption(opened):
    figures = {figure["id"]: figure for figure in opened.evaluate(SHOWN)}
    assert set(figures) == {
        f"figure-{name}" for name in ("accuracy", "weights", "convergence", "kernels", "confusion")
    }
    for figure in figures.values():
        assert figure["width"] > 250
        assert figure["height"] > 60
        assert figure["visible"] == 1  # of a chart's wide and narrow drawing exactly one
        assert figure["caption"] > 20


def test_charts_have_a_description_for_those_who_do_not_see_them(opened):
    labels = opened.evaluate("[...document.querySelectorAll('svg')].map(s => s.getAttribute('aria-label'))")
    assert len(labels) == 4
    assert all(label and "Average kernel SVM" in label for label in labels)


def test_the_table_shows_every_method(opened):
    text = opened.evaluate("document.querySelector('#results-table').innerText")
    for title in ("Most frequent class", "Average kernel SVM", "Best single kernel SVM"):
        assert title in text
    assert text.count("±") == 3
    # linear kernels of centred data have negative entries, so that the product does not apply
    assert "Product" not in text
    assert "negative" in opened.evaluate("document.querySelector('.left-out').innerText")


def test_kernels_are_described_in_numbers(opened):
    text = opened.evaluate("document.querySelector('[aria-label=\"Kernels in numbers\"]').innerText").lower()
    assert "centred alignment" in text
    assert "view 0" in text


def test_the_page_is_not_wider_than_the_screen(opened):
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_text_is_large_enough_to_read(opened):
    smallest = opened.evaluate("""
        Math.min(...[...document.querySelectorAll('svg text')].filter(t => t.getBoundingClientRect().width)
            .map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))
    """)
    assert smallest >= 10


def test_nothing_is_fetched_and_nothing_goes_wrong(opened, report):
    requests = [event["request"]["url"] for event in opened.named("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert opened.named("Runtime.exceptionThrown") == []
    assert opened.named("Runtime.consoleAPICalled") == []
    assert opened.named("Log.entryAdded") == []


def test_names_from_the_data_are_text_and_not_markup(opened):
    assert opened.evaluate("document.querySelectorAll('td b, th b').length") == 0
    assert "<b>one</b>" in opened.evaluate("document.querySelector('#figure-confusion').innerText")


def test_results_can_be_read_from_the_page(opened):
    found = opened.evaluate("JSON.parse(document.querySelector('#results').textContent)")
    assert found["classes"] == sorted(["<b>one</b>", "two & three", "four"])


def test_the_page_has_a_dark_mode_with_contrast(browser, report):
    def luminance():
        values = browser.evaluate(
            "['backgroundColor', 'color'].map(k => getComputedStyle(document.body)[k].match(/\\d+/g).map(Number))"
        )
        return [sum(channels[:3]) / 3 for channels in values]

    browser.open(report, 1280, dark=False)
    page, ink = luminance()
    assert page - ink > 150
    browser.open(report, 1280, dark=True)
    page, ink = luminance()
    assert ink - page > 150


def test_a_page_that_fetches_something_would_be_noticed(browser, tmp_path):
    """The check itself: an image from elsewhere and a broken script are seen by the browser's events."""
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>undefined_function()</script>')
    browser.open(page, 1280)
    browser.evaluate("1")
    assert len(browser.named("Network.requestWillBeSent")) == 2
    assert browser.named("Runtime.exceptionThrown")
