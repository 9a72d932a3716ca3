"""Learning from a stream: OBSCURE's online stage on samples as they come, with bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data

from multikernel.estimators.base import sane_weights
from multikernel.estimators.group_norm import GroupNormClassifier
from multikernel.gram import GramStack, KernelRows, LazyStack, parse_memory
from multikernel.gram.normalization import Normalization, _inverse_root
from multikernel.io.state import COUNT, Maybe, anything, array, attributes, optional, reals, record
from multikernel.problems.losses.hinge import MulticlassHinge
from multikernel.problems.obscure import GroupNormProblem
from multikernel.solvers.common.score_table import ScoreTable

EVICTION = ("oldest", "smallest")


class OnlineLearning(GroupNormClassifier):
    """Base class: ``partial_fit`` for classifiers on features, with the state of the stream in ``_stream``."""

    _state = attributes(
        n_updates_=Maybe(anything),
        n_mistakes_=Maybe(anything),
        _stream=optional(
            record(
                coef=reals("support", "classes"),
                table=reals("kernels", "classes", "support"),
                arrival=array("iu", "support", least=0),
                seen=COUNT,
                updates=COUNT,
                mistakes=COUNT,
            )
        ),
    )

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None):
        """Go over new samples once, in their order, with the online stage [OJC10, alg. 1].

        The first call fits bandwidths and normalisation, on the samples it is given. After ``fit`` it goes on from
        the fitted model.

        Parameters
        ----------
        X : array-like of shape (m, d)
            New samples. Precomputed kernels have no row for samples to come, so features are needed.
        y : array-like of shape (m,)
            Their labels.
        classes : array-like of shape (M,), optional
            All labels that will ever come; needed in the first call.
        sample_weight : array-like of shape (m,), optional
            Factor of each sample's step, beside that of its class: ``class_weight`` is a dict or None in a stream.

        Returns
        -------
        self : object
        """
        self._check_parameters()
        if self._is_pairwise():
            raise ValueError(
                "partial_fit needs features: precomputed kernels and distances hold no values for "
                "future samples. Pass X of shape (m, d) and kernel objects."
            )
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} depends on future samples: use a dict "
                "with a factor for each class, or sample_weight."
            )
        weight = _weights_of(sample_weight, X)
        first = not hasattr(self, "classes_")
        if first:
            X, codes = self._begin_stream(X, y, classes)
        else:
            X, codes = self._more_of_stream(X, y, classes)
        self._advance(X, codes, weight * self._class_factors()[codes])
        return self

    def _class_factors(self) -> NDArray[np.float64]:
        """Factor of the steps of each class, from ``class_weight``."""
        return compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)

    def _begin_stream(self, X: Any, y: Any, classes: Any) -> tuple[Any, NDArray]:
        if classes is None:
            raise ValueError(
                "classes must be given in the first call of partial_fit: list all labels that will occur."
            )
        known = np.unique(classes)
        if len(known) < 2:
            raise ValueError(f"classes holds {len(known)} class: a classifier needs at least 2.")
        _, y = self._training_stack(X, y)
        codes = codes_of(y, known)
        self.classes_ = known
        if self._normalization.needs_all_columns or self._clipped:
            del self.classes_
            raise ValueError(
                'partial_fit cannot centre or clip kernels, which depends on all samples: leave "center" out of '
                'normalize, and psd="raise" or "ignore".'
            )
        empty = np.zeros((0, len(known)))
        stream = {"coef": empty, "arrival": np.zeros(0, np.int64), "seen": 0, "updates": 0, "mistakes": 0}
        stream["table"] = np.zeros((len(self.kernel_names_), len(known), 0))
        self._stream = stream
        self.history_ = []
        X, self._X = self._X, self._X[:0]
        return X, codes

    def _more_of_stream(self, X: Any, y: Any, classes: Any) -> tuple[Any, NDArray]:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        check_classification_targets(y)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes {', '.join(map(str, np.unique(classes)))} are not those that were announced, "
                f"{', '.join(map(str, self.classes_))}: new classes cannot be added to a stream."
            )
        if getattr(self, "_stream", None) is None:
            self._stream_from_fit()
        return X, codes_of(y, self.classes_)

    def _stream_from_fit(self) -> None:
        """Take the fitted model for the outcome of a stream."""
        if self._columns is None:
            raise ValueError("partial_fit cannot continue from a model that centres or clips its kernels.")
        alpha = self.dual_coef_.T
        alpha = np.column_stack([-0.5 * alpha[:, 0], 0.5 * alpha[:, 0]]) if alpha.shape[1] == 1 else alpha
        coef = self._dual_exponent() * alpha
        stack, _ = self._union_stack(self._X)
        self._stream = {
            "coef": coef, "table": np.moveaxis(stack.apply(coef), 2, 1), "arrival": np.arange(len(coef)),
            "seen": self._n_train, "updates": 0, "mistakes": 0,
        }  # fmt: skip

    def _union_stack(self, X: Any) -> tuple[GramStack, Normalization]:
        """Lazy square stack on ``X``, normalised as the first samples were, and that normalisation."""
        raw = LazyStack(self._family, X, memory=0, dtype=np.float32 if X.dtype == np.float32 else np.float64)
        stack: GramStack = raw
        statistics = []
        for step in self._normalization.statistics_:
            if step["from_rows"]:
                columns = np.where(step["chosen"][:, None], _inverse_root(stack.diagonal()), 1.0)
            else:
                columns = np.repeat(step["factor"][:, None], len(stack), axis=1)
            statistics.append({**step, "columns": columns})
            stack = stack.scaled(columns, columns)
        return stack, Normalization(self._normalization.steps, statistics)

    def _advance(self, X: Any, codes: NDArray, weight: NDArray) -> None:
        stream = self._stream
        old, m = len(stream["coef"]), len(codes)
        union: Any = X if old == 0 else _stacked(self._X, X)
        union = union.tocsr() if scipy.sparse.issparse(union) else union
        stack, normalization = self._union_stack(union)
        labels = np.concatenate([np.zeros(old, dtype=np.int64), codes])
        loss = MulticlassHinge(labels, len(self.classes_), cost=self.cost)
        problem = GroupNormProblem(stack, loss, 1.0, self._group_norm(stack.n_kernels))
        state = ScoreTable(problem, KernelRows(stack, parse_memory(self.memory)))
        state.importance = np.concatenate([np.ones(old), weight])
        new = np.arange(old, old + m)
        state.coef[:old], state.table[:, :, :old] = stream["coef"], stream["table"]
        if old:
            scores = stack.take(rows=new, columns=np.arange(old)).apply(stream["coef"])
            state.table[:, :, new] = np.moveaxis(scores, 2, 1)
        state.settle()
        arrival = np.concatenate([stream["arrival"], stream["seen"] + np.arange(m)])
        if self.budget is None:
            state.online(new, self.eta)
        else:
            for i in new:
                state.online(np.array([i]), self.eta)
                self._keep_budget(state, arrival)
        state.settle()
        self._store_stream(state, union, normalization, arrival)

    def _keep_budget(self, state: ScoreTable, arrival: NDArray) -> None:
        support = np.flatnonzero(state.coef.any(axis=1))
        while len(support) > self.budget:
            if self.eviction == "oldest":
                victim = int(arrival[support].argmin())
            else:
                victim = _least_missed(state, support)
            state.remove(int(support[victim]))
            support = np.delete(support, victim)

    def _store_stream(self, state: ScoreTable, X: Any, normalization: Normalization, arrival: NDArray) -> None:
        stream = self._stream
        kept = np.flatnonzero(state.coef.any(axis=1))
        updates, mistakes = state.updates, state.mistakes
        stream["seen"] = int(stream["seen"] + X.shape[0] - len(stream["coef"]))
        stream["updates"], stream["mistakes"] = stream["updates"] + updates, stream["mistakes"] + mistakes
        stream["coef"], stream["arrival"] = state.coef[kept], arrival[kept]
        stream["table"] = np.ascontiguousarray(state.table[:, :, kept])
        self._X, self._normalization = X, normalization
        self._columns = None
        self._keep_training_rows(kept)
        alpha = stream["coef"] / state.problem.q
        self.support_ = kept
        self.dual_coef_ = (alpha[:, 1:] - alpha[:, :1]).T if alpha.shape[1] == 2 else alpha.T
        self.weights_ = np.array(state.weights)
        self._finish(len(self.dual_coef_))
        self.objective_ = self.dual_gap_ = float("nan")
        self.converged_, self.n_iter_ = False, 1
        self.n_updates_, self.n_mistakes_ = int(stream["updates"]), int(stream["mistakes"])
        row = {"seen": stream["seen"], "updates": updates, "mistakes": mistakes, "n_support": len(kept)}
        self.history_ = [*getattr(self, "history_", []), {**row, "weights": self.weights_}]


def _least_missed(state: ScoreTable, support: NDArray) -> int:
    """Which of the support vectors has the smallest coefficients; of several, the one that the others need least.

    Samples that were met once all have the coefficients ±eta, unless their weights differ. Of those that tie the one
    goes that the rest of the model classifies with the widest margin [CKS03].
    """
    sizes = (state.coef[support] ** 2).sum(axis=1)
    tied = np.flatnonzero(sizes <= sizes.min() * (1.0 + 1e-9))
    samples = support[tied]
    coef = state.coef[samples]
    scores = np.tensordot(state.weights, state.table[:, :, samples], axes=1).T
    scores -= coef * (state.weights @ state.diagonal[:, samples])[:, None]
    own = np.arange(len(tied)), coef.argmax(axis=1)  # only the label's coefficient is positive
    margins = scores[own]
    scores[own] = -np.inf
    margins = margins - scores.max(axis=1)
    return int(tied[margins.argmax()])


def _weights_of(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Weights of samples, ones by default; all may be zero, which teaches nothing."""
    if sample_weight is not None and not np.any(sample_weight):
        return np.zeros(_num_samples(X))
    return sane_weights(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def _stacked(above: Any, below: Any) -> Any:
    """Rows of two tables, sparse if either is."""
    if scipy.sparse.issparse(above) or scipy.sparse.issparse(below):
        return scipy.sparse.vstack([scipy.sparse.csr_array(above), scipy.sparse.csr_array(below)])
    return np.vstack([above, below])


def codes_of(y: Any, classes: NDArray) -> NDArray[np.int64]:
    """Labels as positions in ``classes``; one that is not there is an error."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    wrong = np.flatnonzero(classes[codes] != y)
    if len(wrong):
        known = ", ".join(map(str, classes))
        raise ValueError(
            f"y[{wrong[0]}] is {y[wrong[0]]}, which is not among the announced classes {known}: "
            "the first call of partial_fit must list all labels."
        )
    return codes.astype(np.int64)
