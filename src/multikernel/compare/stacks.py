"""Kernels of training and of test samples, with everything that is learnt about them learnt from training samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from multikernel.estimators.inputs import filled, refuse_lonely
from multikernel.gram import DenseStack, GramStack, family_stack, gram_stack, precomputed_stack
from multikernel.gram.checks import apply_clip, check_training_stack, fit_clip, without_holes
from multikernel.gram.normalization import Normalization, Steps
from multikernel.kernels import KernelFamily


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
        parts = [train] if test is None else [train, test]
        missing: list[Any] = [None] * len(parts)
        if self.precomputed:
            stacks = [X.take(rows, train) for rows in parts]
            if self.missing == "mask" and X.stored and np.isnan(X.diagonal()).any():
                stacks, missing = map(list, zip(*(without_holes(stack)[:2] for stack in stacks)))
        else:
            stacks, missing = self._evaluated(X, parts)
        for gone in missing:
            if gone is not None:
                refuse_lonely(gone)
        clipped: dict[int, np.ndarray] = {}
        if self.psd == "clip":
            clipped, stacks[0] = fit_clip(stacks[0])
        normalization = Normalization(self.normalize)
        training = normalization.fit_apply(stacks[0], missing=missing[0])
        return training, None if test is None else normalization.apply(apply_clip(stacks[1], clipped), missing[1])

    def _evaluated(self, X: Any, parts: list[np.ndarray]) -> tuple[list[Any], list[Any]]:
        """Kernels of features, or of distances, fitted on training samples; and which samples lack which of them."""
        missing: list[Any] = [None] * len(parts)
        if any(kernel.pairwise for kernel in self.kernels):
            pairs = [X[np.ix_(rows, parts[0])] for rows in parts]
            family = KernelFamily.fit(self.kernels, pairs[0])
            stacks: list[GramStack] = [DenseStack.owning(family.evaluate(pairs[0]), family.names)]
            for new in pairs[1:]:
                ones = np.ones((len(family), len(new)))  # exp(-0)
                array = family.evaluate(new)
                stacks.append(DenseStack.owning(array, family.names, symmetric=False, self_similarity=ones))
        else:
            scaler = make_scaler(self.scale)
            training, *others = [X[rows] for rows in parts]
            if scaler is not None:
                training, *others = scaler.fit_transform(training), *map(scaler.transform, others)
            whole = filled(training)
            family = KernelFamily.fit(self.kernels, whole)
            if self.missing == "mask":
                missing = [family.missing(part) for part in (training, *others)]
                if missing[0] is not None:
                    family.fit_present(whole, missing[0])
            stacks = [family_stack(family, whole, memory=self.memory)]
            stacks += [family_stack(family, filled(new, whole), whole, memory=self.memory) for new in others]
        if self.psd == "raise":
            check_training_stack(stacks[0])
        return stacks, missing

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
