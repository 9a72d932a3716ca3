"""The table of a comparison: cells as text, for the terminal and for the page."""

from __future__ import annotations

import math
from typing import Any

from multikernel.compare.results import Comparison, MethodResult, Scored, mean
from multikernel.gram.base import format_bytes

HEADS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "roc_auc": "AUC"}
IMPORTANCE = "{} lost on test samples that have the view in random order"
COSTS = ("fit time", "gap", "kernels", "memory", "parameters")


def percent(value: float, digits: int = 1) -> str:
    """``percent(0.9712)`` is ``'97.1 %'``."""
    return f"{100 * value:.{digits}f} %" if math.isfinite(value) else "–"


def seconds(value: float) -> str:
    """A duration with a unit that suits it.

    Examples
    --------
    >>> from multikernel.compare.table import seconds
    >>> seconds(0.0123), seconds(2.345), seconds(125)
    ('12 ms', '2.3 s', '2 min 5 s')
    """
    if not math.isfinite(value):
        return "–"
    if value < 0.0995:
        return f"{1000 * value:.{0 if value >= 0.00995 else 1}f} ms"
    if value < 99.95:
        return f"{value:.{2 if value < 0.995 else 1}f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def gap(value: float) -> str:
    """A relative duality gap; a dash where the problem has no dual."""
    return f"{value:.1e}" if math.isfinite(value) else "–"


def score_title(comparison: Comparison) -> str:
    """What methods are ranked by, with a capital letter."""
    name = HEADS[comparison.scoring]
    return name[0].upper() + name[1:]


def score(comparison: Comparison, result: Scored) -> str:
    """A result's mean score with its spread."""
    spread = comparison.spread(result)
    if not math.isfinite(spread):
        return percent(result.score)
    return f"{100 * result.score:.1f} ± {100 * spread:.1f} %"


def columns(comparison: Comparison) -> tuple[str, ...]:
    """Keys of the cells of a row, in the order of the table; the score that methods are ranked by is the first."""
    others = {name for row in comparison.methods for name in row.metrics if name != comparison.scoring}
    return ("method", comparison.scoring, *(name for name in HEADS if name in others), *COSTS)


def cells(comparison: Comparison, method: MethodResult) -> dict[str, str]:
    """The row of a method, as text by column; means over the splits, the largest gap."""
    row = dict.fromkeys(columns(comparison), "–")
    row["method"] = method.title
    if not method.scores:
        return {**row, comparison.scoring: "failed" if method.error else "not run"}
    row |= {name: percent(mean(method.metrics.get(name, []))) for name in row if name in HEADS}
    row[comparison.scoring] = score(comparison, method)
    used, peak = mean(method.n_kernels), _largest(method.peak_bytes)
    costs = (
        seconds(mean(method.fit_seconds)),
        gap(_largest(method.gaps)),
        f"{round(used, 1):g} of {len(comparison.kernel_names)}" if math.isfinite(used) else "–",
        format_bytes(peak) if math.isfinite(peak) else "–",
        parameters(method.parameters),
    )
    return {**row, **dict(zip(COSTS, costs))}


def _largest(values: list[float]) -> float:
    return max(filter(math.isfinite, values), default=math.nan)


def table_rows(comparison: Comparison) -> list[MethodResult]:
    """What the table has a row for: the baseline first; methods that do not apply have none."""
    baseline = comparison.baseline
    methods = [method for method in comparison.methods if method.scores or not method.left_out]
    return [*([baseline] if baseline is not None and baseline.scores else []), *methods]


def left_out(comparison: Comparison) -> list[str]:
    """A sentence for each method that does not apply."""
    return [f"{method.title} is left out: {method.left_out}" for method in comparison.methods if method.left_out]


def parameters(chosen: list[dict[str, Any]]) -> str:
    """Parameters over the splits: one value, or the values that were chosen."""
    parts = []
    for name in dict.fromkeys(name for split in chosen for name in split):
        values = sorted({split[name] for split in chosen if name in split}, key=lambda v: (str(type(v)), v))
        shown = [f"{v:g}" if isinstance(v, float) else str(v) for v in values]
        parts.append(f"{name}={shown[0]}" if len(shown) == 1 else f"{name}={shown[0]}…{shown[-1]}")
    return ", ".join(parts) or "–"


def text_table(comparison: Comparison, *, grey: bool = False) -> str:
    """The table for a terminal, with what failed and why below it, and, in grey if wished, what does not apply.

    Examples
    --------
    >>> from multikernel.compare import Comparison, MethodResult
    >>> from multikernel.compare.table import text_table
    >>> method = MethodResult("average", "average kernel", [0.5], [0.25], [1e-7], [2.0], [1e6], [{"C": 1.0}])
    >>> found = Comparison("data", ["a", "b"], ["k", "l"], "held out", 1, n_train=[50], n_test=[50], methods=[method])
    >>> print(text_table(found))
    method          accuracy      fit time  gap      kernels  memory    parameters
    average kernel  50.0 ± 7.1 %  0.25 s    1.0e-07  2 of 2   976.6 kB  C=1
    """
    heads = [HEADS.get(key, key) for key in columns(comparison)]
    lines = _aligned([heads, *(list(cells(comparison, method).values()) for method in table_rows(comparison))])
    lines.extend(f"{method.title}: {method.error}" for method in comparison.methods if method.error)
    lines.extend(f"\033[90m{line}\033[0m" if grey else line for line in left_out(comparison))
    if comparison.importance:
        lines += ["", f"Which views matter: {IMPORTANCE.format(HEADS[comparison.scoring])}"]
        lines += _aligned(importance_rows(comparison))
    return "\n".join(lines)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def importance_rows(comparison: Comparison) -> list[list[str]]:
    """What each view is worth to the methods that were looked at, as text, under a row of heads."""
    found = comparison.importance
    texts = [
        [
            f"{100 * drop:.1f} ± {100 * spread:.1f} % (p = {p:.2g})"
            for drop, spread, p in zip(one.drops, one.spreads, one.p_values)
        ]
        for one in found
    ]
    order = sorted(range(len(found[0].views)), key=lambda v: -found[0].drops[v])
    return [["view", *(one.method for one in found)], *([found[0].views[v], *(t[v] for t in texts)] for v in order)]
