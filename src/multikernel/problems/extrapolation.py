"""Fixed-point iterations that converge faster."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def extrapolated_move(memory: list[tuple[Vector, Vector]], importance: Vector | float = 1.0) -> Vector:
    """The move from the last position to the fixed point of a map, by Anderson's mixing of the last few [WN11].

    ``memory`` has positions, the last one last, and where the map would move each; ``importance`` says how much each
    coordinate counts in the mixed move, which is to be small.
    """
    positions, moves = (np.array(part) for part in zip(*memory))
    differences = np.diff(moves, axis=0).T
    weights = np.broadcast_to(importance, moves[-1].shape)
    mix = np.linalg.lstsq(weights[:, None] * differences, weights * moves[-1], rcond=1e-10)[0]
    return moves[-1] - (np.diff(positions, axis=0).T + differences) @ mix
