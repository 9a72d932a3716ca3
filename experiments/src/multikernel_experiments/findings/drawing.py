"""What all figures of experiments have in common: files, colours, panels, legends."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from multikernel_experiments.protocol import Protocol
from multikernel_experiments.results import Results

COLOURS = ("#2f5fd0", "#c2571a", "#1d8a5f", "#a43a86", "#8a6d00", "#0b8296", "#6a4bc4", "#7a5548", "#d0334b")
MARKERS = "os^Dv<>PX"


class Picture:
    """A figure of a protocol.

    Parameters
    ----------
    name : str
        Of its file, without the ending.
    draw : callable
        Called with the results, a matplotlib figure and the options; draws nothing where there is nothing to show.
    caption : str
        By default the first paragraph of the docstring of ``draw``.
    of : str
        Figures or tables of papers that it repeats, as in ``"OJC10, Figure 1"``, with semicolons between.
    differs : str
        What is not as it is there: said beside the figure.
    **options
        Of ``draw``.
    """

    def __init__(
        self,
        name: str,
        draw: Callable[..., None],
        caption: str = "",
        /,
        of: str = "",
        differs: str = "",
        **options: Any,
    ) -> None:
        self.name, self.draw, self.options = name, draw, options
        self.of, self.differs = [source for source in of.split("; ") if source], differs
        self.caption = caption or " ".join((draw.__doc__ or name).split("\n\n")[0].split())

    def __call__(self, results: Results, figure: Any) -> None:
        self.draw(results, figure, **self.options)

    @property
    def legend(self) -> str:
        """The caption, with what it repeats and what differs from that."""
        repeats = f" Repeats {'; '.join(f'[{source}]' for source in self.of)}." if self.of else ""
        return f"{self.caption}{repeats}{' ' * bool(self.differs)}{self.differs}"


def pictures(protocol: Protocol) -> list[Picture]:
    """The figures of a protocol; plain functions are called by their names."""
    figures = protocol.figures
    return [draw if isinstance(draw, Picture) else Picture(draw.__name__, draw) for draw in figures]


def render(draw: Callable[[Results, Any], None], results: Results, dpi: int = 150) -> dict[str, bytes] | None:
    """The figure as ``{"png": …, "svg": …}``; None if there was nothing to draw."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # text stays text, and the same results give the same bytes
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "multikernel", "font.size": 10}):
        figure = Figure(figsize=(8.0, 4.5), layout="constrained")
        draw(results, figure)
        if not figure.axes:
            return None
        written = {}
        for kind, options in (("png", {"dpi": dpi}), ("svg", {"metadata": {"Date": None}})):
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, **options)  # type: ignore[arg-type]
            written[kind] = stream.getvalue()
        return written


def style(k: int) -> dict[str, Any]:
    """Colour and marker of line k."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], "markersize": 4}


def plain(axes: Any) -> None:
    """Without a frame, with a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)


def panels(figure: Any, count: int, size: tuple[float, float], **options: Any) -> list[Any]:
    """Axes side by side on a figure of that size in inches."""
    figure.set_size_inches(*size)
    return list(np.atleast_1d(figure.subplots(1, count, **options)))


def sizes_on_log_axes(axes: Any, sizes: Sequence[float]) -> None:
    """Both axes logarithmic, with ticks at these sizes and nowhere else."""
    ticks = sorted(set(sizes))
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(ticks, [str(size) for size in ticks])
    axes.minorticks_off()


def common_legend(figure: Any, place: str = "outside lower center", **options: Any) -> None:
    """One legend for all panels, each title once."""
    lines: dict[str, Any] = {}
    for axes in figure.axes:
        lines |= dict(zip(*reversed(axes.get_legend_handles_labels())))
    figure.legend(lines.values(), lines.keys(), loc=place, frameon=False, **options)
