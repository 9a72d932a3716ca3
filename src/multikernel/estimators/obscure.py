"""Multiclass MKL on a group norm of w: OBSCURE, p-norm Pegasos and dual coordinate ascent; streams of samples."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data

from multikernel.estimators.base import (
    AverageLossMachine,
    KernelClassifier,
    TrainingData,
    count_kernels,
    sane_weights,
)
from multikernel.estimators.inputs import filled, stacked, validation
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.gram import GramStack, LazyStack, parse_memory
from multikernel.gram.normalization import Normalization
from multikernel.io.state import COUNT, Maybe, anything, array, attributes, only, optional, reals, record
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.runtime.monitor import Result
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.catalogue import find_solver
from multikernel.solvers.obscure.online import EVICTION, learn_online, new_stream, stream_of

C_GRID = (1.0, 10.0, 100.0, 1000.0)
GRID = {"C": C_GRID, "p": (1.05, 1.25, 1.5)}


@estimator
class GroupNormClassifier(AverageLossMachine, KernelClassifier):
    """Base class: one multiclass problem on a group norm of w, without a bias.

    Parameters
    ----------
    cost : array of shape (M, M), optional
        Cost of answering ``classes_[r]`` (column) where ``classes_[y]`` (row) is right.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (M, n_support), (1, n_support) for two classes
        Signed dual coefficients; for two classes those of the difference of the two scores.
    """

    _: KW_ONLY
    cost: Any = None
    tol: float = 1e-2
    max_iter: int = 2000

    _state = attributes(_stream=only(None))

    @abstractmethod
    def _group_norm(self, n_kernels: int) -> float:
        """The p of the group norm on w."""

    def _sparsity(self) -> float:
        return 0.0

    def _problems(self, data: TrainingData, run: Run) -> Sequence[ObscureProblem]:
        codes = np.searchsorted(self.classes_, data.labels)
        loss = MulticlassHinge(codes, len(self.classes_), data.sample_weight, self.cost)
        lam, p = self._lambda(loss.total_weight), self._group_norm(data.stack.n_kernels)
        memory = parse_memory(self.memory)
        return [ObscureProblem(data.stack, loss, lam, p, sparsity=self._sparsity(), memory=memory)]

    def _store(self, data: TrainingData, problems: Sequence[Any], results: list[Result]) -> None:
        (result,) = results
        alpha = _one_task(np.asarray(result.alpha))
        super()._store(data, problems, [replace(result, alpha=alpha, intercept=np.zeros(alpha.shape[1]))])
        self.n_iter_ = int(self.history_[-1].get("epoch", self.n_iter_)) if self.history_ else 0
        self._stream: Any = None


def _one_task(alpha: NDArray) -> NDArray[np.float64]:
    """Coefficients (n, M); for two classes (n, 1), those of the difference of the two scores."""
    return alpha[:, 1:] - alpha[:, :1] if alpha.shape[1] == 2 else alpha


@register("obscure", title="OBSCURE", params={"max_iter": 300}, grid=GRID, order=30)
@register("obscure-sdca", title="OBSCURE, certified", params={"solver": "sdca"}, grid=GRID, order=31)
@estimator
class ObscureClassifier(GroupNormClassifier):
    """Multiclass MKL with a (2, p) group norm.

    One problem for all classes [OJC10, eq. (9)], with w_j the part of w that belongs to kernel j:

        min over w of  f(w) = λ/2 (Σ_j ‖w_j‖^p)^(2/p) + (1/Σs) Σ_i s_i ℓ_i(w),
        ℓ_i(w) = max_r (cost(y_i, r) + w·φ(x_i, r) − w·φ(x_i, y_i)),

    λ = 1/(C Σs), where s are sample weights, so λ = 1/(C n) without them, and cost is 1 for every wrong class. There
    is no bias. As p goes to 1 few kernels are left; p = 2 is the multiclass SVM of [CS01] on the sum of the kernels.
    Here p is a norm on w; the same problem with a norm on kernel weights has
    :func:`multikernel.problems.obscure.weight_norm` (p) = p/(2 − p).

    Parameters
    ----------
    p : float
        Group norm, 1 < p ≤ 2.
    eta : float
        Step of the online stage, of "obscure" and of ``partial_fit``.
    solver : {"obscure", "obscure-printed", "online", "pegasos", "sdca"}
        "obscure" is the paper's two stages, stochastic, the second with weights that follow w after each epoch: a
        good solution after few epochs, and a proof of it within a percent after some hundred.
        "obscure-printed" takes the paper's steps and returns the last iterate; "online" is its first stage alone,
        "pegasos" what it compares with. "sdca" alternates dual coordinate ascent with closed-form weights
        and proves gaps of 1e-3 and far below.
    budget : int, optional
        Largest number of support vectors that ``partial_fit`` keeps.
    eviction : {"oldest", "smallest"}
        Which support vector goes when there are too many: the first to come, or that with the smallest coefficients.
        Samples met once, with equal weights, all have coefficients of one size; of those the one goes that the others
        classify with the widest margin [CKS03].

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d with ``w_j = d_j Σ_i alpha_i φ_j(x_i)``, so that scores are ``Σ_j d_j K_j alpha``. At the
        optimum they are implied by the norms of w, ``d_j = (‖w_j‖ / ‖w‖_p)^(2-p)``.
    objective_, dual_gap_ : float
        f(w), and the absolute duality gap that bounds its distance from the optimum. ``nan`` after ``partial_fit``.
    history_ : list of dict
        Rows with iteration, time, objective, gap, relative_gap, weights; epoch, stage, radius (the bound R on ‖w*‖),
        step, nearness (the distance to the optimum, in units of R, that steps are made for), updates and mistakes for
        the stochastic solvers. ``partial_fit`` adds a row with seen, updates, mistakes, n_support.
    n_updates_, n_mistakes_ : int
        After ``partial_fit``: samples that changed the model, and samples that it got wrong before it saw their
        label.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import ObscureClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = ObscureClassifier(kernels, p=1.05, C=10.0, solver="sdca", tol=1e-4).fit(X, y)
    >>> model.kernel_names_[model.weights_.argmax()]
    'petals'
    >>> model.dual_gap_ <= 1e-4 * model.objective_
    True
    """

    p: float = 1.25
    C: float = 1.0
    eta: float = 2.0
    solver: str = "obscure"
    _: KW_ONLY
    budget: int | None = None
    eviction: str = "oldest"

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        find_solver("obscure", self.solver)
        advice = "To convert a norm on kernel weights, use multikernel.problems.obscure.group_norm."
        words = f"must be above 1 and at most 2: it is the group norm on w. {advice}"
        self._require("p", 1.0 < self.p <= 2.0, words)
        self._require("eta", self.eta > 0, "must be positive: it is the step of the online stage.")
        whole = self.budget is None or (isinstance(self.budget, numbers.Integral) and self.budget >= 1)
        self._require("budget", whole, "must be at least 1, a whole number, or None for no limit.")
        self._check_choice("eviction", EVICTION)

    def _group_norm(self, n_kernels: int) -> float:
        return float(self.p)

    def _solver(self) -> Solver:
        names = ("max_iter", "random_state", *(() if self.solver in ("pegasos", "sdca") else ("eta",)))
        return partial(find_solver("obscure", self.solver).run, **{name: getattr(self, name) for name in names})

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
            raise ValueError("partial_fit needs features: precomputed kernels hold nothing for future samples.")
        self._require("keep", self.keep != "all", "is not for streams, which keep support vectors only.")
        if isinstance(self.class_weight, str):
            raise ValueError(f"class_weight={self.class_weight!r} depends on future samples: use a dict.")
        weight = _weights_of(sample_weight, X)
        if hasattr(self, "classes_"):
            X, codes = self._more_of_stream(X, y, classes)
        else:
            X, codes = self._begin_stream(X, y, classes)
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        self._advance(X, codes, weight * factors[codes])
        return self

    def _begin_stream(self, X: Any, y: Any, classes: Any) -> tuple[Any, NDArray]:
        if classes is None:
            raise ValueError("classes must be given in the first call of partial_fit: all labels that will occur.")
        known = np.unique(classes)
        if len(known) < 2:
            raise ValueError(f"classes holds {len(known)} class: a classifier needs at least 2.")
        stack, y = self._given_stack(X, y)
        self._normalized(stack)
        codes = _codes_of(y, known)
        self.classes_ = known
        if self._normalization.needs_all_columns or self._clipped:
            del self.classes_
            raise ValueError(
                'partial_fit cannot centre or clip kernels, which depends on all samples: leave "center" out of '
                'normalize, and psd="raise" or "ignore".'
            )
        self._stream, self.history_ = new_stream(len(self.kernel_names_), len(known)), []
        X, self._X = self._X, self._X[:0]
        return X, codes

    def _more_of_stream(self, X: Any, y: Any, classes: Any) -> tuple[Any, NDArray]:
        X, y = validate_data(self, X, y, reset=False, **validation(X))
        self._missing, X = self._find_missing(X), filled(X, self._X)
        check_classification_targets(y)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes {', '.join(map(str, np.unique(classes)))} are not those that were announced, "
                f"{', '.join(map(str, self.classes_))}: new classes cannot be added to a stream."
            )
        if getattr(self, "_stream", None) is None:
            self._stream_from_fit()
        return X, _codes_of(y, self.classes_)

    def _stream_from_fit(self) -> None:
        """Take the fitted model for the outcome of a stream."""
        if self._columns is None:
            raise ValueError("partial_fit cannot continue from a model that centres or clips its kernels.")
        alpha = self.dual_coef_.T
        alpha = np.column_stack([-0.5 * alpha[:, 0], 0.5 * alpha[:, 0]]) if alpha.shape[1] == 1 else alpha
        stack, _ = self._square_stack(self._X, self._normalization.missing)
        self._stream = stream_of(stack, self.p / (self.p - 1.0) * alpha, self._n_train)

    def _square_stack(self, X: Any, missing: NDArray[np.bool_] | None) -> tuple[GramStack, Normalization]:
        """Kernels of the samples X, normalised as the first samples were, and that normalisation."""
        return self._normalization.on_samples(LazyStack(self._family, X, memory=0, dtype=X.dtype), missing)

    def _advance(self, X: Any, codes: NDArray, weight: NDArray) -> None:
        """Learn from new samples, and store the model."""
        missing = self._missing
        if len(self._stream["coef"]):
            sizes = len(self.kernel_names_), self._X.shape[0], X.shape[0]
            missing = _joined(self._normalization.missing, missing, *sizes)
            X = stacked(self._X, X)
        stack, normalization = self._square_stack(X, missing)
        options = {name: getattr(self, name) for name in ("eta", "cost", "budget", "eviction")}
        options |= {"p": float(self.p), "memory": parse_memory(self.memory)}
        step = learn_online(stack, self._stream, codes, weight, **options)
        self._X, self._normalization, self._columns, self._stream = X, normalization, None, step.stream
        self._keep_training_rows(step.kept)
        self._forget_calibration()
        self.support_, self.dual_coef_ = step.kept, _one_task(step.alpha).T
        self.intercept_, self.weights_ = np.zeros(len(self.dual_coef_)), step.weights
        self.n_kernels_ = count_kernels(self.weights_)
        self.objective_ = self.dual_gap_ = float("nan")
        self.converged_, self.n_iter_ = False, 1
        self.n_updates_, self.n_mistakes_ = int(step.stream["updates"]), int(step.stream["mistakes"])
        row = {"seen": step.stream["seen"], "updates": step.updates, "mistakes": step.mistakes}
        row = {**row, "n_support": len(step.kept), "weights": self.weights_}
        self.history_ = [*getattr(self, "history_", []), row]


def _weights_of(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Weights of samples, ones by default; all may be zero, which teaches nothing."""
    if sample_weight is not None and not np.any(sample_weight):
        return np.zeros(_num_samples(X))
    return sane_weights(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def _joined(
    old: NDArray[np.bool_] | None, new: NDArray[np.bool_] | None, n_kernels: int, n_old: int, n_new: int
) -> NDArray[np.bool_] | None:
    """Which samples lack which kernel, of those that were there and of new ones; None if all have all."""
    if old is None and new is None:
        return None
    parts = (
        np.zeros((n_kernels, n), dtype=bool) if part is None else part for part, n in ((old, n_old), (new, n_new))
    )
    return np.hstack(list(parts))


def _codes_of(y: Any, classes: NDArray) -> NDArray[np.int64]:
    """Labels as positions in ``classes``; one that is not there is an error."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    wrong = np.flatnonzero(classes[codes] != y)
    if len(wrong):
        known = ", ".join(map(str, classes))
        raise ValueError(f"y[{wrong[0]}] is {y[wrong[0]]}, which is not among the announced classes {known}.")
    return codes.astype(np.int64)
