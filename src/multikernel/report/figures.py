"""The figures of the page: each a `figure` with a caption, or None when there is nothing to show."""

from __future__ import annotations

import math

from multikernel.compare.results import Comparison, MethodResult
from multikernel.compare.table import HEADS, percent, score, table_rows
from multikernel.report.charts import Interval, Series, interval_chart, legend, line_chart
from multikernel.report.markup import Html, el

WIDE, NARROW = 840, 360
MOST_ROWS = 40
MOST_CLASSES = 30


def score_name(comparison: Comparison) -> str:
    """What methods are ranked by, with a capital letter."""
    name = HEADS[comparison.scoring]
    return name[:1].upper() + name[1:]


def _section(title: str, *content: Html | None, intro: str | None = None) -> Html:
    return el("section", el("h2", title), el("p", intro, class_="intro") if intro else None, *content)


def _both(draw, *arguments, label: str) -> list[Html]:
    """A chart drawn twice, for wide and for narrow screens, so that its letters keep their size."""
    return [
        el("div", draw(*arguments, width=WIDE, label=label), class_="wide"),
        el("div", draw(*arguments, width=NARROW, label=label), class_="narrow"),
    ]


def accuracy_figure(comparison: Comparison) -> Html | None:
    """Scores of the methods, with the baseline and the best single kernel to compare with."""
    best = comparison.best()
    if best is None:
        return None
    bars = [
        Interval(method.title, method.score, comparison.spread(method), method is best)
        for method in table_rows(comparison)
        if method.scores
    ]
    singles = [kernel for kernel in comparison.kernels if kernel.scores]
    if singles:
        single = max(singles, key=lambda kernel: kernel.score)
        bars.append(Interval("best kernel, in hindsight", single.score, comparison.spread(single)))
    described = "; ".join(f"{row.title} {percent(row.value)}" for row in bars)
    name = score_name(comparison)
    caption = f"{name} on test samples, ± as in the table."
    if singles:
        caption += f" In hindsight the best kernel alone is {single.name}: known only after seeing test samples."
    chart = _both(interval_chart, bars, label=f"{name} with intervals: {described}.")
    return _section(name, el("figure", chart, el("figcaption", caption), id="figure-accuracy"))


def weights_figure(comparison: Comparison) -> Html | None:
    """Share of each kernel in each method: a table whose cells are shaded."""
    methods = [method for method in comparison.methods if any(map(math.isfinite, method.mean_weights))]
    if not methods:
        return None
    shares = [method.mean_weights for method in methods]
    largest = [max(column) for column in zip(*shares)]
    order = sorted(range(len(largest)), key=lambda f: -largest[f])[:MOST_ROWS]
    shown = sorted(order)
    top = max(largest) or 1.0
    head = el("tr", el("th", "Kernel", scope="col"), [el("th", m.title, scope="col") for m in methods])
    rows = [
        el(
            "tr",
            el("th", comparison.kernel_names[f], scope="row"),
            [_shaded(column[f] / top, percent(column[f]) if column[f] >= 5e-4 else "0") for column in shares],
        )
        for f in shown
    ]
    caption = (
        "Weight of each kernel as a share of all weights, mean over splits. "
        "Shading follows the square root of the share."
    )
    if len(shown) < len(largest):
        caption += f" The {len(shown)} largest of {len(largest)} kernels are shown."
    table = el("table", el("thead", head), el("tbody", rows), class_="heat")
    scroll = el("div", table, class_="scroll", tabindex="0", role="region", aria_label="Kernel weights")
    return _section("Kernel weights", el("figure", scroll, el("figcaption", caption), id="figure-weights"))


def _shaded(strength: float, text: str) -> Html:
    """A cell whose background says how much; the style sheet mixes the colour."""
    level = math.sqrt(max(0.0, min(strength, 1.0)))  # the root keeps small shares visible beside large ones
    kind = "strong" if level > 0.55 else ("zero" if level < 0.03 else None)
    return el("td", text, style=f"--level:{100 * level:.0f}%", class_=kind)


def convergence_figure(comparison: Comparison) -> Html | None:
    """Relative gap against time, of the first split's fit."""
    series = []
    for method in comparison.methods:
        points = _gap_points(method)
        if points:
            series.append(Series(method.title, points))
    if not series:
        text = "None of the methods solves an iterative problem with a duality gap, so there is no course to show."
        return _section("Convergence", intro=text)
    ends = "; ".join(f"{s.title} reaches {s.points[-1][1]:.1e} after {s.points[-1][0]:.2g} s" for s in series)
    chart = _both(line_chart, series, label=f"Relative duality gap against time: {ends}.")
    caption = (
        "Relative duality gap during the fit on the first split, both axes logarithmic: lower and further left is "
        "better. Of several problems in a fit, one per class, it is the largest gap; one not yet begun counts 1."
    )
    return _section(
        "Convergence",
        el("figure", legend([s.title for s in series]), chart, el("figcaption", caption), id="figure-convergence"),
    )


def _gap_points(method: MethodResult) -> list[tuple[float, float]]:
    """Pairs of time and relative gap that a logarithmic chart can show."""
    pairs = [(entry["time"], entry["relative_gap"]) for entry in method.history]
    return [(time, max(gap, 1e-16)) for time, gap in pairs if math.isfinite(gap) and time > 0]


def kernels_figure(comparison: Comparison) -> Html | None:
    """Score of each kernel alone, as bars in a table."""
    done = [kernel for kernel in comparison.kernels if kernel.scores]
    if not done:
        return None
    best = comparison.best()
    ranked = sorted(done, key=lambda kernel: -kernel.score)[:MOST_ROWS]
    shown = [kernel for kernel in done if kernel in ranked]
    rows = []
    for kernel in shown:
        bar = el("span", class_="bar", style=f"--length:{100 * kernel.score:.1f}%", aria_hidden="true")
        value = score(comparison, kernel)
        rows.append(
            el(
                "tr",
                el("th", kernel.name, scope="row"),
                el("td", el("span", bar, class_="track", aria_hidden="true")),
                el("td", value, class_="value"),
                class_="best" if kernel is ranked[0] else None,
            )
        )
    name = score_name(comparison)
    caption = f"{name} of a support vector machine on each kernel alone, with its own C."
    if best is not None:
        caption += f" The line marks the best method, {best.title} ({percent(best.score)})."
    if len(shown) < len(done):
        caption += f" The {len(shown)} best of {len(done)} kernels are shown."
    mark = f"--mark:{100 * best.score:.1f}%" if best is not None else None
    head = el("tr", [el("th", t, scope="col") for t in ("Kernel", "From 0 to 100 %", name)])
    table = el("table", el("thead", head, class_="hidden"), el("tbody", rows), class_="bars", style=mark)
    return _section("Each kernel alone", el("figure", table, el("figcaption", caption), id="figure-kernels"))


def confusion_figures(comparison: Comparison) -> Html | None:
    """The best method's confusion matrix, and the others' folded away."""
    best = comparison.best()
    if best is None:
        return None
    others = [method for method in comparison.methods if method.scores and method is not best]
    folded = [el("details", el("summary", method.title), _confusion(comparison, method, None)) for method in others]
    return _section("Confusion", _confusion(comparison, best, "figure-confusion"), *folded)


def _confusion(comparison: Comparison, method: MethodResult, identifier: str | None) -> Html:
    total = sum(map(sum, method.confusion))
    right = sum(row[k] for k, row in enumerate(method.confusion))
    caption = f"{method.title}: true classes in rows, predictions in columns; {right} of {total} test samples right."
    if len(comparison.classes) > MOST_CLASSES:
        table, extra = _worst_pairs(comparison, method)
        caption = f"{method.title}: the most frequent confusions of {len(comparison.classes)} classes; {extra}"
    else:
        table = _confusion_table(comparison, method)
    scroll = el("div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Confusion of {method.title}")
    return el("figure", scroll, el("figcaption", caption), id=identifier)


def _confusion_table(comparison: Comparison, method: MethodResult) -> Html:
    """Counts; right ones shaded in one colour, wrong ones in another, by their share of the row."""
    corner = el("th", el("span", "true ↓ predicted →", class_="corner"), scope="col")
    head = el("tr", corner, [el("th", label, scope="col") for label in comparison.classes])
    rows = []
    for k, counts in enumerate(method.confusion):
        total = sum(counts) or 1
        worst = max([c for j, c in enumerate(counts) if j != k], default=0) or 1
        entries = []
        for j, count in enumerate(counts):
            # errors are rare: shaded against the row's most frequent error, at most half strength
            level = count / total if j == k else 0.5 * count / max(worst, 0.02 * total)
            kind = " ".join(["hit" if j == k else "miss", "zero" if count == 0 else ""]).strip()
            if j == k and level > 0.55:
                kind += " strong"
            entries.append(
                el("td", str(count) if count else "·", style=f"--level:{100 * min(level, 1):.0f}%", class_=kind)
            )
        rows.append(el("tr", el("th", comparison.classes[k], scope="row"), entries))
    return el("table", el("thead", head), el("tbody", rows), class_="heat confusion")


def _worst_pairs(comparison: Comparison, method: MethodResult) -> tuple[Html, str]:
    """Too many classes for a matrix: the pairs that are confused most."""
    pairs = [
        (count, k, j)
        for k, counts in enumerate(method.confusion)
        for j, count in enumerate(counts)
        if k != j and count
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    shown = pairs[:15]
    head = el("tr", [el("th", title, scope="col") for title in ("True", "Predicted", "Samples")])
    rows = [
        el("tr", el("th", comparison.classes[k], scope="row"), el("td", comparison.classes[j]), el("td", str(count)))
        for count, k, j in shown
    ]
    missed = sum(count for count, _, _ in pairs)
    extra = f"{missed} of {sum(map(sum, method.confusion))} test samples wrong."
    return el("table", el("thead", head), el("tbody", rows), class_="heat"), extra
