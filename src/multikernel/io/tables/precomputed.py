"""Find precomputed kernels among the arrays of an archive, whichever way round they are stored."""

import os

import numpy as np

from multikernel.io.files import DataError, near_matches
from multikernel.io.tables.formats import Table, read_table

# the array beside kernels between new and training samples that holds k(x, x) of the new ones
SELF_SIMILARITY = "self_similarity"


def find_kernels(
    table: Table, target: str, n_samples: int, wanted: bool | str | None, allow_nan: bool = False
) -> tuple[np.ndarray | None, list[str]]:
    """Kernels between all samples as (n, n, F), and their names; ``None`` if the archive holds features.

    A three-way array with two axes of length n, or two-way arrays that are all (n, n) and symmetric, are
    taken for kernels without being asked. NaN is an error, unless samples may lack kernels.
    """
    arrays = _numeric(table, target)
    if isinstance(wanted, str):
        if wanted not in arrays:
            raise DataError(f"{table.source} has no array {wanted!r}; {near_matches(wanted, list(arrays))}")
        arrays = {wanted: arrays[wanted]}
    square = (n_samples, n_samples)
    stacks = {k: b for k, b in arrays.items() if b.ndim == 3 and square in (b.shape[1:], b.shape[:2])}
    if len(stacks) > 1:
        choices = near_matches("", list(stacks))
        raise DataError(
            f"{table.source} has {len(stacks)} arrays of kernels: choose one with --precomputed NAME; {choices}"
        )
    if stacks:
        [(name, block)] = stacks.items()
        kernels = _samples_first(block, n_samples)
        return _checked(table.source, kernels, allow_nan), _names(table, name, kernels.shape[2])
    squares = {k: b for k, b in arrays.items() if b.shape == square}
    others = [k for k, b in arrays.items() if b.ndim >= 2 and len(b) == n_samples and k not in squares]
    if squares and (wanted or (not others and all(_symmetric(block) for block in squares.values()))):
        # kernels first in memory, samples first by strides: estimators then use the array without copying it
        kernels = np.moveaxis(np.stack([_floats(block) for block in squares.values()]), 0, -1)
        return _checked(table.source, kernels, allow_nan), list(squares)
    if wanted:
        shapes = ", ".join(f"{name} {block.shape}" for name, block in arrays.items())
        raise DataError(
            f"{table.source}: kernels of {n_samples} samples have shape (F, {n_samples}, {n_samples}) or "
            f"({n_samples}, {n_samples}, F), but no array does: {shapes}"
        )
    return None, []


def read_test_kernels(
    source: str | os.PathLike[str] | Table, n_kernels: int, n_train: int, allow_nan: bool = False
) -> np.ndarray:
    """Read kernels between m new and the training samples, as (m, n_train, n_kernels)."""
    table = source if isinstance(source, Table) else read_table(source)
    arrays = {name: block for name, block in _numeric(table, SELF_SIMILARITY).items() if block.ndim >= 2}
    for block in arrays.values():
        if block.ndim == 3 and block.shape[0] == n_kernels and block.shape[2] == n_train:
            return _checked(table.source, np.moveaxis(_floats(block), 0, -1), allow_nan)
        if block.ndim == 3 and block.shape[1:] == (n_train, n_kernels):
            return _checked(table.source, _floats(block), allow_nan)
    flat = [_floats(block) for block in arrays.values() if block.ndim == 2 and block.shape[1] == n_train]
    if len(flat) == n_kernels and len({len(block) for block in flat}) == 1:
        return _checked(table.source, np.moveaxis(np.stack(flat), 0, -1), allow_nan)
    shapes = ", ".join(f"{name} {block.shape}" for name, block in arrays.items()) or "no arrays"
    raise DataError(
        f"{table.source}: the model needs {n_kernels} kernels between m new and {n_train} training samples, "
        f"of shape ({n_kernels}, m, {n_train}) or (m, {n_train}, {n_kernels}); found {shapes}"
    )


def self_similarities(table: Table, n_kernels: int, n_new: int) -> np.ndarray | None:
    """k(x, x) of new samples, shape (F, m), from the array ``self_similarity`` if there is one."""
    block = table.blocks.get(SELF_SIMILARITY)
    if block is None:
        return None
    if block.dtype.kind not in "biuf" or block.shape not in ((n_kernels, n_new), (n_new, n_kernels)):
        raise DataError(
            f"{table.source}: {SELF_SIMILARITY!r} has shape {block.shape}, but k(x, x) of {n_new} samples for "
            f"{n_kernels} kernels has ({n_kernels}, {n_new})"
        )
    return np.asarray(block if block.shape == (n_kernels, n_new) else block.T, dtype=np.float64)


def _numeric(table: Table, target: str) -> dict[str, np.ndarray]:
    """Arrays of numbers besides the target."""
    return {k: b for k, b in table.blocks.items() if k != target and b.dtype.kind in "biuf"}


def _floats(block: np.ndarray) -> np.ndarray:
    """float32 stays, everything else becomes float64."""
    return np.asarray(block, np.float32 if block.dtype == np.float32 else np.float64)


def _samples_first(block: np.ndarray, n: int) -> np.ndarray:
    """(n, n, F) from either order; where F = n, symmetry tells which axis counts the kernels."""
    block = _floats(block)
    kernels_first = block.shape[1:] == (n, n)
    if kernels_first and block.shape[:2] == (n, n):
        kernels_first = bool(_symmetric(block[0]) and _symmetric(block[-1]))
    return np.moveaxis(np.ascontiguousarray(block), 0, -1) if kernels_first else block


def _symmetric(matrix: np.ndarray) -> bool:
    """Symmetric to rounding."""
    matrix = np.nan_to_num(matrix)
    scale = np.abs(matrix).max(initial=0)
    return bool(np.abs(matrix - matrix.T).max(initial=0) <= 1e-5 * scale)


def _checked(source: str, kernels: np.ndarray, allow_nan: bool) -> np.ndarray:
    """Refuse kernels with missing values, saying which."""
    for f in range(kernels.shape[2]):
        bad = np.isinf(kernels[:, :, f]) if allow_nan else ~np.isfinite(kernels[:, :, f])
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise DataError(
                f"{source}: kernel {f} has {bad.sum()} values that are missing or not finite, "
                f"first at ({row}, {column}); fill them in or leave the kernel out. Samples whose rows and columns "
                "are missing can be kept with --missing mask"
            )
    return kernels


def _names(table: Table, key: str, n_kernels: int) -> list[str]:
    """Names that the archive gives in a list of the right length, else ``K[0]``, ``K[1]``…"""
    for block in table.blocks.values():
        if block.dtype.kind in "OUS" and block.ndim == 1 and len(block) == n_kernels:
            names = [str(name).strip() for name in block]
            if len(set(names)) == n_kernels:
                return names
    return [f"{key}[{f}]" for f in range(n_kernels)]
