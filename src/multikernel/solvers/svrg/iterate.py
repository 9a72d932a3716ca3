"""A solution at fixed kernel weights with all that is known about it, and the best one in a small space around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from multikernel.problems.svrg import Matrix, SmoothProblem

# Coefficients (n, T), and their scores under the kernel at the present weights.
Direction = tuple[Matrix, Matrix]
# Square of the residual, relative, that conjugate gradients leave: their direction is searched, not trusted.
CLOSE = 1e-3
# Pairs that L-BFGS remembers.
MEMORY = 5


class Iterate:
    """A solution at fixed kernel weights d: coefficients, scores, objective, gradient, dual point, gap there.

    Attributes
    ----------
    scores : ndarray of shape (n, T)
        K(d) alpha.
    value : float
        Objective.
    gradient, image : ndarrays of shape (n, T)
        Coefficients of the gradient, and K(d) times them.
    dual : ndarray of shape (n, T)
        The dual point: that of the scores, or ``lam alpha`` if it proves more.
    gap : float
        Objective minus the dual value with these weights.
    """

    def __init__(self, problem: SmoothProblem, weights: NDArray, alpha: Matrix):
        self.problem, self.weights = problem, weights
        self.move_to(alpha, problem.scores(weights, alpha) if alpha.any() else np.zeros_like(alpha))
        self.differentiate()

    def move_to(self, alpha: Matrix, scores: Matrix) -> None:
        """Take over coefficients with their scores; ``differentiate`` has the rest."""
        self.alpha, self.scores, self._moved = alpha, scores, True

    def value_at(self, alpha: Matrix, scores: Matrix) -> float:
        """Objective of coefficients with their scores."""
        return 0.5 * self.problem.lam * float(np.vdot(alpha, scores)) + self.problem.loss.value(scores)

    def differentiate(self) -> None:
        """Compute objective, gradient and gap, where the point has moved: one product with the kernel."""
        if not self._moved:
            return
        self._moved = False
        problem, lam = self.problem, self.problem.lam
        self.value = self.value_at(self.alpha, self.scores)
        self.dual = -problem.loss.gradient(self.scores)
        self.gradient = lam * self.alpha - self.dual
        self.image = problem.scores(self.weights, self.gradient)
        # K dual = lam K alpha - K gradient: no further product
        norm = float(np.vdot(self.dual, lam * self.scores - self.image))
        bound = problem.loss.dual_value(self.dual) - norm / (2.0 * lam)
        # the coefficients themselves are a dual point, too, where they are within their bounds
        other = problem.own_bound(self.alpha, self.scores)
        if other > bound:
            self.dual, bound = lam * self.alpha, other
        self.gap = self.value - bound

    def newton(self, max_products: int, precondition: Callable[[Matrix], Matrix] | None = None) -> Direction:
        """Newton's direction by conjugate gradients in the norm of w; each iteration is one product with the kernel.

        In coefficients the second derivative maps a to ``lam a + W K a``, W being that of the loss; ``precondition``
        is an approximate inverse that is symmetric in the same norm.
        """
        problem, lam = self.problem, self.problem.lam
        coef, scores = np.zeros_like(self.alpha), np.zeros_like(self.scores)
        rest = -self.gradient

        def conditioned() -> Direction:
            guess = rest if precondition is None else precondition(rest)
            return guess, problem.scores(self.weights, guess)

        along, along_scores = (rest, -self.image) if precondition is None else conditioned()
        square = first = float(np.vdot(rest, along_scores))
        for _ in range(max_products):
            if not square > CLOSE * first:
                break
            bent = lam * along + problem.loss.bend(self.scores, along_scores)
            step = square / float(np.vdot(along_scores, bent))
            coef, scores = coef + step * along, scores + step * along_scores
            rest = rest - step * bent
            guess, guess_scores = conditioned()
            before, square = square, float(np.vdot(rest, guess_scores))
            along, along_scores = guess + square / before * along, guess_scores + square / before * along_scores
        return coef, scores

    def search(self, directions: Sequence[Direction]) -> Direction:
        """Move to the best point in the space of ``directions``, by Newton's method; returns the move.

        Costs O(n T k²) for k directions, and no kernel.
        """
        keep = [d for d in directions if np.vdot(d[0], d[1]) > 0.0]
        if not keep:
            return np.zeros_like(self.alpha), np.zeros_like(self.scores)
        size = [1.0 / np.sqrt(np.vdot(*d)) for d in keep]
        coef = np.stack([s * a for s, (a, _) in zip(size, keep)])
        images = np.stack([s * f for s, (_, f) in zip(size, keep)])
        along = self._best_coordinates(coef, images)
        move = np.tensordot(along, coef, axes=1), np.tensordot(along, images, axes=1)
        self.move_to(self.alpha + move[0], self.scores + move[1])
        return move

    def _best_coordinates(self, coef: NDArray, images: NDArray) -> NDArray[np.float64]:
        """x of the best ``alpha + Σ_j x_j coef_j``, where ``images_j`` are scores of ``coef_j``."""
        lam, loss, k = self.problem.lam, self.problem.loss, len(coef)
        flat_images = images.reshape(k, -1)
        gram = coef.reshape(k, -1) @ flat_images.T
        gram = 0.5 * (gram + gram.T)
        square, cross = float(np.vdot(self.alpha, self.scores)), flat_images @ self.alpha.ravel()

        def value_at(x: NDArray) -> float:
            scores = self.scores + np.tensordot(x, images, axes=1)
            return 0.5 * lam * float(square + 2.0 * cross @ x + x @ gram @ x) + loss.value(scores)

        x, value = np.zeros(k), self.value
        for _ in range(20):
            scores = self.scores + np.tensordot(x, images, axes=1)
            slope = lam * (cross + gram @ x) + flat_images @ loss.gradient(scores).ravel()
            curvature = lam * gram + flat_images @ loss.bend(scores, images).reshape(k, -1).T
            # directions that nearly coincide: the ridge decides between them
            ridge = 1e-12 * np.trace(curvature) / k
            step = -np.linalg.lstsq(curvature + ridge * np.eye(k), slope, rcond=1e-14)[0]
            fall = float(slope @ step)
            if not fall < 0.0:
                break
            for t in 0.5 ** np.arange(30):
                new = value_at(x + t * step)
                if new <= value + 1e-4 * t * fall:
                    break
            else:
                break
            x, done = x + t * step, value - new <= 1e-3 * (self.value - new)
            value = new
            if done:
                break
        return x


class Pairs:
    """The last few moves at fixed weights and the turns of the gradient, and what L-BFGS makes of them [Noc80]."""

    def __init__(self) -> None:
        self.moves: list[tuple[Direction, Direction]] = []

    def add(self, move: Direction, point: Iterate) -> None:
        """Remember a move that has just been made, and what it does to the gradient of ``point``."""
        before = point.gradient, point.image
        point.differentiate()
        turn = point.gradient - before[0], point.image - before[1]
        if np.vdot(move[0], turn[1]) > 0.0:
            self.moves = [*self.moves, (move, turn)][-MEMORY:]

    def direction(self, point: Iterate) -> Direction:
        """Where L-BFGS goes with ``<a, b> = a'K b``: products with the kernel are those already made."""
        coef, scores = point.gradient.copy(), point.image.copy()
        shares = []
        for move, turn in reversed(self.moves):
            rho = 1.0 / np.vdot(move[0], turn[1])
            share = rho * np.vdot(move[0], scores)
            coef, scores = coef - share * turn[0], scores - share * turn[1]
            shares.append((rho, share))
        if self.moves:
            move, turn = self.moves[-1]
            factor = np.vdot(move[0], turn[1]) / np.vdot(*turn)
            coef, scores = factor * coef, factor * scores
        for (rho, share), (move, turn) in zip(reversed(shares), self.moves):
            back = share - rho * np.vdot(turn[0], scores)
            coef, scores = coef + back * move[0], scores + back * move[1]
        return -coef, -scores
