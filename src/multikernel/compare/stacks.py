"""Kernels of training and of test samples, with everything that is learnt about them learnt from training samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from multikernel.gram.normalization import Normalization, Steps

SCALES = ("standard", "robust")


def make_scaler(scale: str | None) -> Any:
    """A transformer of columns, unfitted; None for none."""
    if scale is None:
        return None
    from sklearn.preprocessing import RobustScaler, StandardScaler

    return {"standard": StandardScaler, "robust": RobustScaler}[scale]()


def training_stack(
    X: Any, kernels: Any, *, scale: str | None = None, psd: str = "raise", normalize: Steps = None, memory: Any = None
) -> Any:
    """Kernels between all samples, scaled, checked and normalised."""
    return split_stacks(X, kernels, None, None, scale=scale, psd=psd, normalize=normalize, memory=memory)[0]


def split_stacks(
    X: Any,
    kernels: Any,
    train: np.ndarray | None,
    test: np.ndarray | None,
    *,
    scale: str | None = None,
    psd: str = "raise",
    normalize: Steps = None,
    memory: Any = None,
) -> tuple[Any, Any]:
    """Gram stacks training × training and test × training; without ``test`` the second is None.

    Parameters
    ----------
    X : array of shape (n, d), matrices (n, n, F), or a Gram stack of precomputed kernels
    kernels : list of Kernel, or "precomputed"
    train, test : index arrays; all samples by default, and none
    scale : {"standard", "robust"} or None
        What to do with columns, before kernels see them.
    psd : {"raise", "clip", "ignore"}
    normalize : as for `~multikernel.gram.Normalization`
    memory : as for `~multikernel.gram.gram_stack`
    """
    from multikernel.gram.checks import apply_clip, check_training_stack, fit_clip

    train = np.arange(len(X)) if train is None else train
    if isinstance(kernels, str):  # checked as a whole
        stacks = [X.take(rows, train) for rows in (train, test) if rows is not None]
    else:
        stacks = _evaluated(X, kernels, train, test, scale, memory)
        if psd == "raise":
            check_training_stack(stacks[0])
    training = stacks[0]
    clipped: dict[int, np.ndarray] = {}
    if psd == "clip":
        clipped, training = fit_clip(training)
    normalization = Normalization(normalize)
    training = normalization.fit_apply(training)
    return training, normalization.apply(apply_clip(stacks[1], clipped)) if len(stacks) > 1 else None


def _evaluated(
    X: Any, kernels: Any, train: np.ndarray, test: np.ndarray | None, scale: str | None, memory: Any
) -> list[Any]:
    """Kernels of features, or of distances, fitted on training samples."""
    from multikernel.gram import DenseStack, family_stack
    from multikernel.kernels import KernelFamily

    if any(kernel.pairwise for kernel in kernels):
        pairs = [X[np.ix_(rows, train)] for rows in (train, test) if rows is not None]
        family = KernelFamily.fit(kernels, pairs[0])
        stacks = [DenseStack.owning(family.evaluate(pairs[0]), family.names)]
        for new in pairs[1:]:  # exp(-0) is one
            ones = np.ones((len(family), len(new)))
            stacks.append(
                DenseStack.owning(family.evaluate(new), family.names, symmetric=False, self_similarity=ones)
            )
        return stacks
    parts = [X[rows] for rows in (train, test) if rows is not None]
    scaler = make_scaler(scale)
    if scaler is not None:
        parts = [scaler.fit_transform(parts[0]), *(scaler.transform(part) for part in parts[1:])]
    family = KernelFamily.fit(kernels, parts[0])
    training = family_stack(family, parts[0], memory=memory)
    return [training, *(family_stack(family, part, parts[0], memory=memory) for part in parts[1:])]
