"""Scores and kernels used against t, for experiments with an entry for each t, called ``key-t``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel_experiments.protocol import Entry, along
from multikernel_experiments.results import Results

NEGLIGIBLE = 1e-8  # of the largest weight


def entries_along_t(
    key: str, title: str, ts: Sequence[int], params: Mapping[str, Any], **options: Any
) -> list[Entry]:
    """An entry for each t, called ``key-t``."""
    return along(Entry(key, "cskl", title, params, **options), ts, "t", "-")


def scores_along_t(results: Results, key: str, ts: Sequence[int], settings: Sequence[str]) -> NDArray[np.float64]:
    """Scores, shape (len(ts), problems): only splits of settings where every t was done."""
    columns = []
    for setting in settings:
        for split in range(results.protocol.n_splits):
            column = [_score(results, setting, split, f"{key}-{t}") for t in ts]
            if not any(math.isnan(score) for score in column):
                columns.append(column)
    return np.array(columns, dtype=np.float64).reshape(-1, len(ts)).T


def _score(results: Results, setting: str, split: int, key: str) -> float:
    record = results.cells.get((setting, split, key))
    return record["scores"][0] if record and record["scores"] else math.nan


def paired_scores(
    results: Results, key: str, other: str, settings: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of two entries on the splits that have both."""
    pairs = [
        (_score(results, setting, split, key), _score(results, setting, split, other))
        for setting in settings
        for split in range(results.protocol.n_splits)
    ]
    found = np.array([pair for pair in pairs if not math.isnan(sum(pair))], dtype=np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def used(record: Mapping[str, Any], families: int = 0) -> int:
    """Kernels with a weight in a cell; with ``families`` of equal size, how many of these have one."""
    weights = np.array(record["weights"][0])
    chosen = weights > NEGLIGIBLE * weights.max()
    return int(chosen.reshape(families, -1).any(axis=1).sum()) if families else int(chosen.sum())


def used_along_t(
    results: Results, key: str, ts: Sequence[int], settings: Sequence[str], families: int = 0
) -> list[float]:
    """Mean of :func:`used` over all splits of the settings, for each t; nan where nothing was done."""
    means = []
    for t in ts:
        counts = [used(record, families) for s in settings for record in results.records(s, f"{key}-{t}")]
        means.append(float(np.mean(counts)) if counts else math.nan)
    return means
