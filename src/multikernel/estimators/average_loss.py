"""What estimators share that minimise λ times a norm plus the average loss, with stochastic solvers."""

from __future__ import annotations

from dataclasses import KW_ONLY

import numpy as np

from multikernel.estimators.base import KernelMachine, is_number
from multikernel.estimators.parameters import Restartable, estimator


@estimator
class AverageLossMachine(Restartable, KernelMachine):
    """Base class: one problem for all scores, with λ = 1/(C Σs) for sample weights s.

    Parameters
    ----------
    lam : float, optional
        λ itself, instead of C.
    random_state : int, RandomState or None
        Order of the samples. The same number gives the same model.
    """

    _: KW_ONLY
    lam: float | None = None

    C = 1.0
    _passes = 50

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.lam is None:
            self._require("C", self.C > 0, "must be positive: it is the price of an error, lam = 1 / (C n).")
        else:
            usable = is_number(self.lam) and 0 < self.lam < np.inf
            self._require("lam", usable, "must be positive and finite, or None to use C.")

    def _lambda(self, total_weight: float) -> float:
        """λ for samples of this total weight."""
        return 1.0 / (self.C * total_weight) if self.lam is None else self.lam
