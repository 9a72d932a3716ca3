"""What is known about each kernel of a model as one tidy table, for files, figures and annotated data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.inspection.stability import weight_shares
from multikernel.inspection.views import final_model, find_views, pandas


def results_frame(model: Any, importance: Any = None, stability: Any = None, *, views: Any = None) -> Any:
    """One row per kernel: its view and weight, and what tests and resamples say about them.

    Parameters
    ----------
    model, views : as for :func:`~multikernel.inspection.view_importance`
    importance : Bunch, optional
        Of :func:`~multikernel.inspection.view_importance`. All kernels of a view have its importance.
    stability : Bunch, optional
        Of :func:`~multikernel.inspection.weight_stability`.

    Returns
    -------
    table : pandas.DataFrame
        Columns kernel, view, weight (the mean over classes where they have their own), share (weights that add up
        to one), importance, p_value, low and high (the interval of the share), frequency; NaN where not given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import KernelAverageClassifier
    >>> from multikernel.inspection import results_frame, view_importance
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = KernelAverageClassifier(kernels).fit(X[::2], y[::2])
    >>> importance = view_importance(model, X[1::2], y[1::2], random_state=0)
    >>> results_frame(model, importance)[["kernel", "share", "importance"]].round(2)
       kernel  share  importance
    0  sepals    0.5       -0.01
    1  petals    0.5        0.61
    """
    pd = pandas("results_frame")
    table = kernel_table(model, views)
    not_given = np.full(len(table["kernel"]), np.nan)
    table |= dict.fromkeys(("importance", "p_value", "low", "high", "frequency"), not_given)
    if importance is not None:
        values = np.column_stack([importance.importances_mean, importance.p_values])
        of_view = {"": (np.nan, np.nan), **dict(zip(map(str, importance.names), values))}
        if unknown := [name for name in table["view"] if name not in of_view]:
            raise ValueError(
                f"importance is not of view {unknown[0]!r}, but of {', '.join(map(str, importance.names))}: pass the "
                "same views= to both."
            )
        table["importance"], table["p_value"] = np.array([of_view[name] for name in table["view"]]).T
    if stability is not None:
        if list(stability.names) != list(table["kernel"]):
            raise ValueError("stability is about other kernels than the model has: compute it for this model.")
        table["low"], table["high"] = stability.intervals.T
        table["frequency"] = stability.frequencies
    return pd.DataFrame(table)


def kernel_table(model: Any, views: Any = None) -> dict[str, NDArray]:
    """Columns kernel, view, weight and share, one entry per kernel; kernels of no view have the view ''."""
    final, _ = final_model(model)
    view_of = np.full(len(final.kernel_names_), "", dtype=object)
    for name, kernels in find_views(final, views).items():
        view_of[kernels] = name
    names = np.array([str(name) for name in final.kernel_names_], dtype=object)
    weights = np.atleast_2d(final.weights_).mean(axis=0)
    return {"kernel": names, "view": view_of, "weight": weights, "share": weight_shares(final)}


def write_uns(
    data: Any,
    model: Any,
    importance: Any = None,
    stability: Any = None,
    *,
    views: Any = None,
    key: str = "multikernel",
) -> None:
    """Keep the table of :func:`results_frame` with the AnnData or MuData it is about, in ``data.uns[key]``."""
    table = results_frame(model, importance, stability, views=views)
    data.uns[key] = table.set_index(table.index.astype(str))
