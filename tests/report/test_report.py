"""The report page: complete, self-contained, and right where results are missing or many."""

import html
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from multikernel.compare import Comparison, KernelResult, MethodResult
from multikernel.report import render, write_report
from multikernel.report.charts import Interval, Series, interval_chart, line_chart, nice_step, ticks
from multikernel.report.markup import Html, el, join


def method(name="average", title="Average kernel", n_kernels=3, n_classes=2, score=0.9, **changes):
    confusion = np.full((n_classes, n_classes), 1) + 9 * np.eye(n_classes, dtype=int)
    history = [{"time": 0.1 * (k + 1), "relative_gap": 10.0**-k} for k in range(5)]
    values = {
        "scores": [score, score],
        "fit_seconds": [0.5, 0.6],
        "gaps": [1e-4, 1e-5],
        "n_kernels": [2.0, 2.0],
        "peak_bytes": [2e6, 1e6],
        "parameters": [{"C": 1.0}, {"C": 10.0}],
        "weights": [[1 / n_kernels] * n_kernels] * 2,
        "history": history,
        "confusion": confusion.tolist(),
    }
    return MethodResult(name, title, **{**values, **changes})


def comparison(*methods, n_kernels=3, n_classes=2, **changes):
    names = [f"kernel {k}" for k in range(n_kernels)]
    values = {
        "data": "data.csv",
        "classes": [f"class {k}" for k in range(n_classes)],
        "kernel_names": names,
        "protocol": "2-fold cross-validation",
        "n_splits": 2,
        "n_train": [50, 50],
        "n_test": [50, 50],
        "methods": list(methods) or [method(n_kernels=n_kernels, n_classes=n_classes)],
        "kernels": [KernelResult(name, [0.5, 0.7]) for name in names],
        "kernel_seconds": [0.1, 0.1],
        "versions": {"multikernel": "1.2.3"},
        "command": "multikernel compare --data 'a b.csv'",
    }
    return Comparison(**{**values, **changes})


class Checker(HTMLParser):
    """Collects tags and checks that they are closed in the order in which they were opened."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.extend(attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_well_formed_and_has_every_part():
    page = render(comparison())
    checker = Checker(page)
    assert checker.tags.count("figure") == 5
    text = " ".join(checker.text)
    for part in ("Results", "Accuracy", "Kernel weights", "Convergence", "Each kernel alone", "Confusion"):
        assert part in checker.text
    assert "90.0 ± 0.0 %" in text
    assert "C=1…10" in text
    assert "multikernel compare --data 'a b.csv'" in checker.text
    assert "1.2.3" in checker.text
    ids = [value for name, value in checker.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_nothing_outside_the_page_is_named():
    page = render(comparison())
    assert not re.search(r"https?:|//[a-z]|url\(|@import|src=", page)
    assert "default-src 'none'" in html.unescape(page)
    assert "<script>" not in page


def test_names_are_escaped_everywhere():
    evil = "</script><script>alert(1)</script>"
    page = render(
        comparison(
            method(title=evil, n_kernels=1),
            method(name="b", title="b", scores=[], error=evil),
            n_kernels=1,
            data=evil,
            kernel_names=[evil],
            classes=[evil, "b"],
            command=evil,
            kernels=[KernelResult(evil, [0.5])],
        )
    )
    assert "<script>alert" not in page
    assert page.count("</script>") == 1
    Checker(page)


def test_the_numbers_are_in_the_page_as_json():
    page = render(comparison())
    text = re.search(r'<script type="application/json" id="results">(.*?)</script>', page, re.DOTALL).group(1)
    assert json.loads(text) == comparison().to_dict()


def test_a_failed_method_has_its_reason_in_its_row():
    page = render(comparison(method(), method(name="b", title="Broken", scores=[], error="ValueError: no & never")))
    assert "ValueError: no &amp; never" in page


def test_a_method_that_failed_later_keeps_its_scores():
    page = render(comparison(method(scores=[0.8], error="MemoryError: out")))
    assert "1 of 2 splits: MemoryError: out" in page
    assert "80.0 ±" in page


def test_a_method_that_does_not_apply_is_left_out_with_a_line_below_the_table():
    page = render(comparison(method(), method(name="b", title="Other", scores=[], left_out="no & never")))
    assert '<p class="note left-out">Other is left out: no &amp; never</p>' in page
    assert 'scope="row">Other' not in page
    page = render(comparison(method(scores=[0.8], left_out="no more")))
    assert "1 of 2 splits: no more" in page


def test_when_all_failed_the_page_is_still_a_page():
    failed = MethodResult("a", "A", error="ValueError: bad")
    checker = Checker(render(comparison(failed, kernels=[])))
    assert "ValueError: bad" in checker.text
    assert "figure" not in checker.tags


def test_an_interrupted_comparison_says_so():
    assert "Interrupted: 1 of 2 splits" in render(comparison(interrupted=True, n_test=[50]))
    assert "Interrupted" not in render(comparison())


def test_methods_without_a_dual_have_no_curve_and_a_dash():
    page = render(comparison(method(gaps=[math.nan, math.nan], history=[])))
    assert "there is no course to show" in page
    assert 'data-label="Gap" class="none">–<' in page


def test_a_gap_of_zero_and_a_single_point_can_be_drawn():
    page = render(comparison(method(history=[{"time": 0.5, "relative_gap": 0.0}])))
    Checker(page)
    drawing = page[page.index("Convergence") :]
    assert "<svg" in drawing
    assert "nan" not in drawing[: drawing.index("</svg>")].lower()


def test_many_kernels_and_classes_are_cut_to_what_can_be_read():
    many = comparison(n_kernels=200, n_classes=60)
    page = render(many)
    assert "The 40 largest of 200 kernels are shown" in page
    assert "The 40 best of 200 kernels are shown" in page
    assert "the most frequent confusions of 60 classes" in page
    assert len(page) < 300_000


def test_the_best_method_is_marked_and_the_first_of_equals_wins():
    page = render(comparison(method(title="First"), method(title="Second"), method(title="Worse", score=0.4)))
    row = re.search(r'<tr class="best"><th scope="row">(\w+)', page).group(1)
    assert row == "First"


def test_the_page_is_written_whole(tmp_path):
    write_report(comparison(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").endswith("</html>\n")


# -- charts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [360, 840])
@pytest.mark.parametrize(
    "values", [[(0.9, 0.01), (0.2, 0.05)], [(1.0, 0.0)], [(0.0, 0.0)], [(0.5, math.nan), (0.5, 0.0)]], ids=str
)
def test_intervals_stay_inside_the_chart(width, values):
    chart = interval_chart([Interval(f"row {k}", v, h) for k, (v, h) in enumerate(values)], width=width, label="l")
    for x in re.findall(r'\b(?:x1|x2|cx)="([^"]+)"', chart):
        assert 0 <= float(x) <= width


@pytest.mark.parametrize("width", [360, 840])
@pytest.mark.parametrize("points", [[(1e-4, 1.0), (20.0, 1e-16)], [(1.0, 1.0)], [(0.1, 0.5), (0.1, 0.5)]], ids=str)
def test_lines_stay_inside_the_chart(width, points):
    chart = line_chart([Series("s", points)], width=width, label="l")
    for x, y in re.findall(r'cx="([^"]+)" cy="([^"]+)"', chart):
        assert 0 <= float(x) <= width
        assert 0 <= float(y) <= 360


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.93, 0.981), (0.5, 0.5004)])
def test_ticks_are_round_and_inside(low, high):
    marks = ticks(low, high, 5)
    assert 2 <= len(marks) <= 12
    assert all(low - 1e-12 <= mark <= high + 1e-12 for mark in marks)
    step = nice_step(high - low, 5)
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def test_markup_escapes_text_and_keeps_html():
    assert (
        el("p", "<", el("b", "&"), None, ["x", 1.50], title='"<') == '<p title="&quot;&lt;">&lt;<b>&amp;</b>x1.5</p>'
    )
    assert join(Html("<i>"), "<i>") == "<i>&lt;i&gt;"
    assert el("line", x1=1.0, y_z=None) == '<line x1="1"/>'
