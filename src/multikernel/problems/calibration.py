"""From decision values to probabilities: a sigmoid for two classes, a temperature for more [Pla99, GPSW17]."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax

Array = NDArray[np.float64]


def fit_calibration(scores: Array, codes: NDArray[np.intp], weight: Array) -> tuple[float, float]:
    """The slope ≥ 0 and the constant that make probabilities of decision values of samples not trained on.

    Scores of shape (n,), large for code 1, get Platt's sigmoid, ``1 / (1 + exp(−slope · score − constant))``; scores
    (n, M) the softmax of ``slope · scores``, and a constant of zero, so that the order of the classes stays. Both
    maximise the likelihood of Platt's targets, (N + 1) / (N + 2) for the right class instead of 1, N the samples of
    that class for the sigmoid, all samples for the softmax: slopes stay finite where scores separate the classes.

    ``codes`` (n,) are positions of the right classes; of the samples' weights only ratios count.
    """
    if not len(scores):
        return 0.0, 0.0
    two = scores.ndim == 1
    middle = float(scores.mean()) if two else 0.0
    logits = np.column_stack([np.zeros(len(scores)), scores - middle]) if two else scores
    spread = float(scores.std() if two else (scores - scores.mean(axis=1, keepdims=True)).std())
    logits, weight = logits / spread if spread > 0.0 else np.zeros(logits.shape), weight / weight.mean()
    n_classes = logits.shape[1]
    right = codes[:, None] == np.arange(n_classes)
    counts = weight @ right
    own = counts[codes, None] if two else len(scores)
    targets = np.where(right, own + 1.0, 1.0 / (n_classes - 1)) / (own + 2.0)
    constants = np.array([0.0, 1.0]) if two else np.zeros(n_classes)

    def loss(parameters: Array) -> tuple[float, Array]:
        """Cross-entropy with the targets per sample, and its gradient."""
        logarithms = log_softmax(parameters[0] * logits + parameters[-1] * constants, axis=1)
        errors = weight[:, None] * (np.exp(logarithms) - targets) / len(scores)
        gradient = [(errors * logits).sum(), (errors @ constants).sum()]
        return -float((weight @ (targets * logarithms)).sum()) / len(scores), np.array(gradient)[: len(parameters)]

    first = float(spread > 0.0)
    start = np.array([first, np.log((counts[1] + 1.0) / (counts[0] + 1.0))] if two else [first])
    bounds = [(0.0, None), (None, None)][: len(start)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-9}).x
    slope = float(found[0]) / (spread or 1.0)
    return slope, float(found[1]) - slope * middle if two else 0.0


def log_probabilities(logits: Array) -> Array:
    """Logarithms of the probabilities of two classes, given logits (m,) of the second, or of M, given (m, M)."""
    if logits.ndim == 1:
        return np.column_stack([log_expit(-logits), log_expit(logits)])
    return log_softmax(logits, axis=1)
