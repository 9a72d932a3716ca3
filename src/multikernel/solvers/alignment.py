"""Kernel weights from alignment with the labels [CMR12]: no training, one pass over the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh
from scipy.optimize import nnls

from multikernel.gram import GramStack
from multikernel.runtime.clock import check

Vector = NDArray[np.float64]
# Entries of all kernels that are centred and multiplied at a time.
IN_CACHE = 1 << 17
# Columns whose means stand for those of all until the pass is over.
COLUMNS = 64
# A kernel that is smaller than this once it is centred, in units of its precision, is constant but for rounding.
ROUNDED = 32.0


@dataclass(frozen=True)
class Alignments:
    """Inner products of centred kernels with each other and with the kernel of the targets.

    Attributes
    ----------
    gram : ndarray of shape (F, F)
        ``<K_jᶜ, K_kᶜ>``, the Frobenius inner product of centred kernels.
    target : ndarray of shape (F,)
        ``<K_jᶜ, T>`` for T = Y Y'.
    target_norm : float
        ``‖Tᶜ‖``.
    sizes : ndarray of shape (F,)
        ``‖K_j‖``, before kernels are centred.
    """

    gram: Vector
    target: Vector
    target_norm: float
    sizes: Vector

    @property
    def norms(self) -> Vector:
        """``‖K_jᶜ‖``, shape (F,)."""
        return np.sqrt(np.maximum(np.diagonal(self.gram), 0.0))

    def of_kernels(self) -> Vector:
        """Centred alignment of each kernel with the target, from 0 to 1; 0 for a constant kernel."""
        size = self.norms * self.target_norm
        return np.divide(self.target, size, out=np.zeros(len(self.target)), where=size > 0.0)

    def of_weights(self, weights: Vector) -> float:
        """Centred alignment of ``Σ_j weights_j K_j`` with the target."""
        size = np.sqrt(max(float(weights @ self.gram @ weights), 0.0)) * self.target_norm
        return float(weights @ self.target) / size if size > 0.0 else 0.0

    def _scaled(self) -> tuple[Vector, Vector, Vector]:
        """The same for kernels of norm one, and the norms; zero kernels keep theirs."""
        scale = np.where(self.norms > 0.0, self.norms, 1.0)
        return self.gram / np.outer(scale, scale), self.target / scale, scale

    def independent(self) -> Vector:
        """Weights of ALIGN: the alignment of each kernel, as a factor of the kernel divided by its norm."""
        _, target, scale = self._scaled()
        return np.maximum(target, 0.0) / scale

    def joint(self) -> Vector:
        """Weights of ALIGNF: ``min over v >= 0 of v'Mv - 2v'a``, whose direction has the largest alignment."""
        gram, target, scale = self._scaled()
        values, vectors = eigh(gram)
        kept = values > len(values) * np.finfo(float).eps * max(values[-1], 0.0)
        root = np.sqrt(values[kept])
        if not len(root):  # no kernel says anything
            return np.zeros(len(target))
        found, _ = nnls(
            root[:, None] * vectors[:, kept].T, vectors[:, kept].T @ target / root, maxiter=100 * len(target)
        )
        return found / scale

    def unconstrained(self) -> Vector:
        """``M⁻¹ a``: the largest alignment of all linear combinations, negative weights included [CMR10]."""
        gram, target, scale = self._scaled()
        return np.linalg.lstsq(gram, target, rcond=1e-12)[0] / scale


def alignments(
    stack: GramStack, targets: NDArray, sample_weight: Vector | None = None, *, centred: bool = True
) -> Alignments:
    """All inner products that alignment needs; a sample counts as often as its weight says.

    Parameters
    ----------
    stack : GramStack
        Square stack of F kernels between n samples.
    targets : ndarray of shape (n, T)
        Y, for the target kernel Y Y': signs, or one column per class.
    sample_weight : ndarray of shape (n,), optional
    centred : bool
        Whether kernels and target are centred.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import gram_stack
    >>> y = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> found = alignments(gram_stack([y @ y.T, np.eye(4)]), y)
    >>> found.of_kernels().round(3), found.joint().round(3)
    (array([1.   , 0.577]), array([1., 0.]))
    """
    weight = np.ones(len(stack)) if sample_weight is None else sample_weight
    root, unit = np.sqrt(weight), np.sqrt(weight / weight.sum())
    given = root[:, None] * targets
    Y = given - np.outer(unit, unit @ given) if centred else given
    if np.linalg.norm(Y) <= ROUNDED * np.finfo(float).eps * np.linalg.norm(given):
        Y = np.zeros_like(Y)  # samples of one class only have weights
    measure = _of_features if stack.explicit else _of_matrices
    gram, target, sizes = measure(stack, Y, root, unit, centred)
    precision = ROUNDED * np.finfo(stack.dtype).eps
    constant = np.sqrt(np.maximum(np.diagonal(gram), 0.0)) <= sizes * (precision**2 if stack.explicit else precision)
    gram[constant] = gram[:, constant] = target[constant] = 0.0
    return Alignments(gram, target, float(np.linalg.norm(Y.T @ Y)), sizes)


def _of_matrices(
    stack: GramStack, Y: NDArray, root: Vector, unit: Vector, centred: bool
) -> tuple[Vector, Vector, Vector]:
    """Inner products with each other and with YY', and norms, in one pass: centred roughly, then exactly.

    ``K − u 1' − 1 u'`` is the same as K once it is centred, and with u near half its means no sum cancels.
    """
    F, n, whole = stack.n_kernels, len(stack), stack.whole()
    u = _rough_means(stack, np.flatnonzero(unit)) if centred else np.zeros((F, n))
    gram, target, sums = np.zeros((F, F)), np.zeros(F), np.zeros((F, n))
    size, weighted = min(max(1, IN_CACHE // (F * n)), n), bool((root != 1.0).any())
    room = np.empty(F * size * n)  # once: fresh memory costs more than the sums
    for rows in (slice(start, min(start + size, n)) for start in range(0, n, size)):
        check()
        block = stack.rows(np.arange(n)[rows]) if whole is None else whole[:, rows]
        block = np.subtract(block, u[:, rows, None], out=room[: block.size].reshape(block.shape))
        block -= u[:, None, :]
        if weighted:
            block *= np.outer(root[rows], root)
        sums[:, rows] = block @ unit
        flat = block.reshape(F, -1)
        gram += flat @ flat.T
        target += flat @ (Y[rows] @ Y.T).reshape(-1)
    u *= root * np.linalg.norm(root)
    squares = np.diagonal(gram) + 4.0 * (u * sums).sum(axis=1) + 2.0 * (u * u).sum(axis=1) + 2.0 * (u @ unit) ** 2
    if centred:
        rest = sums @ unit
        gram += np.outer(rest, rest) - 2.0 * sums @ sums.T
    return gram, target, np.sqrt(np.maximum(squares, 0.0))


def _rough_means(stack: GramStack, used: NDArray[np.intp]) -> Vector:
    """Means of each kernel's rows over a few columns, less half of the mean of all, shape (F, n)."""
    some = used[np.linspace(0, len(used) - 1, min(COLUMNS, len(used))).astype(np.intp)]
    shares = np.zeros(len(stack))
    shares[some] = 1.0 / len(some)
    means = stack.apply(shares)
    return means - 0.5 * means[:, some].mean(axis=1, keepdims=True)


def _of_features(
    stack: GramStack, Y: NDArray, root: Vector, unit: Vector, centred: bool
) -> tuple[Vector, Vector, Vector]:
    """The same from features: ``<K_j, K_k> = ‖Φ_j'Φ_k‖²``, in time linear in the number of samples."""
    Phi, starts = root[:, None] * stack.features().array, np.concatenate([[0], np.cumsum(stack.ranks)[:-1]])
    means = np.zeros(Phi.shape[1])
    if centred:
        means = unit @ Phi
        Phi -= np.outer(unit, means)
        Phi -= np.outer(unit, unit @ Phi)  # what rounding left

    def summed(products: NDArray) -> Vector:
        return np.add.reduceat(np.add.reduceat(products**2, starts, axis=0), starts, axis=1)

    products = Phi.T @ Phi
    target = np.add.reduceat(((Phi.T @ Y) ** 2).sum(axis=1), starts)
    sizes = np.sqrt(np.diagonal(summed(products + np.outer(means, means))))
    return summed(products), target, sizes


def is_indefinite(kernel: NDArray) -> bool:
    """Whether a kernel has eigenvalues below zero by more than rounding."""
    values = eigvalsh(kernel)
    return bool(values[0] < -1e-10 * max(values[-1], 0.0))
