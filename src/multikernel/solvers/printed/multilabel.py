"""What [BJJ10] compares with: mirror-prox for the worst label, subgradient descent for the sum over labels."""

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.multilabel import WorstLabelProblem
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.multilabel.level import LabelCuts
from multikernel.solvers.multilabel.sa import normalised

Vector = NDArray[np.float64]

# What a step is multiplied by after a success and after a failure.
LONGER, SHORTER = 1.3, 0.5
# Averages are judged when the number of steps has grown by this factor.
GROWTH = 1.3
# Length of the first move of the weights in subgradient descent.
FIRST_MOVE = 0.2


def label_mirror_prox(
    problem: WorstLabelProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000
) -> None:
    """Extragradient steps in the weights of kernels and labels, with exact gradients [BJJ10, eq. (6) and eq. (7)].

    A trial step from z = (p, γ) leads to w; the gradients at w then move z. A step counts if

        η (g(w) − g(z))·(w − z⁺) ≤ KL(w, z) + KL(z⁺, w),

    which is all that the proof of its O(1/T) rate needs; it is tried with a longer η next, and else again with a
    shorter one. The points z are judged, whose SVMs are solved in any case, and now and then the averages of w,
    weighted by η, which the rate is proved for. ``max_iter`` counts the rejected steps, too.
    """
    weights, alpha = problem.start() if start is None else start
    labels, F = np.arange(problem.n_labels), problem.n_kernels
    tol, cuts = InnerTolerance(monitor), LabelCuts(F)
    logs = np.concatenate([np.log(np.maximum(weights, 1e-6 / F)), np.zeros(len(labels))])
    z, total, mean = _point(logs, F), 0.0, np.zeros(F)

    def gradient(point: Vector) -> Vector:
        nonlocal alpha
        p, gamma = point[:F], point[F:]
        alpha = problem.solve_labels(p, alpha, labels, np.full(len(labels), tol.value))
        linear, forms = problem.cuts(alpha)
        for k in np.flatnonzero(gamma >= 1e-3 / len(labels)):
            cuts.add_of(int(k), linear[k], forms[:, k])
        return np.concatenate([-0.5 * (forms @ gamma), 0.5 * (p @ forms) - linear])

    at_z = gradient(z)
    step, due = 1.0 / max(float(np.ptp(at_z[:F])), float(np.ptp(at_z[F:])), 1e-300), 1.0
    for t in range(1, max_iter + 1):
        # 1. a trial step, and the step with its gradient
        w_logs = logs - step * at_z
        w = _point(w_logs, F)
        at_w = gradient(w)
        moved_logs = logs - step * at_w
        moved = _point(moved_logs, F)
        # 2. is it as good as theory wants?
        if step * float((at_w - at_z) @ (w - moved)) <= _divergence(w, z) + _divergence(moved, w) + 1e-15:
            total += step
            mean += (w[:F] - mean) * (step / total)
            logs, z, step = moved_logs, moved, LONGER * step
            at_z = gradient(z)
            monitor.prove(cuts.solve()[1])
            if monitor(z[:F], alpha):
                return
            tol.follow()
        else:
            step *= SHORTER
        # 3. judge the average
        if (t >= due or t == max_iter) and total > 0.0:
            due = max(GROWTH * t, t + 1.0)
            if monitor(mean / mean.sum(), problem.refine(mean / mean.sum(), alpha, tol.value)):
                return
    if total == 0.0:  # no step was good enough: the start is all there is
        monitor(weights, problem.refine(weights, alpha, tol.value))


def _point(logs: Vector, n_kernels: int) -> Vector:
    return np.concatenate([normalised(logs[:n_kernels]), normalised(logs[n_kernels:])])


def _divergence(a: Vector, b: Vector) -> float:
    """Relative entropies of both parts of a with respect to b, added."""
    kept = a > 0.0
    return float(a[kept] @ np.log(a[kept] / np.maximum(b[kept], 1e-300)))


def subgradient(problem: MinMaxProblem, monitor: Monitor, start: Start = None, *, max_iter: int = 1000) -> None:
    """Projected steps against the gradient ``−½ q(alpha)``, every label's SVM solved in each [BJJ10, sect. 2].

    It is what the paper compares with, and is here for that: other solvers of the same problem need far fewer SVMs.
    Step t moves the weights by ``0.2 / sqrt(t)`` before they are projected.
    """
    weights, alpha = problem.start() if start is None else start
    tol = InnerTolerance(monitor)
    for t in range(1, max_iter + 1):
        # 1. all SVMs at the weights
        _, alpha = problem.solve_inner(weights, alpha, tol.value)
        if monitor(weights, alpha):
            return
        tol.follow()
        # 2. a step, and back into the set
        q = problem.quadratic_forms(alpha)
        descent = q - q.mean()  # on a simplex the mean does nothing but lengthen the gradient
        step = FIRST_MOVE / (np.sqrt(t) * max(float(np.linalg.norm(descent)), 1e-300))
        weights = problem.weight_set.project(weights + step * descent)
        weights = weights / weights.sum() if weights.sum() > 0.0 else problem.weight_set.start(problem.n_kernels)
