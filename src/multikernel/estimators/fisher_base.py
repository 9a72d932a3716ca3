"""What the classifiers by multiple kernel Fisher discriminants share: one problem for all classes, and its model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from multikernel.estimators.base import Prepared, finite, intercept_of
from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.sklearn_bases import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.gram.combination import combined_scores
from multikernel.io.state import attributes, reals
from multikernel.problems.fisher import FDAProblem, fda_system
from multikernel.problems.fisher_system import RegularizedFDA, class_scores, fisher_targets
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Result
from multikernel.solvers.fisher.catalogue import FDA_SOLVERS, solve_fda

NORMALIZE = ("center", "trace")


@estimator
class FisherClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelSVMClassifier):
    """Base class: discriminants on the combined kernel, and the nearest centroid in their space.

    A subclass says which p and λ to use (``_setting``). The solver is described here and declared by subclasses.

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        The kernels to combine. ``None``: linear and RBF kernels on all columns. "precomputed": X holds the kernels,
        shape (n, n, F), or is a Gram stack.
    solver : {"auto", "newton", "sip", "sip-taylor", "closed-form"}
        All solve the same problem. "newton": quadratic models of the objective, which is what "auto" takes. "sip":
        the paper's semi-infinite program, by cutting planes, with a linear program for p = 1 and the exact norm as
        power cones for p > 1; "sip-taylor" expands the norm as the paper does. "closed-form": a linear system in turn
        with weights in closed form, fast for large p, slow towards p = 1.
    normalize : str, sequence, dict or None
        Normalisation of the kernels, fitted on the training data. By default they are centred in feature space and
        scaled to unit trace, as in the paper; see :class:`~multikernel.gram.Normalization`.
    class_weight : dict, "balanced" or None
        Weights of the classes, factors of ``sample_weight``.
    max_iter : int
        Maximum number of iterations of the solver.
    memory : int or str, optional
        Memory budget for kernels, in bytes or as "2GB". Kernels with explicit features (linear, ``Nystroem``,
        ``RandomFourier``) are solved in the space of the features when that is smaller than n.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights β.
    dual_coef_ : ndarray of shape (c, n_support)
        Coefficients of the discriminants, ``(K + λI)⁻¹H`` transposed: those of the paper divided by 2λ. With weights
        of samples, S = diag(s): ``(SK + λI)⁻¹SH``.
    support_ : ndarray of shape (n_support,)
        Training samples with a coefficient: usually all of them.
    centroids_ : ndarray of shape (M, c)
        Means of the classes in the discriminant space.
    intercept_ : ndarray of shape (1,) or (M,)
        What ``decision_function`` adds to inner products with centroids, or to the projection for two classes.
    objective_, dual_gap_ : float
        Min over a of the objective above at ``weights_``, which is negative, and how far it can be from the maximum.
    """

    _: KW_ONLY
    normalize: Any = NORMALIZE
    tol: float = 1e-4
    max_iter: int = 500

    solver = "auto"
    _state = attributes(centroids_=reals("classes", "tasks"), weights_=reals("kernels"))

    @abstractmethod
    def _setting(self) -> tuple[float, float]:
        """p and λ."""

    def _training_kernels(self, stack: GramStack, weight: NDArray) -> GramStack:
        """Kernels centred and scaled by weighted statistics, then ``√s_i K_il √s_l``."""
        if (weight == 1.0).all():
            return self._normalized(stack)
        roots = np.repeat(np.sqrt(weight)[None], stack.n_kernels, axis=0)
        return self._normalized(stack, weight).scaled(roots, roots)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("solver", FDA_SOLVERS)

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[FDAProblem]:
        p, reg = self._setting()
        codes = np.searchsorted(self.classes_, tasks.labels)
        inner = RegularizedFDA(fisher_targets(codes, len(self.classes_), sample_weight), reg, sample_weight)
        return [FDAProblem(fda_system(stack, reg, parse_memory(self.memory)), inner, LpBall(p))]

    def _solve(self, problem: FDAProblem, monitor: Any, start: Any) -> None:
        solve_fda(problem, monitor, start, self.solver, self.max_iter)

    def _run(self, prepared: Prepared, previous: Any = None, callback: Any = None, problems: Any = None) -> None:
        """As the base class does, with the paper's sign for the rows that callbacks see."""
        shown = None if callback is None else lambda row: callback(_as_maximum(row))
        super()._run(prepared, previous, shown, problems)

    def _make_attributes(self, problems: Sequence[FDAProblem], results: list[Result]) -> None:
        """The solver minimised −min over alpha of S: the paper's objective is minus its value."""
        problem, result = problems[0], results[0]
        self.centroids_ = intercept_of(result, (len(self.classes_), result.alpha.shape[1]))
        if len(self.classes_) == 2:
            intercepts = -self.centroids_.mean(axis=0)
        else:
            intercepts = -0.5 * (self.centroids_**2).sum(axis=1)
        history = [_as_maximum(row) for row in result.history]
        alpha = problem.inner.coefficients(result.alpha)
        self._store([replace(result, alpha=alpha, history=history)], [intercepts])
        self.objective_ = -self.objective_

    @property
    def _n_features_out(self) -> int:
        """Columns of ``transform``."""
        return len(self.dual_coef_)

    # -- predict -----------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Projections on the discriminants, shape (m, 1) for two classes, else (m, M).

        Parameters
        ----------
        X : array-like of shape (m, d), or (m, n, F) or rectangular Gram stack with ``kernels="precomputed"``
            New samples, or the kernels between them and all training samples.
        """
        return self._project(X)

    def _project(self, X: Any) -> NDArray[np.float64]:
        """``transform`` as an array, whatever ``set_output`` says."""
        check_is_fitted(self)
        return combined_scores(self._test_stack(X), self._combination(self.weights_), self.dual_coef_.T)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Confidence scores: shape (m,) for two classes, else (m, M).

        Two classes: the projection less the midpoint of the centroids, positive for ``classes_[1]``. More: ``z·c_k −
        ½‖c_k‖²`` for the projection z and each centroid c_k, largest at the nearest.

        Parameters
        ----------
        X : as for ``transform``
        """
        projections = self._project(X)
        if len(self.classes_) == 2:
            return finite(projections[:, 0] + self.intercept_[0])
        return finite(class_scores(projections, self.centroids_))

    def _contributions(self, X: Any) -> NDArray[np.float64]:
        shares = super()._contributions(X)
        return shares if len(self.classes_) == 2 else shares @ self.centroids_.T


def _as_maximum(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the history with the sign of the problem that the paper maximises."""
    return {**row, "objective": -row["objective"]}
