"""OBSCURE, p-norm Pegasos and dual coordinate ascent: multiclass MKL on a group norm of w."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

from multikernel.estimators.obscure_stream import EVICTION, OnlineLearning
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.problems.obscure import GroupNormProblem
from multikernel.solvers.obscure.obscure import obscure, pegasos
from multikernel.solvers.obscure.sdca import sdca

SOLVERS: dict[str, Callable[..., None]] = {"obscure": obscure, "pegasos": pegasos, "sdca": sdca}
C_GRID = (1.0, 10.0, 100.0, 1000.0)
GRID = {"C": C_GRID, "p": (1.05, 1.25, 1.5)}


@register("obscure", title="OBSCURE", params={"max_iter": 300}, grid=GRID, order=30)
@register("obscure-sdca", title="OBSCURE, certified", params={"solver": "sdca"}, grid=GRID, order=31)
@estimator
class ObscureClassifier(OnlineLearning):
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
    solver : {"obscure", "pegasos", "sdca"}
        "obscure" is the paper's two stages, stochastic, the second with weights that follow w after each epoch: a
        good solution after few epochs, and a proof of it within a percent after some hundred.
        "pegasos" is what the paper compares with. "sdca" alternates dual coordinate ascent with closed-form weights
        and proves gaps of 1e-3 and far below.
    budget : int, optional
        Largest number of support vectors that ``partial_fit`` keeps.
    eviction : {"oldest", "smallest"}
        Which support vector goes when there are too many: the first to come, or that with the smallest coefficients.
        Samples met once, with equal weights, all have coefficients of one size; of those the one goes that the others
        classify with the widest margin [CKS03].
    max_iter : int
        Maximum number of epochs; of alternations for "sdca".

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d with ``w_j = d_j Σ_i alpha_i φ_j(x_i)``, so that scores are ``Σ_j d_j K_j alpha``. At the
        optimum they are implied by the norms of w, ``d_j = (‖w_j‖ / ‖w‖_p)^(2-p)``.
    objective_, dual_gap_ : float
        f(w), and the absolute duality gap that bounds its distance from the optimum. ``nan`` after ``partial_fit``.
    n_iter_ : int
        Number of epochs, or of alternations.
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("solver", SOLVERS)
        advice = "To convert a norm on kernel weights, use multikernel.problems.obscure.group_norm."
        words = f"must be above 1 and at most 2: it is the group norm on w. {advice}"
        self._require("p", 1.0 < self.p <= 2.0, words)
        self._require("eta", self.eta > 0, "must be positive: it is the step of the online stage.")
        whole = self.budget is None or (isinstance(self.budget, numbers.Integral) and self.budget >= 1)
        self._require("budget", whole, "must be at least 1, a whole number, or None for no limit.")
        self._check_choice("eviction", EVICTION)

    def _group_norm(self, n_kernels: int) -> float:
        return float(self.p)

    def _dual_exponent(self) -> float:
        return self.p / (self.p - 1.0)

    def _solve(self, problem: GroupNormProblem, monitor: Any, start: Any) -> None:
        options: dict[str, Any] = {"eta": self.eta} if self.solver == "obscure" else {}
        SOLVERS[self.solver](
            problem, monitor, start, max_iter=self.max_iter, random_state=self.random_state, **options
        )
