"""Kernel weights from alignment with the labels [CMR12]: no training, two passes over the kernels."""

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
    """

    gram: Vector
    target: Vector
    target_norm: float

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
    shares, root = weight / weight.sum(), np.sqrt(weight)
    Y = root[:, None] * (targets - shares @ targets if centred else targets)
    target_norm = float(np.linalg.norm(Y.T @ Y))
    if stack.explicit:
        Phi = stack.features().array
        return _of_features(root[:, None] * (Phi - shares @ Phi if centred else Phi), Y, stack.ranks, target_norm)
    means = stack.apply(shares) if centred else np.zeros((stack.n_kernels, len(stack)))
    rest = means - (means @ shares)[:, None]
    gram, target = np.zeros((stack.n_kernels, stack.n_kernels)), np.zeros(stack.n_kernels)
    n, size, whole = len(stack), max(1, IN_CACHE // (stack.n_kernels * len(stack))), stack.whole()
    for rows in (slice(start, min(start + size, n)) for start in range(0, n, size)):
        check()
        block = stack.rows(np.arange(n)[rows]) if whole is None else whole[:, rows]
        block = np.subtract(block, means[:, rows, None], dtype=np.float64)
        block -= rest[:, None, :]
        if sample_weight is not None:
            block *= root[rows][:, None] * root
        flat = block.reshape(stack.n_kernels, -1)
        gram += flat @ flat.T
        target += flat @ (Y[rows] @ Y.T).reshape(-1)
    return Alignments(gram, target, target_norm)


def _of_features(Phi: NDArray, Y: NDArray, ranks: NDArray[np.intp], target_norm: float) -> Alignments:
    """The same from features: ``<K_j, K_k> = ‖Φ_j'Φ_k‖²``, in time linear in the number of samples."""
    starts = np.concatenate([[0], np.cumsum(ranks)[:-1]])
    squares = np.add.reduceat(np.add.reduceat((Phi.T @ Phi) ** 2, starts, axis=0), starts, axis=1)
    target = np.add.reduceat(((Phi.T @ Y) ** 2).sum(axis=1), starts)
    return Alignments(squares, target, target_norm)


def is_indefinite(kernel: NDArray) -> bool:
    """Whether a kernel has eigenvalues below zero by more than rounding."""
    values = eigvalsh(kernel)
    return bool(values[0] < -1e-10 * max(values[-1], 0.0))
