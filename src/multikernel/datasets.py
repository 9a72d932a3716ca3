"""Embedded data, simulated problems with a known answer, and the folder of real data."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from multikernel.kernels import Kernel

__all__ = [
    "KernelProblem",
    "MultiViewData",
    "data_home",
    "load_digits_quadrants",
    "make_kernel_problem",
    "make_views",
]


def data_home() -> Path | None:
    """Folder of real data, named by the environment variable ``MULTIKERNEL_DATA``; None where it is unset."""
    setting = os.environ.get("MULTIKERNEL_DATA", "")
    if setting and not Path(setting).is_dir():
        raise FileNotFoundError(
            f"MULTIKERNEL_DATA is {setting!r}, which is not a folder. "
            "Set it to the folder that holds the data archives, or unset it."
        )
    return Path(setting) if setting else None


@dataclass(frozen=True, eq=False)
class MultiViewData:
    """Samples described by several views, each view a block of columns."""

    X: NDArray[np.float64]  # (n_samples, n_features): all views side by side
    y: NDArray  # (n_samples,): class labels
    views: dict[str, slice]  # the columns of each view, in the order of X
    kernels: list[Kernel] = field(repr=False)  # on one view each, to be passed to an estimator as ``kernels=``
    relevant: NDArray[np.bool_] | None = None  # which kernels see a view that depends on the class, where it is known
    name: str = "multi-view data"  # for tables and titles

    def __repr__(self) -> str:
        n, d = self.X.shape
        return (
            f"MultiViewData({self.name!r}: {n} samples, {d} features in {len(self.views)} views, "
            f"{len(np.unique(self.y))} classes, {len(self.kernels)} kernels)"
        )


def load_digits_quadrants() -> MultiViewData:
    """Hand-written digits, each image cut into four quadrants: 4 views × 3 kernels = 12 kernels.

    The images are scikit-learn's (1797 of 8 × 8 pixels, ten classes), so nothing is downloaded. Pixels are divided
    by 16, their largest value. Each quadrant is a view with a linear, a cubic polynomial and an RBF kernel, as in the
    twelve kernels used on MNIST in [OJC10, sec. 4.3]. Columns of ``X`` are ordered view by view.

    Returns
    -------
    MultiViewData

    Examples
    --------
    >>> from multikernel.datasets import load_digits_quadrants
    >>> digits = load_digits_quadrants()
    >>> digits
    MultiViewData('digits in quadrants': 1797 samples, 64 features in 4 views, 10 classes, 12 kernels)
    >>> list(digits.views)
    ['top-left', 'top-right', 'bottom-left', 'bottom-right']
    """
    from sklearn.datasets import load_digits

    from multikernel.kernels import RBF, Linear, Polynomial, join_views

    pixels, y = load_digits(return_X_y=True)
    blocks = pixels.reshape(-1, 2, 4, 2, 4) / 16.0  # image, row of blocks, row in it, column of blocks, column in it
    quadrants = {"top-left": (0, 0), "top-right": (0, 1), "bottom-left": (1, 0), "bottom-right": (1, 1)}
    X, views = join_views({name: blocks[:, i, :, j].reshape(-1, 16) for name, (i, j) in quadrants.items()})
    kernels: list[Kernel] = []
    for view, columns in views.items():
        kernels += [
            Linear(columns=columns, name=f"{view} linear"),
            Polynomial(degree=3, columns=columns, name=f"{view} polynomial"),
            RBF(bandwidth="mean", columns=columns, name=f"{view} RBF"),
        ]
    return MultiViewData(X, y, views, kernels, name="digits in quadrants")


def make_views(
    n_samples: int = 200,
    n_informative: int = 2,
    n_noise: int = 2,
    *,
    n_features: int = 5,
    n_classes: int = 2,
    separation: float = 2.0,
    random_state: int | np.random.Generator | None = None,
) -> MultiViewData:
    """Simulate a multi-view problem in which it is known which views matter.

    In an informative view a sample is its class centroid plus standard normal noise; any two centroids are
    ``separation`` apart, so that for two classes the best classifier on one such view errs with probability
    Φ(−separation / 2). Views are independent given the class. A noise view is standard normal whatever the class.

    Parameters
    ----------
    n_samples : int
    n_informative, n_noise : int
        Views that depend on the class, and views that do not.
    n_features : int
        Columns of each view, at least ``n_classes - 1``, as equidistant centroids need.
    n_classes : int
        Classes, all of the same size give or take one sample.
    separation : float
    random_state : int, Generator or None

    Returns
    -------
    MultiViewData
        With one RBF kernel per view, and ``relevant`` true for the informative ones.

    Examples
    --------
    >>> from multikernel.datasets import make_views
    >>> data = make_views(n_samples=100, n_informative=1, n_noise=2, random_state=0)
    >>> list(data.views), data.relevant.tolist()
    (['informative-1', 'noise-1', 'noise-2'], [True, False, False])
    """
    from multikernel.kernels import RBF, join_views

    _check_views(n_samples, n_informative, n_noise, n_features, n_classes)
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.arange(n_samples) % n_classes)
    blocks = {}
    for k in range(n_informative):
        centroids = _equidistant_points(n_classes, n_features, separation, rng)
        blocks[f"informative-{k + 1}"] = centroids[y] + rng.standard_normal((n_samples, n_features))
    for k in range(n_noise):
        blocks[f"noise-{k + 1}"] = rng.standard_normal((n_samples, n_features))
    X, views = join_views(blocks)
    kernels: list[Kernel] = [RBF(bandwidth="mean", columns=columns, name=view) for view, columns in views.items()]
    relevant = np.arange(len(views)) < n_informative
    return MultiViewData(X, y, views, kernels, relevant=relevant, name="simulated views")


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """Kernel matrices and labels together with the solution that was planted in them."""

    K: NDArray[np.float64] = field(repr=False)  # (F, n, n): positive definite, or semi-definite where weights are 0
    y: NDArray[np.float64] = field(repr=False)  # (n,): -1.0 or 1.0, as many of each
    C: float  # bound on the dual variables
    p: float  # norm of the weights
    weights: NDArray[np.float64]  # optimal kernel weights (F,), ``norm(weights, p) = 1``
    alpha: NDArray[np.float64] = field(repr=False)  # optimal dual coefficients (n,), the label in the sign
    intercept: float  # optimal bias
    objective: float  # optimal value


def make_kernel_problem(
    n_samples: int = 30,
    n_kernels: int = 5,
    n_relevant: int = 2,
    *,
    p: float = 1.0,
    C: float = 1.0,
    intercept: float = 0.25,
    random_state: int | np.random.Generator | None = None,
) -> KernelProblem:
    r"""Draw kernel matrices whose multiple kernel learning problem has a known solution.

    The problem is

    .. math:: \min_{g \ge 0,\, \|g\|_p \le 1}\ \max_{0 \le y_i \alpha_i \le C,\, \sum_i \alpha_i = 0}\
              \sum_i |\alpha_i| - \tfrac12 \sum_j g_j\, \alpha^\top K_j \alpha .

    Weights and dual coefficients are drawn first. Matrices are built around them such that α is optimal for the
    support vector machine on :math:`\sum_j g_j K_j` with the given bias, and g maximises :math:`g \cdot q`,
    :math:`q_j = \alpha^\top K_j \alpha`, over the weight set. No solver is involved.

    Parameters
    ----------
    n_samples : int
        Even, at least 6. About a third each of the dual coefficients are 0, between the bounds, and at C.
    n_kernels, n_relevant : int
        Kernels in all, and kernels with a non-zero weight.
    p : float
        Norm of the weights, 1 ≤ p < ∞.
    C : float
    intercept : float
        Bias of the solution. With 0.0 the same α also solves the problem without a bias.
    random_state : int, Generator or None

    Returns
    -------
    KernelProblem

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.datasets import make_kernel_problem
    >>> problem = make_kernel_problem(n_samples=12, n_kernels=3, random_state=0)
    >>> q = np.einsum("i,fij,j->f", problem.alpha, problem.K, problem.alpha)
    >>> dual = np.abs(problem.alpha).sum() - q.max() / 2
    >>> bool(np.isclose(dual, problem.objective))
    True
    """
    _check_kernel_problem(n_samples, n_kernels, n_relevant, p, C)
    rng = np.random.default_rng(random_state)
    y, alpha, slack = _planted_svm_solution(n_samples, C, rng)
    # optimality of the SVM: (K(g) alpha)_i + b = y_i (1 - slack_i), slack > 0 at C, < 0 at 0, = 0 in between
    scores = y * (1.0 - slack) - intercept
    weights = np.zeros(n_kernels)
    weights[:n_relevant] = rng.uniform(0.5, 1.5, n_relevant)
    weights /= np.linalg.norm(weights, p)
    # optimality of the weights: equality in Hölder's inequality, g'q <= ||g||_p ||q||_{p/(p-1)}
    total = float(scores @ alpha)
    q = total * weights ** (p - 1.0)
    if p == 1.0:
        q[n_relevant:] *= rng.uniform(0.2, 0.8, n_kernels - n_relevant)
    targets = _split_scores(scores, alpha, weights, q, rng)
    order = rng.permutation(n_kernels)
    K = np.stack([_matrix_through(alpha, targets[j], q[j], rng) for j in order])
    objective = float(np.abs(alpha).sum() - total / 2)
    return KernelProblem(K, y, C, p, weights[order], alpha, intercept, objective)


def _check_views(n_samples: int, n_informative: int, n_noise: int, n_features: int, n_classes: int) -> None:
    if n_classes < 2 or n_samples < n_classes:
        raise ValueError(
            f"n_classes={n_classes} and n_samples={n_samples}: "
            "at least two classes and at least one sample for each are needed."
        )
    if min(n_informative, n_noise) < 0 or n_informative + n_noise == 0:
        raise ValueError(f"n_informative={n_informative} and n_noise={n_noise}: at least one view is needed.")
    if n_features < n_classes - 1:
        raise ValueError(
            f"n_features={n_features} is too few for {n_classes} equidistant centroids: "
            f"give at least n_classes - 1 = {n_classes - 1}."
        )


def _equidistant_points(count: int, dimension: int, distance: float, rng: np.random.Generator) -> NDArray:
    """Vertices of a regular simplex with the given edge, turned at random; shape (count, dimension)."""
    vertices = (np.eye(count) - 1.0 / count) * (distance / np.sqrt(2.0))
    # the vertices span count - 1 dimensions: coordinates in that space, then a random orthonormal frame
    axes = np.linalg.svd(vertices)[2][: count - 1]
    frame, _ = np.linalg.qr(rng.standard_normal((dimension, count - 1)))
    return vertices @ axes.T @ frame.T


def _check_kernel_problem(n_samples: int, n_kernels: int, n_relevant: int, p: float, C: float) -> None:
    if n_samples < 6 or n_samples % 2:
        raise ValueError(f"n_samples={n_samples}: give an even number of at least 6.")
    if not 1 <= n_relevant <= n_kernels:
        raise ValueError(f"n_relevant={n_relevant} is not between 1 and n_kernels={n_kernels}.")
    if not (1.0 <= p < np.inf and C > 0.0):
        raise ValueError(f"p={p} and C={C}: p must be a finite number of at least 1, and C positive.")


def _planted_svm_solution(n_samples: int, C: float, rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    """Labels, signed alpha, slack; pairs with opposite labels share |alpha|, so that alpha sums to 0."""
    pairs = n_samples // 2
    kind = np.arange(pairs) % 3
    size = np.choose(kind, [rng.uniform(0.2, 0.8, pairs) * C, np.full(pairs, C), np.zeros(pairs)])
    # slack below 1 at the bound keeps alpha'K alpha = sum of |alpha| (1 - slack) positive
    slack = np.choose(kind, [np.zeros(pairs), rng.uniform(0.1, 0.6, pairs), -rng.uniform(0.1, 1.0, pairs)])
    order = rng.permutation(n_samples)
    y = np.repeat([-1.0, 1.0], pairs)[order]
    return y, y * np.tile(size, 2)[order], np.tile(slack, 2)[order]


def _split_scores(scores: NDArray, alpha: NDArray, weights: NDArray, q: NDArray, rng: np.random.Generator) -> NDArray:
    """Vectors v_j, one for each kernel, with v_j'alpha = q_j and sum_j weights_j v_j = scores; shape (F, n)."""
    along = np.outer(q / (scores @ alpha), scores)
    across = rng.standard_normal((len(q), len(alpha))) * scores.std()
    across -= np.outer(across @ alpha / (alpha @ alpha), alpha)
    active = weights > 0
    across[active] -= (weights[active] @ across[active]) / weights[active].sum()
    return along + across


def _matrix_through(alpha: NDArray, target: NDArray, q: float, rng: np.random.Generator) -> NDArray:
    """Positive semi-definite K with K alpha = target, where target'alpha = q > 0; K alpha = 0 when q = 0."""
    n = len(alpha)
    factor = rng.standard_normal((n, n)) / np.sqrt(n)
    factor -= np.outer(alpha, alpha @ factor) / (alpha @ alpha)
    K = factor @ factor.T
    if q > 0.0:
        K += np.outer(target, target) / q
    return (K + K.T) / 2
