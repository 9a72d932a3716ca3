"""What watches a solver: certificate, history, clock, stop rule, tolerances; and the result that it hands back."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.certificate import Certificate
from multikernel.runtime.clock import OutOfTime, grace, late

# A gap that is at least this share of an earlier one is the same.
SAME_GAP = 0.99
# Share of a gap that may be rounding before the problem is asked to compute with less of it.
BLURRED = 0.1
# Relative gap of the first inner problem, share of the outer gap that later ones may leave, and the least asked for.
# The SVM engine ends with steps that are nearly exact, so asking for less at first saves next to nothing.
FIRST, SHARE, LEAST = 1e-3, 0.1, 1e-12
UNKNOWN = Certificate(float("nan"), float("nan"))

OnRecord = Callable[[dict[str, Any], "Monitor"], bool | None]


class Problem(Protocol):
    """What is asked of a problem outside its solvers: a point to start from, and to judge a solution."""

    def start(self) -> tuple[NDArray, NDArray]:
        """Feasible weights and alpha that cost nothing to find."""

    def certificate(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """Bounds on the optimum that ``weights`` and ``alpha`` prove."""

    def repaired(self, weights: NDArray, alpha: NDArray) -> tuple[NDArray, NDArray]:
        """A feasible solution near the one given, which may come from a file."""


@dataclass
class Result:
    """A solution with its proof.

    ``stopped`` says why: "converged", "stationary" (no dual bound, but a stationary point to within the tolerance),
    "iterations", "rounding", "settled" (weights hardly change), "time", "callback", "interrupted".
    """

    weights: NDArray  # (F,)
    alpha: NDArray  # (n,) or (n, T): signed dual coefficients
    certificate: Certificate
    # a row per iteration: iteration, time (seconds, monitoring excluded), objective, gap, relative_gap, weights, …
    history: list[dict[str, Any]] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False  # whether the relative gap is within the tolerance; never without a dual bound
    stopped: str = "iterations"
    intercept: Any = None  # None if the problem has none, or time was up before it was known
    proof: NDArray | None = None  # the alpha whose dual value is the bound, if it is that of one


class Monitor:
    """Called once per outer iteration with the current solution; says whether to stop.

    It keeps the solution with the smallest primal value and the largest lower bound seen: a bound that is proved
    holds for every solution. Its own time (certificate, callbacks, files) is off the solver's clock, but within the
    limit of the fit. ``tol`` is the relative duality gap at which to stop, for a problem without a dual the
    stationarity. ``on_record`` gets each history row and the monitor; a true value stops the solver.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.certificate import Certificate
    >>> from multikernel.runtime.monitor import Monitor
    >>> class Halving:
    ...     def certificate(self, weights, alpha):
    ...         return Certificate(primal=1.0, dual=1.0 - alpha[0])
    >>> monitor = Monitor(Halving(), tol=0.1)
    >>> alpha = np.array([1.0])
    >>> while not monitor(np.ones(1), alpha):
    ...     alpha = alpha / 2
    >>> result = monitor.result()
    >>> result.n_iter, result.converged, result.certificate.gap
    (5, True, 0.0625)
    """

    def __init__(self, problem: Problem, tol: float = 1e-3, *, on_record: OnRecord | None = None):
        self.problem, self.tol = problem, tol
        self.history: list[dict[str, Any]] = []
        self.stopped = "iterations"
        self.notes: dict[str, Any] = {}  # what a solver wants to see in the next history row, such as its step size
        self.bound = float("-inf")
        self.certificate = Certificate(float("inf"), self.bound)
        self.best: tuple[NDArray, NDArray] | None = None
        self.current: tuple[NDArray, NDArray] | None = None
        self.keep_last = False  # whether the last solution is the result, as it is of an algorithm as printed
        self.patience: int | None = None  # iterations that may leave the gap as it is; None: all
        self._stuck_at = float("inf"), 0  # the gap when it last fell, and the iteration
        self.resumable = False  # whether there is a checkpoint to keep state for
        self.overdue: Callable[[], bool] = lambda: False  # whether it is time to write it
        self.write: Callable[[], None] = lambda: None
        self.keep: Callable[[], dict[str, NDArray]] = dict  # what else a solver needs to go on; from any thread
        self.kept: dict[str, NDArray] = {}  # what the solver had kept that this one goes on from
        self.intercept: Any = None  # of ``best``
        self.proof: NDArray | None = None  # the alpha that proves the bound, if it is not in ``best``
        self._on_record = on_record
        self._elapsed = 0.0
        self._started = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds spent by the solver so far."""
        return self._elapsed + time.perf_counter() - self._started

    def resume(
        self,
        current: tuple[NDArray, NDArray],
        best: tuple[NDArray, NDArray] | None,
        proof: NDArray | None,
        history: list[dict[str, Any]],
        elapsed: float,
    ) -> None:
        """Take over the state of an earlier monitor of the same problem; what it had proved is proved again."""
        repaired = self.problem.repaired
        self.current = repaired(*current)
        self.history, self._elapsed = list(history), elapsed
        if best is None:
            return
        self.best = repaired(*best)
        if proof is not None and proof.shape == self.best[1].shape:
            proof = repaired(self.best[0], proof)[1]
            self.prove(self._judged(self.best[0], proof).dual, lambda: proof)
        self._keep(self.best, self._bounded(self._judged(*self.best)))

    def save(self, weights: NDArray, alpha: NDArray) -> None:
        """Note where a solver is between two judgements, if it is time to, so that a kill costs no more than that."""
        if self.overdue():
            with self.off_the_clock():
                self.current = np.array(weights), np.array(alpha)
                self.write()

    def bears_out(self, stopped: str) -> bool:
        """Whether the best solution is one for which an earlier monitor may have stopped like that, as it says."""
        claims = {"converged": self.certificate.relative_gap, "stationary": self.certificate.stationarity}
        if stopped not in (*claims, "iterations", "rounding", "settled"):
            raise ValueError(f"a solver does not stop by {stopped!r}")
        if not claims.get(stopped, 0.0) <= self.tol:
            return False
        self.stopped = stopped
        return True

    @contextlib.contextmanager
    def off_the_clock(self) -> Iterator[None]:
        """What is done inside is judging, not solving, and takes no time."""
        self._elapsed = self.elapsed
        try:
            yield
        finally:
            self._started = time.perf_counter()

    def __call__(self, weights: NDArray, alpha: NDArray) -> bool:
        with self.off_the_clock():
            return self._record(weights, alpha)

    def prove(self, bound: float, alpha: Callable[[], NDArray | None] | None = None) -> None:
        """Take note of a lower bound on the optimum that was proved by other means than the alpha of an iteration.

        ``alpha`` makes one that proves it alone, if there is such a one.
        """
        if bound > self.bound:
            self.bound = float(bound)
            self.proof = None if alpha is None else alpha()
            self.certificate = self._bounded(self.certificate)

    def forget_bounds(self) -> None:
        """Judge the best solution by what its own alpha proves, and nothing else."""
        assert self.best is not None
        self.certificate = self._judged(*self.best)
        self.bound, self.proof, self.stopped = float(self.certificate.dual), self.best[1], "iterations"

    def _judged(self, weights: NDArray, alpha: NDArray) -> Certificate:
        """The problem's certificate, sharpened from now on if rounding is what keeps the gap above ``tol``."""
        found = self.problem.certificate(weights, alpha)
        if found.rounding <= BLURRED * found.gap or found.relative_gap <= self.tol:
            return found
        sharpen = getattr(self.problem, "sharpen", None)
        return self.problem.certificate(weights, alpha) if sharpen is not None and sharpen() else found

    def _record(self, weights: NDArray, alpha: NDArray) -> bool:
        self.current = np.array(weights), np.array(alpha)
        try:
            with grace():
                own = self._judged(weights, alpha)
        except OutOfTime:
            if self.best is None:  # a solution of which nothing is known is better than none
                self.best, self.certificate = self.current, UNKNOWN
            raise
        if own.dual > self.bound:
            self.proof = self.current[1]
        certificate = self._bounded(own)
        if self.best is None or self.keep_last or not certificate.primal > self.certificate.primal:
            self._keep(self.current, certificate)
        elif not np.isnan(certificate.dual):
            self.certificate = replace(self.certificate, dual=certificate.dual)
        row = {
            "iteration": len(self.history),
            "time": self._elapsed,
            "objective": certificate.primal,
            "gap": certificate.gap,
            "relative_gap": certificate.relative_gap,
            "weights": np.array(weights),
            **self.notes,
        }
        if not np.isnan(certificate.stationarity):
            row["stationarity"] = certificate.stationarity
        self.history.append(row)
        asked = self._on_record is not None and bool(self._on_record(row, self))
        if self.certificate.relative_gap <= self.tol:
            self.stopped = "converged"
        elif np.isnan(certificate.dual) and certificate.stationarity <= self.tol:
            # this point, not one with a slightly smaller value, is the one that was shown to be stationary
            self._keep(self.current, certificate)
            self.stopped = "stationary"
        elif asked:
            self.stopped = "callback" if self.stopped == "iterations" else self.stopped
        elif self._stalled():
            self.stopped = "rounding"
        else:
            return False
        return True

    def _stalled(self) -> bool:
        """Whether as many iterations as ``patience`` allows have hardly moved the gap."""
        gap = self.certificate.relative_gap
        if not gap >= SAME_GAP * self._stuck_at[0]:  # nor is there a gap to watch if it is not a number
            self._stuck_at = gap, len(self.history)
        return self.patience is not None and len(self.history) - self._stuck_at[1] >= self.patience

    def _keep(self, solution: tuple[NDArray, NDArray], certificate: Certificate) -> None:
        """Make a solution the best, and find its intercept while its scores are known: later it costs a pass."""
        self.best, self.certificate, self.intercept = solution, certificate, None
        if hasattr(self.problem, "intercept"):
            with grace():
                self.intercept = self.problem.intercept(*solution)

    def _bounded(self, certificate: Certificate) -> Certificate:
        """The certificate with the best bound so far; without a dual value it stays without."""
        if certificate.dual > self.bound:
            self.bound = float(certificate.dual)
        if np.isnan(certificate.dual):
            return certificate
        return replace(certificate, primal=float(certificate.primal), dual=self.bound)

    def result(self) -> Result:
        """The best solution seen, with its certificate and the history."""
        if self.best is None:
            raise RuntimeError("the solver never called its monitor, so there is no solution to return")
        converged = self.certificate.relative_gap <= self.tol
        stopped = "converged" if converged else self.stopped
        if stopped == "iterations" and self.certificate.rounding > self.tol * abs(self.certificate.primal):
            stopped = "rounding"  # no number of iterations is enough
        if converged:
            with contextlib.suppress(OutOfTime):
                self._prefer_proof()
        (weights, alpha), n_iter = self.best, len(self.history)
        ends = converged, stopped, self.intercept, self.proof
        return Result(weights, alpha, self.certificate, self.history, n_iter, *ends)

    def _prefer_proof(self) -> None:
        """An alpha that proves the bound by itself is worth more than one that needs others for it."""
        assert self.best is not None
        (weights, alpha), proof = self.best, self.proof
        if proof is None or proof.shape != alpha.shape or np.array_equal(proof, alpha) or late():
            return
        proof = self.problem.repaired(weights, proof)[1]  # a mixture of several may leave its bounds by rounding
        alone = self._judged(weights, proof)
        if alone.relative_gap <= self.tol:
            self._keep((weights, proof), alone)


class InnerTolerance:
    """Relative gap for the next inner problem: a share of the outer gap, never growing, tighter on demand."""

    def __init__(self, monitor: Monitor):
        self.monitor = monitor
        self.least = max(SHARE * monitor.tol, LEAST)
        self.value = FIRST
        self.follow()

    def follow(self) -> float:
        """The tolerance after the monitor has seen the last solution."""
        wanted = SHARE * self.monitor.certificate.relative_gap
        self.value = min(self.value, max(wanted if wanted == wanted else FIRST, self.least))
        return self.value

    def tighten(self) -> bool:
        """Ask for ten times more; False if that is beyond double precision, and the monitor hears of it."""
        if self.value <= LEAST:
            self.monitor.stopped = "rounding"
            return False
        self.least = min(self.least, max(0.1 * self.value, LEAST))
        self.value = max(0.1 * self.value, LEAST)
        return True
