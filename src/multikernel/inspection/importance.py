"""Which views matter: importance by permutation or by refitting, with p-values; and what a decision is made of."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.metaestimators import _safe_split

from multikernel.gram import GramStack
from multikernel.inspection.displays import last_step
from multikernel.inspection.views import (
    Parts,
    Views,
    best_of_search,
    final_model,
    find_views,
    pandas,
    random_splits,
    start_from,
)

# Random orders behind a p-value: enough to tell 0.05; scoring an order costs a millisecond.
ORDERS = 99
# Share of the samples that a refit is scored on.
HELD_OUT = 0.25


def view_importance(
    model: Any,
    X: Any,
    y: Any,
    views: Any = None,
    method: str = "permute",
    n_repeats: int = 10,
    scoring: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Bunch:
    """How much worse a model scores when a view tells it nothing.

    - ``method="permute"``: a view's kernels see the samples in a random order, all kernels of the view in the same.
      Nothing is fitted or evaluated again. On training samples even noise looks important. Of two views that tell the
      same, each keeps what the model gave it. p-values are those of a permutation test: the share of 99 random orders
      (``n_repeats`` where a model multiplies kernels) that score as well as the true one, or Student's t where none
      does. For a view that is independent of the labels and of the other views they are exact, however the model was
      fitted; where samples lack views, the factors of the mask are permuted with what a view adds.
    - ``method="refit"``: the model is fitted with and without the view on random three quarters of the samples, and
      scored on the rest. Of two views that tell the same, neither is missed. p-values are of Student's t with the
      variance corrected for overlapping training sets [NB03].

    Parameters
    ----------
    model : fitted estimator of this library, a pipeline that ends in one, or a search over them
    X, y : as for ``score``
        For "permute" samples the model has not seen; for "refit" those to split.
    views : dict or sequence, optional
        A dict of names to kernels, by name or position, or one label per kernel. By default kernels on the same
        columns are one view, and precomputed kernels are each their own.
    method : {"permute", "refit"}
    n_repeats : int
        Random orders that the importances are of, or splits.
    scoring : str, callable or None
        As in scikit-learn; None: the model's own ``score``.
    random_state : int, RandomState or None
    n_jobs : int, optional
        Threads over views.

    Returns
    -------
    result : Bunch
        ``importances`` (V, n_repeats), their ``importances_mean`` and ``importances_std`` (V,); ``p_values`` (V,), by
        Holm's correction for the number of views, and ``p_values_uncorrected``; ``names`` of the views; the score
        ``baseline``, (n_repeats,) for "refit".

    Examples
    --------
    >>> from multikernel import MKLClassifier
    >>> from multikernel.datasets import make_views
    >>> from multikernel.inspection import view_importance
    >>> data = make_views(200, n_informative=1, n_noise=1, random_state=0)
    >>> model = MKLClassifier(data.kernels).fit(data.X[:100], data.y[:100])
    >>> result = view_importance(model, data.X[100:], data.y[100:], random_state=0)
    >>> dict(zip(result.names, (result.p_values < 0.05).tolist()))
    {'informative-1': True, 'noise-1': False}
    """
    if method not in ("permute", "refit"):
        raise ValueError(f"method={method!r} is not known: use 'permute' or 'refit'.")
    if n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats!r} must be at least 1.")
    final, given = final_model(model, X)
    found = find_views(final, views)
    rng = check_random_state(random_state)
    if method == "permute":
        baseline, importances, p = _by_permuting(final, given, y, found, n_repeats, scoring, rng, n_jobs)
    else:
        baseline, importances, p = _by_refitting(model, X, y, found, n_repeats, scoring, rng, n_jobs)
    return Bunch(
        importances=importances,
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        names=np.array(list(found), dtype=object),
        p_values=holm(p),
        p_values_uncorrected=p,
        baseline=baseline,
        method=method,
    )


def _by_permuting(
    model: Any, X: Any, y: Any, views: Views, n_repeats: int, scoring: Any, rng: Any, n_jobs: int | None
) -> tuple[Any, NDArray, NDArray]:
    scorer, parts = check_scoring(model, scoring), Parts(model, X)
    baseline = float(scorer(parts.permuted(np.zeros(0, dtype=np.intp)), X, y))
    n_orders = max(n_repeats, ORDERS) if parts.additive else n_repeats  # a product costs a prediction each

    def of_view(kernels: NDArray, seed: int) -> tuple[NDArray, float]:
        if parts.silent(kernels):
            return np.zeros(n_repeats), 1.0
        orders = np.random.default_rng(seed)
        changed = (parts.permuted(kernels, orders.permutation(len(parts))) for _ in range(n_orders))
        scores = np.array([scorer(stand_in, X, y) for stand_in in changed])
        return baseline - scores[:n_repeats], permutation_p_value(scores, baseline)

    seeds = rng.randint(np.iinfo(np.int32).max, size=len(views))
    rows = Parallel(n_jobs, prefer="threads")(delayed(of_view)(*pair) for pair in zip(views.values(), seeds))
    return baseline, np.array([row for row, _ in rows]), np.array([p for _, p in rows])


def permutation_p_value(scores: NDArray[np.float64], baseline: float) -> float:
    """The chance of a score like ``baseline`` among those of random orders: (g + 1) / (R + 1) if g of R are as good.

    If none is, the chance that Student's t gives a new draw, where that is smaller; but never below 1 / (R + 1)²,
    because nothing is known of tails so far out.
    """
    n = len(scores)
    exact = (1 + np.count_nonzero(scores >= baseline - 1e-12 * abs(baseline))) / (n + 1)
    spread = scores.std(ddof=1) * np.sqrt(1.0 + 1.0 / n)
    if exact > 1.0 / (n + 1) or spread == 0.0:
        return float(exact)
    tail = student.sf((baseline - scores.mean()) / spread, n - 1)
    return float(np.clip(tail, exact**2, exact))


def _by_refitting(
    model: Any, X: Any, y: Any, views: Views, n_repeats: int, scoring: Any, rng: Any, n_jobs: int | None
) -> tuple[Any, NDArray, NDArray]:
    if n_repeats < 2:
        raise ValueError('method="refit" needs n_repeats of at least 2: p-values come from the spread over splits.')
    if len(views) < 2:
        raise ValueError(
            f'the model has one view, {next(iter(views))!r}: nothing is left without it. Use method="permute".'
        )
    model = best_of_search(model)
    scorer = check_scoring(model, scoring)
    splits = random_splits(model, np.asarray(y), n_repeats, HELD_OUT, rng)
    n_kernels = len(final_model(model)[0].kernel_names_)

    def of_split(train: NDArray, test: NDArray) -> list[float]:
        (X_train, y_train), (X_test, y_test) = _safe_split(model, X, y, train), _safe_split(model, X, y, test, train)
        whole = clone(model).fit(X_train, y_train)
        scores = [scorer(whole, X_test, y_test)]
        for kernels in views.values():
            kept = np.setdiff1d(np.arange(n_kernels), kernels)
            rest = without(whole, kept).fit(kernels_of(whole, X_train, kept), y_train)
            scores.append(scorer(rest, kernels_of(whole, X_test, kept), y_test))
        return scores

    table = np.array(Parallel(n_jobs, prefer="threads")(delayed(of_split)(*split) for split in splits)).T
    importances = table[0] - table[1:]
    spread = importances.std(axis=1, ddof=1) * np.sqrt(1.0 / n_repeats + HELD_OUT / (1.0 - HELD_OUT))
    mean = importances.mean(axis=1)
    p = student.sf(mean / np.where(spread > 0.0, spread, 1.0), n_repeats - 1)
    alike = np.where(mean > 0.0, 0.5**n_repeats, 1.0)  # all splits agree: as likely as tails every time
    return table[0], importances, np.where(spread > 0.0, p, alike)


def without(model: Any, kept: NDArray[np.intp]) -> Any:
    """An unfitted model on some of the kernels of a fitted one, which starts from its solution if it can."""
    rest = clone(model)
    new, old = last_step(rest), last_step(model)
    if not isinstance(old.kernels, str):  # else X holds the kernels
        kernels = list(old._family.kernels if old.kernels is None else old.kernels)
        new.set_params(kernels=[clone(kernels[k], safe=False) for k in kept])
    start_from(new, old, kernels=kept)
    return rest


def kernels_of(model: Any, X: Any, kept: NDArray[np.intp]) -> Any:
    """X with some of its kernels, where it holds kernels; else X."""
    if not isinstance(last_step(model).kernels, str):
        return X
    return X.take(kernels=kept) if isinstance(X, GramStack) else X[:, :, kept]


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's correction: the p-values that keep the chance of any false discovery at their level."""
    order = np.argsort(p, kind="stable")
    corrected = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return corrected[np.argsort(order)]


def explain(model: Any, X: Any, views: Any = None) -> Any:
    """What each view adds to each decision.

    Parameters
    ----------
    model, views : as for :func:`view_importance`
    X : as for ``predict``

    Returns
    -------
    table : pandas.DataFrame
        Columns sample (the index of a data frame X, else its position), class, view and contribution. The
        contributions of a sample and class, that of the view "(intercept)" among them, add up to the decision
        function; for two classes that is the score of ``classes_[1]``, for ``multi_class="ovo"`` those of pairs
        "b over a", for regression the prediction.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKLClassifier
    >>> from multikernel.inspection import explain
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier().fit(X, y)
    >>> table = explain(model, X[:2], views=["linear", "rbf", "rbf", "rbf"])
    >>> list(table.columns), sorted(set(table["view"]))
    (['sample', 'class', 'view', 'contribution'], ['(intercept)', 'linear', 'rbf'])
    >>> sums = table.groupby(["sample", "class"])["contribution"].sum().unstack()
    >>> bool(abs(sums - model.decision_function(X[:2])).to_numpy().max() < 1e-9)
    True
    """
    pd = pandas("explain")
    final, given = final_model(model, X)
    if not hasattr(final, "kernel_contributions"):
        raise TypeError(f"{type(final).__name__} multiplies kernels here, so decisions are no sums over views.")
    found, of_kernels = find_views(final, views), final._contributions(given)
    m, _, n_tasks = of_kernels.shape
    shares = [of_kernels[:, kernels].sum(axis=1) for kernels in found.values()]
    table = np.stack([*shares, np.broadcast_to(final.intercept_, (m, n_tasks))], axis=2)
    index = pd.MultiIndex.from_product(
        [X.index if isinstance(X, pd.DataFrame) else range(m), task_names(final, n_tasks), [*found, "(intercept)"]],
        names=["sample", "class", "view"],
    )
    return pd.DataFrame({"contribution": table.reshape(-1)}, index=index).reset_index()


def task_names(model: Any, n_tasks: int) -> list[Any]:
    """What the columns of scores are about: classes, labels, pairs of classes, or the prediction."""
    classes = list(getattr(model, "classes_", ()))
    if getattr(model, "multi_class", "") == "ovo" and len(classes) > 2:
        return [f"{b} over {a}" for a, b in combinations(classes, 2)]
    known = [classes, classes[1:], ["prediction"]]  # of two classes, the second has the scores
    return next((names for names in known if len(names) == n_tasks), list(range(n_tasks)))
