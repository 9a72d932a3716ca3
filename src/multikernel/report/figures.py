"""The figures of the page: each a section with a caption, or None when there is nothing to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from multikernel.compare.results import Comparison, MethodResult
from multikernel.compare.table import percent, score, score_title, table_rows
from multikernel.report.charts import Interval, Series, interval_chart, legend, line_chart
from multikernel.report.markup import Html, el, row, section, table

WIDE, NARROW = 840, 360
MOST_ROWS = 40
MOST_CLASSES = 30


def _figure(name: str, caption: str, *content: Any) -> Html:
    return el("figure", content, el("figcaption", caption), id=f"figure-{name}")


def _both(draw: Callable[..., Html], lines: Sequence[Any], label: str) -> list[Html]:
    """A chart drawn twice, for wide and for narrow screens, so that its letters keep their size."""
    return [
        el("div", draw(lines, width=WIDE, label=label), class_="wide"),
        el("div", draw(lines, width=NARROW, label=label), class_="narrow"),
    ]


def accuracy_figure(comparison: Comparison) -> Html | None:
    """Scores of the methods, with the baseline and the best single kernel to compare with."""
    best, single = comparison.best(), comparison.best_kernel()
    if best is None:
        return None
    bars = [
        Interval(method.title, method.score, comparison.spread(method), method is best)
        for method in table_rows(comparison)
        if method.scores
    ]
    name = score_title(comparison)
    caption = f"{name} on test samples, ± as in the table."
    if single is not None:
        bars.append(Interval("best kernel, in hindsight", single.score, comparison.spread(single)))
        caption += f" In hindsight the best kernel alone is {single.name}: known only after seeing test samples."
    described = "; ".join(f"{bar.title} {percent(bar.value)}" for bar in bars)
    chart = _both(interval_chart, bars, f"{name} with intervals: {described}.")
    return section(name, _figure("accuracy", caption, chart))


def weights_figure(comparison: Comparison) -> Html | None:
    """Share of each kernel in each method: a table whose cells are shaded."""
    methods = [method for method in comparison.methods if any(map(math.isfinite, method.mean_weights))]
    if not methods:
        return None
    shares = [method.mean_weights for method in methods]
    largest = [max(column) for column in zip(*shares)]
    shown = sorted(sorted(range(len(largest)), key=lambda f: -largest[f])[:MOST_ROWS])
    top = max(largest) or 1.0
    rows = [row(comparison.kernel_names[f], [_shaded(column[f], top) for column in shares]) for f in shown]
    caption = (
        "Weight of each kernel as a share of all weights, mean over splits. "
        "Shading follows the square root of the share."
    )
    if len(shown) < len(largest):
        caption += f" The {len(shown)} largest of {len(largest)} kernels are shown."
    title, heads = "Kernel weights", ["Kernel", *(method.title for method in methods)]
    return section(title, _figure("weights", caption, table(heads, rows, scroll=title, class_="heat")))


def _shaded(share: float, top: float) -> Html:
    """A cell whose background says how much; the style sheet mixes the colour."""
    level = math.sqrt(max(0.0, min(share / top, 1.0)))  # the root keeps small shares visible beside large ones
    kind = "strong" if level > 0.55 else ("zero" if level < 0.03 else None)
    text = percent(share) if share >= 5e-4 else "0"
    return el("td", text, style=f"--level:{100 * level:.0f}%", class_=kind)


def convergence_figure(comparison: Comparison) -> Html:
    """Relative gap against time, of the first split's fit."""
    series = []
    for method in comparison.methods:  # what a logarithmic chart can show
        pairs = [(entry["time"], entry["relative_gap"]) for entry in method.history]
        points = [(time, max(gap, 1e-16)) for time, gap in pairs if math.isfinite(gap) and time > 0]
        series += [Series(method.title, points)] if points else []
    if not series:
        text = "None of the methods solves an iterative problem with a duality gap, so there is no course to show."
        return section("Convergence", el("p", text, class_="intro"))
    ends = "; ".join(f"{s.title} reaches {s.points[-1][1]:.1e} after {s.points[-1][0]:.2g} s" for s in series)
    chart = _both(line_chart, series, f"Relative duality gap against time: {ends}.")
    caption = (
        "Relative duality gap during the fit on the first split, both axes logarithmic: lower and further left is "
        "better. Of several problems in a fit, one per class, it is the largest gap; one not yet begun counts 1."
    )
    return section("Convergence", _figure("convergence", caption, legend([s.title for s in series]), chart))


def kernels_figure(comparison: Comparison) -> Html | None:
    """Score of each kernel alone, as bars in a table."""
    done = [kernel for kernel in comparison.kernels if kernel.scores]
    if not done:
        return None
    ranked = sorted(done, key=lambda kernel: -kernel.score)[:MOST_ROWS]
    rows = []
    for kernel in (kernel for kernel in done if kernel in ranked):
        bar = el("span", class_="bar", style=f"--length:{100 * kernel.score:.1f}%", aria_hidden="true")
        track = el("td", el("span", bar, class_="track", aria_hidden="true"))
        value = el("td", score(comparison, kernel), class_="value")
        rows.append(row(kernel.name, track, value, class_="best" if kernel is ranked[0] else None))
    best, name = comparison.best(), score_title(comparison)
    caption, mark = f"{name} of a support vector machine on each kernel alone, with its own C.", None
    if best is not None:
        caption += f" The line marks the best method, {best.title} ({percent(best.score)})."
        mark = f"--mark:{100 * best.score:.1f}%"
    if len(rows) < len(done):
        caption += f" The {len(rows)} best of {len(done)} kernels are shown."
    bars = table(("Kernel", "From 0 to 100 %", name), rows, class_="bars", style=mark)
    return section("Each kernel alone", _figure("kernels", caption, bars))


def confusion_figures(comparison: Comparison) -> Html | None:
    """The best method's confusion matrix, and the others' folded away."""
    best = comparison.best()
    if best is None or not best.confusion:
        return None
    others = [method for method in comparison.methods if method.scores and method is not best]
    folded = [el("details", el("summary", method.title), _confusion(comparison, method)) for method in others]
    return section("Confusion", _confusion(comparison, best, "figure-confusion"), *folded)


def _confusion(comparison: Comparison, method: MethodResult, identifier: str | None = None) -> Html:
    """Counts by true and predicted class; of too many classes, the pairs that are confused most."""
    names, counts = comparison.classes, method.confusion
    total, right = sum(map(sum, counts)), sum(own[k] for k, own in enumerate(counts))
    heads: tuple[Any, ...] = ("True", "Predicted", "Samples")
    if len(names) > MOST_CLASSES:
        what, kind = f"the most frequent confusions of {len(names)} classes; {total - right}", "heat"
        caption = f"{method.title}: {what} of {total} test samples wrong."
        pairs = [(-n, k, j) for k, own in enumerate(counts) for j, n in enumerate(own) if k != j and n]
        rows = [row(names[k], el("td", names[j]), el("td", str(-n))) for n, k, j in sorted(pairs)[:15]]
    else:
        what, kind = f"true classes in rows, predictions in columns; {right}", "heat confusion"
        caption = f"{method.title}: {what} of {total} test samples right."
        heads = (el("th", el("span", "true ↓ predicted →", class_="corner"), scope="col"), *names)
        rows = [_confusion_row(name, k, counts[k]) for k, name in enumerate(names)]
    content = table(heads, rows, scroll=f"Confusion of {method.title}", class_=kind)
    return el("figure", content, el("figcaption", caption), id=identifier)


def _confusion_row(name: str, k: int, counts: list[int]) -> Html:
    """Right ones shaded in one colour, wrong ones in another, by their share of the row."""
    total = sum(counts) or 1
    worst = max([count for j, count in enumerate(counts) if j != k], default=0) or 1
    entries = []
    for j, count in enumerate(counts):
        # errors are rare: shaded against the row's most frequent error, at most half strength
        level = count / total if j == k else 0.5 * count / max(worst, 0.02 * total)
        kinds = ["hit" if j == k else "miss", "zero" * (count == 0), "strong" * (j == k and level > 0.55)]
        style = f"--level:{100 * min(level, 1):.0f}%"
        entries.append(el("td", str(count) if count else "·", style=style, class_=" ".join(filter(None, kinds))))
    return row(name, entries)
