"""Kernels of training and of test samples, with everything that is learnt about them learnt from training samples."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from multikernel.estimators import KernelAverageClassifier
from multikernel.gram import GramStack, gram_stack, precomputed_stack
from multikernel.gram.checks import check_training_stack, without_holes
from multikernel.gram.normalization import Steps


def make_scaler(scale: Any) -> Any:
    """A transformer of columns, or of what becomes columns, unfitted; None for none."""
    from sklearn.preprocessing import RobustScaler, StandardScaler

    if hasattr(scale, "transform"):
        return clone(scale)
    return None if scale is None else {"standard": StandardScaler, "robust": RobustScaler}[scale]()


@dataclass(frozen=True)
class Preparation:
    """How Gram stacks are made of samples; parameters as in `~multikernel.compare.compare`."""

    kernels: Any
    scale: Any = None
    psd: str = "raise"
    missing: str = "raise"
    normalize: Steps = None
    memory: Any = None

    @property
    def precomputed(self) -> bool:
        """Whether kernels are given, not computed."""
        return isinstance(self.kernels, str)

    def checked(self, X: Any, names: Sequence[str] | None = None) -> Any:
        """What to give `stacks`: features as they are, precomputed kernels as a stack that was checked as a whole."""
        if not self.precomputed:
            numbers = not issparse(X) and X.dtype.kind in "fc"  # not paths of images
            holes = 0 if not numbers else np.isnan(X).any(axis=tuple(range(1, X.ndim))).sum()
            if holes and self.missing == "raise":
                raise ValueError(
                    f"X contains NaN in {holes} of {len(X)} samples: impute them, or leave these samples out. Those "
                    "that lack whole views can be kept with missing='mask'."
                )
            return X
        checks = "raise" if self.psd == "raise" else "ignore"  # kernels to clip are clipped in each split
        if self.missing == "mask" and not isinstance(X, GramStack) and np.isnan(X).any():
            stack = precomputed_stack(X, names, memory=self.memory)
            check_training_stack(without_holes(stack)[0], checks)
            return stack
        return gram_stack(X, names=names, memory=self.memory, psd=checks)

    def stacks(self, X: Any, train: np.ndarray, test: np.ndarray | None = None) -> tuple[Any, Any]:
        """Gram stacks training × training and test × training; without ``test`` the second is None."""
        parts, psd = [train] if test is None else [train, test], self.psd
        if self.precomputed:
            parts = [X.take(rows, train) for rows in parts]
            psd = "clip" if psd == "clip" else "ignore"  # all of X was checked
        elif any(kernel.pairwise for kernel in self.kernels):
            parts = [X[np.ix_(rows, train)] for rows in parts]
        else:
            parts = [X[rows] for rows in parts]
            if (scaler := make_scaler(self.scale)) is not None:
                parts = [scaler.fit_transform(parts[0]), *map(scaler.transform, parts[1:])]
        # an estimator makes them, as it would in a fit
        settings = {"missing": self.missing, "normalize": self.normalize, "memory": self.memory}
        machine = KernelAverageClassifier(self.kernels, psd=psd, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about scales and cost: not once for each split
            stack, _ = machine._given_stack(parts[0], np.zeros(len(train)))
            training = machine._normalized(stack)
            return training, None if test is None else machine._stack_of_all(parts[1])

    def __str__(self) -> str:
        """The end of a sentence: how columns were scaled and kernels normalised, if they were."""
        scaled = f"; columns scaled ({self.scale}) with training statistics"
        text = scaled if isinstance(self.scale, str) else ""
        text += "; missing views masked" if self.missing == "mask" else ""
        if not self.normalize:
            return text
        steps = self.normalize
        if isinstance(steps, Mapping):
            chains = "; ".join(f"{name}: {_chain(chain)}" for name, chain in steps.items())
        else:
            chains = _chain(steps)
        return f"{text}; kernels normalised with training statistics ({chains})"


def _chain(steps: str | Sequence[str] | None) -> str:
    return steps if isinstance(steps, str) else ", ".join(steps or ["none"])
