"""Charts as inline SVG, coloured by the page's style sheet so that they follow its light and dark modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from multikernel.report.markup import Html, el

N_COLOURS = 8


class Series(NamedTuple):
    """A named line of points (x, y), with y > 0."""

    title: str
    points: list[tuple[float, float]]


class Interval(NamedTuple):
    """A named value with a half width."""

    title: str
    value: float
    half: float
    highlight: bool = False


def nice_step(extent: float, wanted: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that cuts ``extent`` into at most about ``wanted`` parts.

    Examples
    --------
    >>> from multikernel.report.charts import nice_step
    >>> nice_step(0.13, 5), nice_step(100, 4)
    (0.05, 50.0)
    """
    raw = extent / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= raw * 0.9)


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round numbers from ``low`` to ``high``."""
    step = nice_step(high - low, wanted)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def interval_chart(intervals: Sequence[Interval], *, width: int, label: str) -> Html:
    """Values as dots with intervals, one row each; values are shares, drawn as percentages."""
    rows = [(i, i.half if math.isfinite(i.half) else 0.0) for i in intervals if math.isfinite(i.value)]
    low = min(i.value - half for i, half in rows)
    high = max(i.value + half for i, half in rows)
    margin = max(0.08 * (high - low), 0.004)
    low, high = max(low - margin, 0.0), min(high + margin, 1.0)
    narrow = width < 500
    left, right, row = (12, 20, 52) if narrow else (230, 24, 38)
    height = row * len(rows) + 40
    wanted = 4 if narrow else 8

    def x(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    parts: list[Html] = []
    digits = 0 if nice_step(high - low, wanted) >= 0.0099 else 1
    for tick in ticks(low, high, wanted):
        parts.append(el("line", x1=x(tick), x2=x(tick), y1=4, y2=height - 30, class_="grid"))
        text = f"{100 * tick:.{digits}f} %"
        parts.append(el("text", text, x=x(tick), y=height - 10, text_anchor="middle", class_="tick"))
    for k, (interval, half) in enumerate(rows):
        y = row * k + (36 if narrow else 22)
        name = {"x": left, "y": y - 16} if narrow else {"x": left - 16, "y": y + 5, "text_anchor": "end"}
        kind = " best" if interval.highlight else ""
        first, last = x(max(interval.value - half, low)), x(min(interval.value + half, high))
        parts.append(el("text", interval.title, class_=f"name{kind}", **name))
        parts.append(el("line", x1=first, x2=last, y1=y, y2=y, class_=f"range{kind}"))
        parts.append(el("circle", cx=x(interval.value), cy=y, r=6, class_=f"dot{kind}"))
    return _svg(parts, width, height, label)


def line_chart(series: Sequence[Series], *, width: int, label: str) -> Html:
    """Positive values on a logarithmic axis against time in seconds on another."""
    narrow = width < 500
    left, right, top, bottom = 50, 18, 12, 46
    height = 300 if narrow else 360
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in s.points]
    x_low, x_high = _decades(min(xs), max(xs))
    y_low, y_high = _decades(min(ys), max(ys))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (width - left - right) * (math.log10(x) - x_low) / (x_high - x_low),
            top + (height - top - bottom) * (y_high - math.log10(y)) / (y_high - y_low),
        )

    parts: list[Html] = []
    for k in _exponents(y_low, y_high, 7):
        _, y = at(10.0**x_low, 10.0**k)
        parts.append(el("line", x1=left, x2=width - right, y1=y, y2=y, class_="grid"))
        parts.append(el("text", _power(k), x=left - 8, y=y + 4, text_anchor="end", class_="tick"))
    for k in _exponents(x_low, x_high, 4 if narrow else 8):
        x, _ = at(10.0**k, 10.0**y_low)
        parts.append(el("line", x1=x, x2=x, y1=top, y2=height - bottom, class_="grid"))
        parts.append(el("text", _duration(k), x=x, y=height - bottom + 20, text_anchor="middle", class_="tick"))
    parts.append(el("text", "time", x=(left + width - right) / 2, y=height - 6, text_anchor="middle", class_="axis"))
    for index, line in enumerate(series):
        colour = f"s{index % N_COLOURS}"
        points = [at(x, y) for x, y in line.points]
        if len(points) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(el("polyline", points=path, class_=f"line {colour}"))
        parts.extend(
            el("circle", cx=x, cy=y, r=3 if len(points) > 1 else 5, class_=f"point {colour}")
            for x, y in (points if len(points) <= 40 else points[-1:])
        )
    return _svg(parts, width, height, label)


def legend(titles: Sequence[str]) -> Html:
    """Names with the colours of `line_chart`."""
    items = [
        el("li", el("span", class_=f"swatch s{k % N_COLOURS}", aria_hidden="true"), title)
        for k, title in enumerate(titles)
    ]
    return el("ul", items, class_="legend")


def _svg(parts: list[Html], width: int, height: int, label: str) -> Html:
    box = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    return el("svg", el("title", label), parts, **box, role="img", aria_label=label)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Whole powers of ten around a range, at least one decade."""
    bounds = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return float(bounds[0]), float(max(bounds[1], bounds[0] + 1))


def _exponents(low: float, high: float, at_most: int) -> range:
    """Exponents to mark, not more than ``at_most`` or so."""
    step = max(1, math.ceil((high - low) / at_most))
    return range(int(low), int(high) + 1, step)


def _power(exponent: int) -> str:
    """Ten to a power with a raised exponent."""
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return {0: "1", 1: "10"}.get(exponent, f"10{raised}")


def _duration(exponent: int) -> str:
    """Ten to a power, in seconds, with the unit people use."""
    if exponent < -3:
        return f"{10 ** (exponent + 6)} µs" if exponent >= -6 else f"{_power(exponent)} s"
    return f"{10 ** (exponent + 3)} ms" if exponent < 0 else f"{10**exponent} s"
