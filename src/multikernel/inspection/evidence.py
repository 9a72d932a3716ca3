"""Displays of evidence: importance of views, stability of weights, and a decision as a waterfall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from multikernel.inspection.displays import Display
from multikernel.inspection.importance import explain, view_importance
from multikernel.inspection.stability import weight_stability


class _ResultDisplay(Display):
    """A display of what a function of this package returned, with a remark on the right of each row."""

    @classmethod
    def from_results(cls: Any, result: Any, *, ax: Any = None, **options: Any) -> Any:
        """Draw a result that was computed before; ``options`` are the other parameters of the display."""
        return cls(result, **options).plot(ax)

    def _remark(self, row: int, text: str) -> None:
        self.ax_.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize="small")


@dataclass(eq=False, repr=False)
class ViewImportanceDisplay(_ResultDisplay):
    """Importance of each view, largest on top, as boxes over the repeats on ``ax_``; p-values beside them."""

    result: Any  #: of :func:`~multikernel.inspection.view_importance`

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **options: Any) -> Self:
        """Compute and draw; ``options`` are those of :func:`~multikernel.inspection.view_importance`."""
        return cls(view_importance(estimator, X, y, **options)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; returns the display."""
        lost = "in another order" if self.result.method == "permute" else "left out"
        ax = self._begin(ax, f"score lost when the view is {lost}")
        order = np.argsort(self.result.importances_mean, kind="stable")
        ax.boxplot(self.result.importances[order].T, orientation="horizontal", tick_labels=self.result.names[order])
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        for row, p in enumerate(self.result.p_values[order], start=1):
            self._remark(row, f"p = {p:.2g}" if p >= 0.001 else "p < 0.001")
        return self


@dataclass(eq=False, repr=False)
class WeightStabilityDisplay(_ResultDisplay):
    """Share of each kernel in the weights with its interval over resamples, and how often it is selected."""

    result: Any  #: of :func:`~multikernel.inspection.weight_stability`
    max_kernels: int | None = None  #: draw only that many, those selected most often

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, max_kernels: int | None = None, **options: Any
    ) -> Self:
        """Compute and draw; ``options`` are those of :func:`~multikernel.inspection.weight_stability`."""
        return cls(weight_stability(estimator, X, y, **options), max_kernels).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; returns the display."""
        ax = self._begin(ax, "share of the weights; right: how often selected")
        median = np.median(self.result.weights, axis=0)
        order = np.lexsort((median, self.result.frequencies))[-(self.max_kernels or len(median)) :]
        rows = np.arange(len(order))
        ax.hlines(rows, *self.result.intervals[order].T, color="C0", linewidth=2.0)
        ax.plot(median[order], rows, "o", color="C0")
        for row, frequency in enumerate(self.result.frequencies[order]):
            self._remark(row, f"{100 * frequency:.0f} %")
        ax.set_yticks(rows, self.result.names[order])
        return self


@dataclass(eq=False, repr=False)
class DecisionDisplay(Display):
    """One decision as a waterfall: the intercept, what each view adds, and the score that comes out."""

    table: Any  #: rows of :func:`~multikernel.inspection.explain` for one sample and one class

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, sample: int = 0, class_name: Any = None, views: Any = None, ax: Any = None
    ) -> Self:
        """Draw the decision on the sample at a position in X, for a class: by default the one with the highest score.

        ``views`` are those of :func:`~multikernel.inspection.view_importance`.
        """
        table = explain(estimator, X, views)
        names, n_rows = list(dict.fromkeys(table["class"])), len(set(table["view"]))
        start = sample * len(names) * n_rows
        mine = table.iloc[start : start + len(names) * n_rows]
        if class_name is None:
            class_name = mine.groupby("class", sort=False)["contribution"].sum().idxmax()
        elif class_name not in names:
            raise ValueError(f"class_name={class_name!r} is not one of {', '.join(map(repr, names))}.")
        return cls(mine[mine["class"] == class_name]).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; returns the display."""
        parts = self.table.sort_values("contribution", key=abs)
        parts = parts.iloc[np.argsort(parts["view"] == "(intercept)", kind="stable")[::-1]]
        values = parts["contribution"].to_numpy()
        rows, ends = np.arange(len(values)), np.cumsum(values)
        ax = self._begin(ax, f"score of {self.table['class'].iloc[0]}: {ends[-1]:.3g}")
        ax.use_sticky_edges = False  # room for the line at the score
        ax.barh(rows, values, left=ends - values, color=np.where(values < 0.0, "C3", "C0"))
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        ax.axvline(ends[-1], color="0.2", linewidth=1.0, linestyle=":")
        ax.set_yticks(rows, parts["view"])
        ax.invert_yaxis()
        return self
