"""Learning from a stream: OBSCURE's online stage on samples as they come, with bounded memory [OJC10, alg. 1]."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.gram import GramStack, KernelRows
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.solvers.obscure.obscure import ScoreTable

EVICTION = ("oldest", "smallest")
# What a model of a stream keeps: coefficients (s, M) and scores (F, M, s) of its support vectors, when they came,
# and how many samples were seen, changed the model, and were classified wrongly.
Stream = dict[str, Any]


@dataclass
class Advance:
    """What new samples have changed."""

    stream: Stream
    kept: NDArray[np.intp]  # the support vectors: positions in the old ones followed by the new samples
    alpha: NDArray[np.float64]  # their coefficients
    weights: NDArray[np.float64]
    updates: int  # new samples that changed the model
    mistakes: int  # new samples that it got wrong


def new_stream(n_kernels: int, n_classes: int) -> Stream:
    """The state before the first sample."""
    table, arrival = np.zeros((n_kernels, n_classes, 0)), np.zeros(0, np.int64)
    counts = {"seen": 0, "updates": 0, "mistakes": 0}
    return {"coef": np.zeros((0, n_classes)), "table": table, "arrival": arrival, **counts}


def stream_of(stack: GramStack, coef: NDArray, seen: int) -> Stream:
    """The state that has these coefficients (s, M), given the kernels of their samples."""
    table, arrival = np.moveaxis(stack.apply(coef), 2, 1), np.arange(len(coef))
    return {"coef": coef, "table": table, "arrival": arrival, "seen": seen, "updates": 0, "mistakes": 0}


def learn_online(
    stack: GramStack,
    stream: Stream,
    codes: NDArray,
    weight: NDArray,
    *,
    p: float,
    eta: float,
    cost: Any = None,
    budget: int | None = None,
    eviction: str = "oldest",
    memory: int,
) -> Advance:
    """Go over new samples once, in their order.

    ``stack`` has the square kernels of the support vectors so far, followed by those samples; ``codes`` and
    ``weight`` (m,) are their classes and the factors of their steps. Beyond a ``budget`` of support vectors the
    oldest one goes, or the one with the smallest coefficients.
    """
    old, m, n_classes = len(stream["coef"]), len(codes), stream["coef"].shape[1]
    loss = MulticlassHinge(np.concatenate([np.zeros(old, dtype=np.int64), codes]), n_classes, cost=cost)
    problem = ObscureProblem(stack, loss, 1.0, p)
    state = ScoreTable(problem, KernelRows(stack, memory))
    state.importance = np.concatenate([np.ones(old), weight])
    new = np.arange(old, old + m)
    state.coef[:old], state.table[:, :, :old] = stream["coef"], stream["table"]
    if old:
        scores = stack.take(rows=new, columns=np.arange(old)).apply(stream["coef"])
        state.table[:, :, new] = np.moveaxis(scores, 2, 1)
    state.settle()
    arrival = np.concatenate([stream["arrival"], stream["seen"] + np.arange(m)])
    if budget is None:
        state.online(new, eta)
    else:
        for i in new:
            state.online(np.array([i]), eta)
            _keep_budget(state, arrival, budget, eviction)
    state.settle()
    kept = np.flatnonzero(state.coef.any(axis=1))
    after = {
        "coef": state.coef[kept],
        "table": np.ascontiguousarray(state.table[:, :, kept]),
        "arrival": arrival[kept],
        "seen": int(stream["seen"] + m),
        "updates": stream["updates"] + state.updates,
        "mistakes": stream["mistakes"] + state.mistakes,
    }
    alpha, weights = after["coef"] / problem.q, np.array(state.weights)
    return Advance(after, kept, alpha, weights, state.updates, state.mistakes)


def _keep_budget(state: ScoreTable, arrival: NDArray, budget: int, eviction: str) -> None:
    support = np.flatnonzero(state.coef.any(axis=1))
    while len(support) > budget:
        victim = int(arrival[support].argmin()) if eviction == "oldest" else _least_missed(state, support)
        state.remove(int(support[victim]))
        support = np.delete(support, victim)


def _least_missed(state: ScoreTable, support: NDArray) -> int:
    """Which of the support vectors has the smallest coefficients; of several, the one that the others need least.

    Samples that were met once all have the coefficients ±eta, unless their weights differ. Of those that tie the one
    goes that the rest of the model classifies with the widest margin [CKS03].
    """
    sizes = (state.coef[support] ** 2).sum(axis=1)
    tied = np.flatnonzero(sizes <= sizes.min() * (1.0 + 1e-9))
    samples = support[tied]
    coef = state.coef[samples]
    scores = np.tensordot(state.weights, state.table[:, :, samples], axes=1).T
    scores -= coef * (state.weights @ state.diagonal[:, samples])[:, None]
    own = np.arange(len(tied)), coef.argmax(axis=1)  # only the label's coefficient is positive
    margins = scores[own]
    scores[own] = -np.inf
    margins = margins - scores.max(axis=1)
    return int(tied[margins.argmax()])
