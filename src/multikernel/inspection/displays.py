"""Displays in the manner of scikit-learn: kernel weights, convergence, and the path of the weights.

Matplotlib is imported when something is drawn; it comes with ``pip install 'multikernel[plot]'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

# Numbers of a fit's history that are kept beside time and gap: passes, also of single kernels, and updates.
COUNTED = ("objective", "epoch", "passes", "block_passes", "updates")


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("drawing needs matplotlib: pip install 'multikernel[plot]'") from None
    return plt.subplots(layout="constrained")[1]


class Display:
    """What displays on one pair of axes share."""

    def _begin(self, ax: Any, x_label: str, y_label: str = "", *, frame: bool = False) -> Any:
        self.ax_ = ax = _new_axes() if ax is None else ax
        self.figure_ = ax.figure
        ax.set(xlabel=x_label, ylabel=y_label)
        ax.spines[["top", "right"]].set_visible(frame)
        return ax


def last_step(model: Any) -> Any:
    """The estimator at the end of searches and pipelines."""
    while hasattr(model, "best_estimator_") or hasattr(model, "steps"):
        model = model.best_estimator_ if hasattr(model, "best_estimator_") else model.steps[-1][1]
    return model


def _fitted(model: Any, *attributes: str) -> Any:
    """The estimator at the end of a fitted model, if it has what is to be drawn."""
    check_is_fitted(model)
    estimator = last_step(model)
    for attribute in attributes:
        if not hasattr(estimator, attribute):
            raise ValueError(f"{type(estimator).__name__} has no attribute {attribute}, so there is nothing to draw")
    return estimator


@dataclass(eq=False, repr=False)
class KernelWeightsDisplay(Display):
    """Weight of each kernel, as horizontal bars; one group of bars per kernel where weights are per class.

    Drawn as ``bars_``, a list with a matplotlib BarContainer per class, on ``ax_``.
    """

    weights: NDArray[np.float64]  #: shape (F,), or (M, F) for M classes
    kernel_names: Sequence[str]
    class_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, max_kernels: int | None = None
    ) -> KernelWeightsDisplay:
        """Draw the weights of a fitted estimator, or pipeline; of the ``max_kernels`` largest, if that is given."""
        estimator = _fitted(estimator, "weights_", "kernel_names_")
        weights = np.asarray(estimator.weights_)
        names = [str(name) for name in estimator.kernel_names_]
        per_class = weights.ndim == 2 and len(weights) == len(getattr(estimator, "classes_", ()))
        classes = [str(label) for label in estimator.classes_] if per_class else None
        if max_kernels is not None and max_kernels < len(names):
            largest = np.atleast_2d(np.abs(weights)).max(axis=0)
            kept = np.sort(np.argsort(-largest, kind="stable")[:max_kernels])
            weights, names = weights[..., kept], [names[k] for k in kept]
        return cls(weights, names, classes).plot(ax=ax)

    def plot(self, ax: Any = None) -> KernelWeightsDisplay:
        """Draw; returns the display."""
        ax = self._begin(ax, "weight")
        rows = np.atleast_2d(self.weights)
        positions, height = np.arange(rows.shape[1]), 0.8 / len(rows)
        offsets = height * (np.arange(len(rows)) - (len(rows) - 1) / 2)
        labels: Sequence[str | None] = self.class_names or [None] * len(rows)
        self.bars_ = [
            ax.barh(positions + offset, row, height=height, label=label)
            for offset, row, label in zip(offsets, rows, labels)
        ]
        ax.set_yticks(positions, self.kernel_names)
        ax.invert_yaxis()
        if self.class_names is not None:
            ax.legend(title="class", frameon=False)
        return self


def convergence(model: Any) -> list[dict[str, float]]:
    """Course of a fit: after each iteration, its time and the largest relative gap of all its problems.

    A problem that has not begun counts 1, the gap of the solution zero. One problem alone has the numbers of
    `COUNTED`, too.
    """
    history = getattr(model, "history_", None) or []
    gaps = dict.fromkeys((row.get("problem", 0) for row in history), 1.0)
    rows = []
    for row in sorted(history, key=lambda row: row["time"]):
        gaps[row.get("problem", 0)] = float(row.get("relative_gap", np.nan))
        rows.append({"time": float(row["time"]), "relative_gap": max(gaps.values())})
        if len(gaps) == 1:
            rows[-1].update({name: float(row[name]) for name in COUNTED if name in row})
    return rows


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """Relative duality gap against time, both axes logarithmic, drawn as ``line_`` on ``ax_``."""

    time: NDArray[np.float64]  #: seconds, shape (T,)
    gap: NDArray[np.float64]  #: the largest of several problems, shape (T,)
    name: str | None = None  #: for the legend

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, name: str | None = None, **line: Any
    ) -> ConvergenceDisplay:
        """Draw the course of a fit; ``line`` goes to matplotlib's ``plot``. Call again with ``ax`` to compare."""
        estimator = _fitted(estimator, "history_")
        time, gap = np.array([(row["time"], row["relative_gap"]) for row in convergence(estimator)]).reshape(-1, 2).T
        return cls(time, gap, name or type(estimator).__name__).plot(ax=ax, **line)

    def plot(self, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw; returns the display."""
        ax = self._begin(ax, "time in seconds", "relative duality gap")
        shown = np.maximum(self.gap, 1e-16)  # a gap of exactly zero has no logarithm
        (self.line_,) = ax.loglog(self.time, shown, **{"marker": ".", "label": self.name, **line})
        ax.grid(alpha=0.3)
        if self.name is not None:
            ax.legend(frameon=False)
        return self


@dataclass(eq=False, repr=False)
class WeightPathDisplay(Display):
    """Kernel weights along the iterations of a fit, or along a parameter, drawn as ``lines_`` on ``ax_``."""

    weights: NDArray[np.float64]  #: a row for each iteration or value, shape (T, F)
    kernel_names: Sequence[str]
    values: NDArray[np.float64] | None = None  #: of the parameter, ascending; by default iterations are counted
    parameter: str = "iteration"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, problem: int = 0, ax: Any = None, max_labels: int = 10
    ) -> WeightPathDisplay:
        """Draw weights along the iterations of a fit.

        ``problem`` says which, where several binary problems are solved. The legend names the ``max_labels`` kernels
        that end with the largest weights.
        """
        estimator = _fitted(estimator, "history_", "kernel_names_")
        rows = [row["weights"] for row in estimator.history_ if row.get("problem", 0) == problem]
        if not rows:
            problems = sorted({row.get("problem", 0) for row in estimator.history_})
            raise ValueError(f"there is no problem {problem} in the history; there are {problems}")
        return cls(np.stack(rows), estimator.kernel_names_).plot(ax=ax, max_labels=max_labels)

    def plot(self, ax: Any = None, max_labels: int = 10) -> WeightPathDisplay:
        """Draw; returns the display."""
        ax = self._begin(ax, self.parameter, "weight")
        along = np.arange(1, len(self.weights) + 1)
        judged = self.weights[-1] if self.values is None else self.weights.mean(axis=0)
        named = set(np.argsort(-judged, kind="stable")[:max_labels].tolist())
        self.lines_ = []
        for k, name in enumerate(self.kernel_names):
            label = name if k in named else f"_{name}"  # matplotlib leaves such labels out of the legend
            style = ("-", "--", ":", "-.")[(k // 10) % 4]  # colours repeat after ten
            self.lines_ += ax.plot(along, self.weights[:, k], style, marker=".", label=label)
        if self.values is not None:  # equally far apart, whatever they are: p = 1, 1.01, inf, or C over decades
            shown = np.unique(np.linspace(0, len(along) - 1, min(len(along), 10)).astype(int))
            ax.set_xticks(along[shown], [f"{self.values[k]:.3g}" for k in shown])
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))  # beside the lines, never on them
        return self


@dataclass(eq=False, repr=False)
class SparsityPathDisplay:
    """Accuracy, and beside it the number of kernels with a weight, against t, as in figures 8 and 13 of [GMSB11].

    Drawn on the two ``axes_`` of ``figure_``; arrays have an entry for each value.
    """

    values: NDArray  #: of t, ascending
    scores: NDArray
    counts: NDArray  #: of kernels, or groups of kernels, with a weight
    counted: str = "kernels"
    name: str = "CSKL"  #: for the legend

    def plot(self, axes: Any = None, **line: Any) -> SparsityPathDisplay:
        """Draw; returns the display. Call again with ``axes_`` of another to compare."""
        if axes is None:
            figure = _new_axes().figure
            figure.clear()
            figure.set_size_inches(9.0, 3.6)
            axes = figure.subplots(1, 2)
        self.axes_, self.figure_ = axes, axes[0].figure
        rows = ((self.scores, "accuracy"), (self.counts, f"{self.counted} with a weight"))
        for ax, (heights, label) in zip(axes, rows):
            ax.plot(self.values, heights, **{"marker": ".", "label": self.name, **line})
            ax.set(xlabel="t", ylabel=label)
            ax.spines[["top", "right"]].set_visible(False)
        axes[0].legend(frameon=False)
        return self


@dataclass(eq=False, repr=False)
class GridScoresDisplay(Display):
    """Heat map of the scores of a grid over p and λ, drawn as ``image_`` on ``ax_``; the chosen pair is framed."""

    scores: NDArray[np.float64]  #: shape (len(ps), len(regs))
    ps: Sequence[float]
    regs: Sequence[float]
    chosen: tuple[int, int] | None = None  #: row and column

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **image: Any) -> GridScoresDisplay:
        """Draw the grid of a fitted :class:`~multikernel.MKFDAClassifierCV`; ``image`` goes to ``imshow``."""
        estimator = _fitted(estimator, "scores_", "p_", "reg_")
        ps, regs = list(map(float, estimator.ps)), list(map(float, estimator.regs))
        chosen = ps.index(estimator.p_), regs.index(estimator.reg_)
        return cls(np.asarray(estimator.scores_), ps, regs, chosen).plot(ax=ax, **image)

    def plot(self, ax: Any = None, **image: Any) -> GridScoresDisplay:
        """Draw; returns the display."""
        ax = self._begin(ax, "regularisation λ", "norm p of the weights", frame=True)
        self.image_ = ax.imshow(self.scores, **{"aspect": "auto", "cmap": "viridis", **image})
        middle = 0.5 * (self.scores.min() + self.scores.max())
        for (i, j), score in np.ndenumerate(self.scores):
            colour = "black" if score > middle else "white"
            ax.text(j, i, f"{score:.3f}", ha="center", va="center", color=colour, fontsize="x-small")
        if self.chosen is not None:
            from matplotlib.patches import Rectangle

            i, j = self.chosen
            ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1.0, 1.0, fill=False, edgecolor="red", linewidth=2.0))
        ax.set_xticks(range(len(self.regs)), [_short(reg) for reg in self.regs])
        ax.set_yticks(range(len(self.ps)), ["∞" if p >= 1e6 else f"{p:.4g}" for p in self.ps])
        self.figure_.colorbar(self.image_, ax=ax, label="score")
        return self


def _short(value: float) -> str:
    """``0.01`` and above as they are, less as ``1e-3``: labels side by side must not touch."""
    return f"{value:.3g}" if value >= 0.01 else np.format_float_scientific(value, 2, trim="-", exp_digits=1)
