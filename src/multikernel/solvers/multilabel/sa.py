"""ML-MKL-SA: kernel weights for the worst of many labels, one SVM an iteration [BJJ10]."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from multikernel.problems.multilabel import WorstLabelProblem
from multikernel.runtime.monitor import InnerTolerance, Monitor
from multikernel.solvers.common.newton import Start
from multikernel.solvers.multilabel.level import LabelCuts, without_smallest
from multikernel.svm.quadratic_program import KernelOperator

Vector = NDArray[np.float64]

DELTA = 0.2  # share of the sampling that goes to all labels alike, as in the paper's experiments
REFRESH = 0.05  # ℓ1 distance of kernel weights at which the combined kernel is computed again
CAUTION = 0.3  # factor of the steps where gradients are estimated from one label alone
# Averages are judged, which costs an SVM of each label that may be the worst, after this many SVMs per label, then
# whenever their number has grown by the factor.
FIRST_CHECK, GROWTH = 0.25, 2.0
# Cuts tell whether an average may be good enough to be judged: after iterations that are this share of all so far,
# and after this share when one was judged in vain. The gap of their model may be this share of tol.
GLANCES, PAUSE, HOPEFUL = 0.1, 0.3, 0.7
# Relative difference of averages at which the paper stops, and its constant step for two of three data sets.
SETTLED, PAPER_STEP = 0.01, 1e-3


class MovingKernel:
    """The kernel of weights that move a little at a time, made anew only when they have moved far enough.

    Making it costs F n² operations, as much as several SVMs. An alpha that is optimal on a kernel that is ε away
    still gives an exact cut, whose value is within O(ε²) of the optimum. ``refresh`` is the ℓ1 distance of weights
    from which the kernel is made anew; 0 does it every time. The smallest weights, a tenth of it together, are left
    out.
    """

    def __init__(self, problem: WorstLabelProblem, refresh: float):
        self.problem, self.refresh = problem, refresh
        self.weights: Vector | None = None
        self.made = 0

    def at(self, weights: Vector) -> NDArray | KernelOperator:
        """The kernel of these weights, or of the last ones if they are near."""
        if self.weights is None or float(np.abs(weights - self.weights).sum()) > self.refresh:
            self.weights = without_smallest(weights, 0.1 * self.refresh)
            self.made += 1
        return self.problem.kernel(self.weights)


def smoothed(gamma: Vector, delta: float) -> Vector:
    """What labels are sampled from: ``(1 − δ) γ + δ / M`` [BJJ10, sect. 2.1]."""
    return (1.0 - delta) * gamma + delta / len(gamma)


def paper_estimates(j: int, gamma: Vector, chances: Vector, value: float, forms: Vector) -> tuple[Vector, Vector]:
    """Estimates of the gradients in p and γ from label j alone [BJJ10, eq. (8) and eq. (9)].

    They are unbiased for labels sampled with ``chances``: (9) is divided by the chance of the label, and (8), which
    the paper has for chances γ, is multiplied by γ_j / chance_j.
    """
    in_gamma = np.zeros(len(gamma))
    in_gamma[j] = value / chances[j]
    return -0.5 * forms * (gamma[j] / chances[j]), in_gamma


class LabelTable:
    """The last cut of each label: ``linear_k − ½ p·q_k`` bounds J_k(p) from below, with equality where it was made.

    ``linear`` has shape (M,), ``forms`` (F, M).
    """

    def __init__(self, linear: Vector, forms: NDArray):
        self.linear, self.forms = np.array(linear), np.array(forms)

    def estimates(
        self, j: int, p: Vector, gamma: Vector, chances: Vector, linear: float, forms: Vector
    ) -> tuple[Vector, Vector]:
        """Estimates of the gradients in p and γ from all labels' old cuts, and a new one of label j.

        What the table says, corrected at the sampled label by the difference of new and old over the chance that
        it is sampled: unbiased whatever the table holds, and exact when it holds what is true.
        """
        values = self.linear - 0.5 * (p @ self.forms)
        values[j] += (linear - 0.5 * float(p @ forms) - values[j]) / chances[j]
        in_p = self.forms @ gamma + (gamma[j] / chances[j]) * (forms - self.forms[:, j])
        return -0.5 * in_p, values


class Simplex:
    """A point on a simplex moved by exponentiated gradients, with steps that know no scale.

    The step is ``boldness · sqrt(ln N / Σ_t s_t²)``, s_t² the variance of the entries of gradient t under the point,
    and at most 2 boldness / (their range). Where the point has concentrated on few entries the variance is far
    smaller than the squared range, and steps are as much longer.

    Zeros to start from get something small. ``step`` is a constant step instead; the noisier the gradients, the
    smaller ``boldness`` should be.
    """

    def __init__(self, point: Vector, step: float | None = None, *, boldness: float = 1.0):
        self.logs = np.log(np.maximum(point, 1e-6 / len(point)))
        self.constant, self.boldness, self.squares = step, boldness, 0.0
        self.point = normalised(self.logs)

    def descend(self, gradient: Vector) -> None:
        """One step against the gradient."""
        self.squares += float(self.point @ (gradient - self.point @ gradient) ** 2)
        self.logs = self.logs - self._step(gradient) * gradient
        self.logs -= self.logs.max()
        self.point = normalised(self.logs)

    def _step(self, gradient: Vector) -> float:
        extent = float(np.ptp(gradient))
        if self.constant is not None or extent == 0.0:
            return self.constant or 0.0
        scale = np.sqrt(np.log(max(len(gradient), 2)) / max(self.squares, 1e-300))
        return self.boldness * min(2.0 / extent, float(scale))


def normalised(logs: Vector) -> Vector:
    """Point of the simplex with these logarithms, up to a constant."""
    point = np.exp(logs - logs.max())
    return point / point.sum()


class Walk:
    """Points p and γ moved by sampled labels, and their averages; a run that is resumed goes on where they were.

    ``steps`` are constant steps of p and γ, if given; ``delta``, ``boldness`` and ``refresh`` are those of
    :func:`smoothed`, :class:`Simplex` and :class:`MovingKernel`.
    """

    def __init__(
        self, problem: WorstLabelProblem, monitor: Monitor, start: Start, random_state: Any,
        *, steps: Sequence[Any] = (None, None), delta: float = DELTA, boldness: float = 1.0, refresh: float = REFRESH,
    ):  # fmt: skip
        weights, alpha = problem.start() if start is None else start
        self.problem, self.monitor, self.alpha = problem, monitor, np.array(alpha)
        self.rng, self.delta = check_random_state(random_state), delta
        self.p = Simplex(weights, steps[0], boldness=boldness)
        self.gamma = Simplex(np.full(problem.n_labels, 1.0 / problem.n_labels), steps[1], boldness=boldness)
        self.mean, self.mean_gamma, self.done = np.zeros(problem.n_kernels), np.zeros(problem.n_labels), 0
        self.kernel, self.tol = MovingKernel(problem, refresh), InnerTolerance(monitor)
        state, monitor.keep = self._state(), self._state
        kept = {name: np.array(monitor.kept.get(name, ())) for name in state}
        if all(kept[name].shape == part.shape for name, part in state.items()):
            self.p.logs, self.gamma.logs, self.mean, self.mean_gamma, numbers = kept.values()
            self.p.point, self.gamma.point = normalised(self.p.logs), normalised(self.gamma.logs)
            self.done, self.p.squares, self.gamma.squares = int(numbers[0]), *map(float, numbers[1:])

    def _state(self) -> dict[str, NDArray]:
        points = {"p": self.p.logs, "gamma": self.gamma.logs, "mean": self.mean, "mean_gamma": self.mean_gamma}
        numbers = np.array([self.done, self.p.squares, self.gamma.squares])
        return {**{name: np.array(part) for name, part in points.items()}, "numbers": numbers}

    def sample(self, share: float) -> tuple[int, Vector, float, Vector]:
        """A label, the chances it was sampled with, and the cut of its SVM; ``share`` is that of p in the average."""
        chances = smoothed(self.gamma.point, self.delta)
        j = int(self.rng.choice(len(chances), p=chances))
        kernel = self.kernel.at(self.p.point)
        self.alpha[:, j], linear, forms = self.problem.solve_label(j, kernel, self.alpha[:, j], self.tol.value)
        self.mean += share * (self.p.point - self.mean)
        self.mean_gamma += share * (self.gamma.point - self.mean_gamma)
        return j, chances, linear, forms

    def move(self, in_p: Vector, in_gamma: Vector) -> None:
        """Steps: down in p, up in γ."""
        self.p.descend(in_p)
        self.gamma.descend(-in_gamma)
        self.done += 1

    def judge(self, **notes: Any) -> bool:
        """Solve all labels that may be the worst at the average p, and have it judged; true to stop."""
        self.alpha = self.problem.refine(self.mean, self.alpha, self.tol.value)
        self.monitor.notes = {"svms": self.done, "kernels_made": self.kernel.made, **notes}
        stop = self.monitor(self.mean, self.alpha)
        self.tol.follow()
        return stop


def label_sa(
    problem: WorstLabelProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 5000,
    eta: Any = None,
    delta: float = DELTA,
    stop: str = "gap",
    printed: bool = False,
    random_state: Any = None,
) -> None:
    """Stochastic mirror descent in the weights of kernels and of labels [BJJ10, alg. 1].

    Differs from the printed algorithm where that is wrong: γ is ascended, p has a step of its own, labels are sampled
    from the smoothed γ, and (8) and (9) are weighted so that they are unbiased. Not so if ``printed``: then (8) is as
    it stands, every SVM is solved on the kernel of its iteration, steps are constant, and only the last average is
    judged, which takes an SVM of every label that may be the worst. The average p is judged; the average of γ is the
    ``label_weights`` of its row of the history.

    The paper ends when the average changes by less than 1 % (``stop="change"``). From one iteration to the next that
    is so almost at once, because the t-th average moves by 1/t of a step: with its steps, as ``printed``, at t = 2.
    Else averages are compared that are as many iterations apart as there are labels. Such a solution is judged once,
    usually with a gap far above ``tol``.

    ``max_iter`` is the largest number of SVMs, those of the judged averages not counted; ``eta`` a constant step of
    both variables, or a pair (η_p, η_γ); ``delta`` the share of labels sampled uniformly, from 0, at which a label
    may never be seen, to 1.
    """
    eta = PAPER_STEP if printed and eta is None else eta
    walk = Walk(
        problem, monitor, start, random_state, steps=(eta, eta) if np.ndim(eta) == 0 else eta, delta=delta,
        boldness=CAUTION, refresh=0.0 if printed else REFRESH,
    )  # fmt: skip
    apart, monitor.keep_last = 1 if printed else problem.n_labels, printed
    walk.tol.value = walk.tol.least if printed else walk.tol.value
    judged = stop == "gap" and not printed
    checks = check_times(problem.n_labels, max_iter) if judged else iter([max_iter, max_iter + 1])
    due, before = next(t for t in checks if t > walk.done), np.array(walk.mean)
    for t in range(walk.done + 1, max_iter + 1):
        # 1. a label, and its SVM on the current kernel; 2. steps
        j, chances, linear, forms = walk.sample(1.0 / t)
        value = linear - 0.5 * float(walk.p.point @ forms)
        in_p, in_gamma = paper_estimates(j, walk.gamma.point, chances, value, forms)
        walk.move(-0.5 * forms if printed else in_p, in_gamma)
        settled = False
        if stop == "change" and t % apart == 0:
            settled = t > 1 and bool(np.abs(walk.mean - before).sum() <= SETTLED)
            before = np.array(walk.mean)
        if t == due or settled:
            due = next(checks)
            monitor.stopped = "settled" if settled else monitor.stopped
            if walk.judge(label_weights=np.array(walk.mean_gamma)) or settled:
                return


def label_sa_vr(
    problem: WorstLabelProblem,
    monitor: Monitor,
    start: Start = None,
    *,
    max_iter: int = 5000,
    random_state: Any = None,
) -> None:
    """Stochastic mirror descent with a memory of every label's last cut, which takes most of the noise away.

    After a pass over all labels, each iteration solves one label's SVM, as in [BJJ10, alg. 1], but estimates
    gradients from all labels (see :class:`LabelTable`). Averages are weighted by the number of the iteration. The
    cuts of all SVMs prove the lower bound; an average at which their model is too far above it cannot be good enough,
    and is not judged unless it is time.
    """
    walk = Walk(problem, monitor, start, random_state)
    tol, cuts, labels = walk.tol, LabelCuts(problem.n_kernels), np.arange(problem.n_labels)
    # 1. a pass over all labels fills the table, unless there was one before the run was resumed
    if not walk.done:
        tols = np.full(len(labels), max(tol.value, 1e-2))
        walk.alpha = problem.solve_labels(walk.p.point, walk.alpha, labels, tols)
    table = LabelTable(*problem.cuts(walk.alpha))
    for j in labels[: problem.n_labels * (walk.done > 0)]:
        cuts.add_of(j, table.linear[j], table.forms[:, j])
    checks = check_times(problem.n_labels, max_iter)
    due, glance = next(t for t in checks if t > walk.done), 10
    for t in range(walk.done + 1, max_iter + 1):
        # 2. a label, and its SVM on the current kernel
        j, chances, linear, forms = walk.sample(2.0 / (t + 1))
        cuts.add_of(j, linear, forms)
        # 3. steps, then the new cut takes the place of the old
        estimates = table.estimates(j, walk.p.point, walk.gamma.point, chances, linear, forms)
        table.linear[j], table.forms[:, j] = linear, forms
        walk.move(*estimates)
        hopeful = False
        if t >= glance:
            glance = t + max(int(GLANCES * t), 1)
            monitor.prove(cuts.solve()[1])
            value = cuts.value(walk.mean)
            hopeful = value - monitor.bound <= HOPEFUL * monitor.tol * abs(value)
        if t == due or hopeful:
            due = next(checks) if t == due else due
            if walk.judge():
                return
            glance = t + max(int(PAUSE * t), 1)


def check_times(n_labels: int, last: int) -> Iterator[int]:
    """Iterations after which averages are judged: a geometric sequence, and the last."""
    t = max(float(np.ceil(FIRST_CHECK * n_labels)), 10.0)
    while t < last:
        yield int(t)
        t = max(GROWTH * t, t + 1.0)
    yield last
    yield last + 1
