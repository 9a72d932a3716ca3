"""OBSCURE for structured output: any answers for which the worst rival can be found [OJC10, sect. 5]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram import GramStack
from multikernel.problems.certificate import Certificate
from multikernel.problems.weight_sets import lp_norm
from multikernel.solvers.common.score_table import generator

Vector = NDArray[np.float64]


class OutputSpace(Protocol):
    """What answers are: vectors ψ(y), a cost of confusing two of them, and two maximisations.

    The joint feature map of kernel j is ``φ_j(x, y) = φ_j(x) ⊗ ψ(y)``, so that an answer scores ``ψ(y) · s(x)``
    where s(x) are ``dimension`` numbers.
    """

    dimension: int

    def embed(self, answer: Any) -> Vector:
        """ψ(answer), shape (dimension,)."""

    def rival(self, scores: Vector, truth: Any) -> tuple[Any, float]:
        """The answer with the largest ``cost(truth, answer) + ψ(answer) · scores``, and its cost."""

    def decode(self, scores: Vector) -> Any:
        """The answer with the largest ``ψ(answer) · scores``."""


class Hierarchy:
    """Classes as leaves of a tree: the worked example of an output space.

    ψ(y) marks the nodes from y up to the root, which is left out, so that related classes share what they learn. The
    cost of an answer is the number of edges from the right leaf up to the lowest common ancestor.

    Parameters
    ----------
    parents : array of shape (n_nodes,)
        Parent of each node, -1 for the root.
    leaves : sequence of int
        Nodes that are classes.

    Examples
    --------
    >>> from multikernel.solvers.structured import Hierarchy
    >>> tree = Hierarchy([-1, 0, 0, 1, 1, 2], leaves=[3, 4, 5])  # root 0; 3 and 4 are siblings under 1
    >>> tree.cost_matrix
    array([[0., 1., 2.],
           [1., 0., 2.],
           [2., 2., 0.]])
    """

    def __init__(self, parents: ArrayLike, leaves: Sequence[int]):
        parents = np.asarray(parents, dtype=np.intp)
        self.leaves = list(leaves)
        nodes = [node for node in range(len(parents)) if parents[node] >= 0]
        self.dimension = len(nodes)
        place = {node: k for k, node in enumerate(nodes)}
        self._embedding = np.zeros((len(self.leaves), self.dimension))
        paths = []
        for row, leaf in enumerate(self.leaves):
            path, node = [], int(leaf)
            while parents[node] >= 0:
                path.append(node)
                self._embedding[row, place[node]] = 1.0
                node = int(parents[node])
            paths.append(path)
        self.cost_matrix = np.array([[float(sum(n not in b for n in a)) for b in paths] for a in paths])

    def embed(self, answer: int) -> Vector:
        """The nodes above class number ``answer``, itself included."""
        return self._embedding[answer]

    def rival(self, scores: Vector, truth: int) -> tuple[int, float]:
        """The class that breaks the margin most."""
        answer = int((self.cost_matrix[truth] + self._embedding @ scores).argmax())
        return answer, float(self.cost_matrix[truth, answer])

    def decode(self, scores: Vector) -> int:
        """The class with the highest score."""
        return int((self._embedding @ scores).argmax())


@dataclass
class StructuredResult:
    """A solution: new samples have the scores ``Σ_j weights_j K_j(new, training) alpha``, to be decoded.

    Parameters
    ----------
    weights : ndarray of shape (F,)
        Kernel weights.
    alpha : ndarray of shape (n, dimension)
        Coefficients.
    certificate : Certificate
        Bounds on the optimum.
    history : list of dict
        epoch, objective, gap, updates.
    """

    weights: Vector
    alpha: NDArray[np.float64]
    certificate: Certificate
    history: list[dict[str, Any]]


class StructuredState:
    """θ = scale · T as in the compiled score table, with one oracle call a step instead of a loop over classes."""

    def __init__(self, stack: GramStack, answers: Sequence[Any], space: OutputSpace, lam: float, p: float):
        if not 1.0 < p <= 2.0:
            raise ValueError(f"p={p!r} must be above 1 and at most 2: it is the group norm on w.")
        if not 0.0 < lam < np.inf:
            raise ValueError(f"lam={lam!r} must be positive and finite: it is the factor of the squared norm.")
        n, _, n_kernels = stack.shape
        if len(answers) != n:
            raise ValueError(f"there are {len(answers)} answers for {n} samples: give one for each row of kernels.")
        self.stack, self.answers, self.space, self.lam, self.p = stack, list(answers), space, lam, p
        self.q = p / (p - 1.0)
        self.truth = np.stack([np.asarray(space.embed(y), dtype=np.float64) for y in answers])
        self.table = np.zeros((n_kernels, n, space.dimension))
        self.coef = np.zeros((n, space.dimension))
        self.mass, self.gain = np.zeros(n), np.zeros(n)  # Σ of a sample's steps, and of steps times costs
        self.weights = np.ones(n_kernels)
        self.diagonal = stack.diagonal()
        self.scale, self.norm, self.updates = 1.0, 0.0, 0

    def worst(self, i: int) -> tuple[Vector, float, float]:
        """``ψ(truth) - ψ(rival)`` of sample i, the rival's cost, and the loss."""
        scores = (self.scale / self.q) * (self.weights @ self.table[:, i])
        rival, cost = self.space.rival(scores, self.answers[i])
        difference = self.truth[i] - self.space.embed(rival)
        return difference, cost, cost - float(difference @ scores)

    def add(self, i: int, step: float, difference: Vector, cost: float) -> None:
        """``T += step (φ(x_i, truth) - φ(x_i, rival))``."""
        row = self.stack.rows([i])[:, 0].astype(np.float64)
        moved = np.flatnonzero(difference)
        self.table[:, :, moved] += row[:, :, None] * (step * difference[moved])
        self.coef[i] += step * difference
        self.mass[i] += step
        self.gain[i] += step * cost
        self.updates += 1
        self.settle()

    def settle(self) -> None:
        """Norms and weights of T."""
        norms = np.sqrt(np.maximum(np.einsum("fid,id->f", self.table, self.coef), 0.0))
        self.norm = lp_norm(norms, self.q)
        self.weights = (norms / self.norm) ** (self.q - 2.0) if self.norm > 0.0 else np.ones(len(norms))

    def online(self, order: NDArray, eta: float) -> None:
        """Stage 1 [OJC10, alg. 1]."""
        for i in order:
            difference, cost, loss = self.worst(i)
            if loss > 0.0:
                self.add(i, eta, difference, cost)

    def proximal(self, order: NDArray, radius: float, clock: list[float]) -> None:
        """Stage 2 [OJC10, alg. 2]; ``clock`` holds t and s."""
        for i in order:
            difference, cost, loss = self.worst(i)
            length = self.lam / self.q * self.scale * self.norm
            if loss > 0.0:
                length += float(np.linalg.norm(difference)) * lp_norm(np.sqrt(self.diagonal[:, i]), self.q)
            clock[0] += 1.0
            distance = self.lam * clock[0] + clock[1]
            clock[1] += 0.5 * (np.sqrt(distance**2 + self.q * (length / radius) ** 2) - distance)
            step = self.q / (self.lam * clock[0] + clock[1])
            self.scale *= max(1.0 - self.lam * step / self.q, 1e-16)  # rounding must not make it zero
            if loss > 0.0:
                self.add(i, step / self.scale, difference, cost)
            if self.scale * self.norm > self.q * radius:
                self.scale = self.q * radius / self.norm

    def certificate(self) -> Certificate:
        """f(w), and the bound that the steps prove when each sample's are scaled down to a mass of at most 1/n."""
        n = len(self.answers)
        losses = [max(self.worst(i)[2], 0.0) for i in range(n)]
        primal = 0.5 * self.lam * (self.scale * self.norm / self.q) ** 2 + float(np.mean(losses))
        unit = self.lam * self.scale / self.q
        shrink = unit * np.minimum(1.0, 1.0 / (n * np.maximum(unit * self.mass, np.finfo(float).tiny)))
        forms = self.stack.quadratic_forms(shrink[:, None] * self.coef).sum(axis=1)
        size = lp_norm(np.sqrt(np.maximum(forms, 0.0)), self.q) ** 2
        linear = float(shrink @ self.gain)
        t = 1.0 if size == 0.0 else float(np.clip(self.lam * linear / size, 0.0, 1.0))
        return Certificate(primal, t * linear - t**2 * size / (2.0 * self.lam))


def structured_obscure(
    stack: GramStack,
    answers: Sequence[Any],
    space: OutputSpace,
    *,
    lam: float,
    p: float = 1.25,
    eta: float = 2.0,
    tol: float = 1e-2,
    max_iter: int = 100,
    random_state: Any = None,
) -> StructuredResult:
    """Both stages of OBSCURE on ``lam/2 ‖w‖²_{2,p} + (1/n) Σ_i max_y (cost(y_i, y) + w·φ(x_i, y) - w·φ(x_i, y_i))``.

    Parameters
    ----------
    stack : GramStack
        Training kernels, square.
    answers : sequence of n answers
        What is right for each sample, as the output space understands it.
    space : OutputSpace
        Answers, their costs, and the search for the worst rival.
    lam : float
        Factor of the squared norm.
    p : float
        Group norm, 1 < p <= 2.
    eta : float
        Step of stage 1.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of epochs of stage 2.
    random_state : int, Generator or RandomState, optional
        Order of the samples.
    """
    rng = generator(random_state)
    state = StructuredState(stack, answers, space, lam, p)
    n = len(state.answers)
    for _ in range(20):
        before = state.updates
        state.online(rng.permutation(n), eta)
        if state.updates == before:
            break
    proof = state.certificate()
    radius, clock, bound = float(np.sqrt(2.0 * proof.primal / lam)), [0.0, 0.0], proof.dual
    best = proof.primal, state.weights, state.scale / state.q * state.coef
    history: list[dict[str, Any]] = []
    for epoch in range(1, max_iter + 1):
        state.proximal(rng.permutation(n), radius, clock)
        proof = state.certificate()
        bound = max(bound, proof.dual)
        radius = min(radius, float(np.sqrt(2.0 * proof.primal / lam)))
        if proof.primal < best[0]:
            best = proof.primal, state.weights, state.scale / state.q * state.coef
        gap = max(best[0] - bound, 0.0)
        history.append({"epoch": epoch, "objective": proof.primal, "gap": gap, "updates": state.updates})
        if gap <= tol * best[0]:
            break
    return StructuredResult(best[1], best[2], Certificate(best[0], bound), history)
