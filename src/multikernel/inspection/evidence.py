"""Displays of evidence: importance of views, stability of weights, and a decision as a waterfall."""

from __future__ import annotations

from typing import Any

import numpy as np

from multikernel.inspection.displays import _Display
from multikernel.inspection.importance import explain, view_importance
from multikernel.inspection.stability import weight_stability


class ViewImportanceDisplay(_Display):
    """Importance of each view, largest on top, as boxes over the repeats; p-values beside them.

    Parameters
    ----------
    result : Bunch
        Of :func:`~multikernel.inspection.view_importance`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from multikernel.inspection import ViewImportanceDisplay
    >>> display = ViewImportanceDisplay.from_estimator(model, X_test, y_test)  # doctest: +SKIP
    """

    def __init__(self, result: Any):
        self.result = result

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **options: Any
    ) -> ViewImportanceDisplay:
        """Compute and draw; ``options`` are those of :func:`~multikernel.inspection.view_importance`."""
        return cls(view_importance(estimator, X, y, **options)).plot(ax)

    @classmethod
    def from_results(cls, result: Any, *, ax: Any = None) -> ViewImportanceDisplay:
        """Draw what :func:`~multikernel.inspection.view_importance` returned."""
        return cls(result).plot(ax)

    def plot(self, ax: Any = None) -> ViewImportanceDisplay:
        """Draw; returns the display."""
        lost = "in another order" if self.result.method == "permute" else "left out"
        ax = self._begin(ax, f"score lost when the view is {lost}")
        order = np.argsort(self.result.importances_mean, kind="stable")
        ax.boxplot(self.result.importances[order].T, orientation="horizontal", tick_labels=self.result.names[order])
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        for row, p in enumerate(self.result.p_values[order], start=1):
            text = f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
            ax.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize="small")
        return self


class WeightStabilityDisplay(_Display):
    """Share of each kernel in the weights with its interval over resamples, and how often it is selected.

    Parameters
    ----------
    result : Bunch
        Of :func:`~multikernel.inspection.weight_stability`.
    max_kernels : int, optional
        Draw only that many kernels, those selected most often.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from multikernel.inspection import WeightStabilityDisplay
    >>> display = WeightStabilityDisplay.from_estimator(model, X, y)  # doctest: +SKIP
    """

    def __init__(self, result: Any, max_kernels: int | None = None):
        self.result, self.max_kernels = result, max_kernels

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, max_kernels: int | None = None, **options: Any
    ) -> WeightStabilityDisplay:
        """Compute and draw; ``options`` are those of :func:`~multikernel.inspection.weight_stability`."""
        return cls(weight_stability(estimator, X, y, **options), max_kernels).plot(ax)

    @classmethod
    def from_results(cls, result: Any, *, ax: Any = None, max_kernels: int | None = None) -> WeightStabilityDisplay:
        """Draw what :func:`~multikernel.inspection.weight_stability` returned."""
        return cls(result, max_kernels).plot(ax)

    def plot(self, ax: Any = None) -> WeightStabilityDisplay:
        """Draw; returns the display."""
        ax = self._begin(ax, "share of the weights; right: how often selected")
        median = np.median(self.result.weights, axis=0)
        order = np.lexsort((median, self.result.frequencies))[-(self.max_kernels or len(median)) :]
        rows, intervals = np.arange(len(order)), self.result.intervals[order]
        ax.hlines(rows, *intervals.T, color="C0", linewidth=2.0)
        ax.plot(median[order], rows, "o", color="C0")
        for row, frequency in zip(rows, self.result.frequencies[order]):
            place = (1.01, row)
            ax.annotate(
                f"{100 * frequency:.0f} %", place, xycoords=("axes fraction", "data"), va="center", fontsize="small"
            )
        ax.set_yticks(rows, self.result.names[order])
        return self


class DecisionDisplay(_Display):
    """One decision as a waterfall: the intercept, what each view adds, and the score that comes out.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of :func:`~multikernel.inspection.explain` for one sample and one class.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    Examples
    --------
    >>> from multikernel.inspection import DecisionDisplay
    >>> display = DecisionDisplay.from_estimator(model, X_test, sample=3)  # doctest: +SKIP
    """

    def __init__(self, table: Any):
        self.table = table

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, sample: int = 0, class_name: Any = None, views: Any = None, ax: Any = None
    ) -> DecisionDisplay:
        """Draw the decision on one sample.

        Parameters
        ----------
        estimator : fitted estimator, or pipeline that ends in one
        X : as for ``predict``
        sample : int
            Position in X.
        class_name : object, optional
            Class or label; by default the one with the highest score.
        views : dict or sequence, optional
            As for :func:`~multikernel.inspection.view_importance`.
        ax : matplotlib Axes, optional
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

    def plot(self, ax: Any = None) -> DecisionDisplay:
        """Draw; returns the display."""
        parts = self.table.sort_values("contribution", key=abs)
        parts = parts.iloc[np.argsort(parts["view"] == "(intercept)", kind="stable")[::-1]]
        values = parts["contribution"].to_numpy()
        ax = self._begin(ax, f"score of {self.table['class'].iloc[0]}: {values.sum():.3g}")
        starts = np.concatenate([[0.0], np.cumsum(values)[:-1]])
        rows = np.arange(len(values))
        ax.use_sticky_edges = False  # room for the line at the score
        ax.barh(rows, values, left=starts, color=np.where(values < 0.0, "C3", "C0"))
        ax.axvline(0.0, color="0.6", linewidth=1.0, zorder=0)
        ax.axvline(values.sum(), color="0.2", linewidth=1.0, linestyle=":")
        ax.set_yticks(rows, parts["view"])
        ax.invert_yaxis()
        return self
