"""Gene sets as views: what a pathway looks like in the columns of a table."""

import gzip
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from multikernel.kernels.quantities import is_frame
from multikernel.runtime.warnings import warn_user


def read_gmt(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Gene sets of a GMT file, as of MSigDB or Enrichr: name to genes, each once.

    Parameters
    ----------
    path : path
        Lines of a name, a description and genes, separated by tabs; compressed if it ends in ``.gz``.

    Examples
    --------
    >>> from multikernel.kernels import read_gmt
    >>> sets = read_gmt("h.all.v2024.1.Hs.symbols.gmt")  # doctest: +SKIP
    """
    opener: Any = gzip.open if Path(path).suffix == ".gz" else open
    sets: dict[str, list[str]] = {}
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            name, *rest = line.rstrip("\r\n").split("\t")
            genes = list(dict.fromkeys(gene.strip() for gene in rest[1:] if gene.strip()))
            if not name or not genes:
                raise ValueError(
                    f"{path}, line {number}: a gene set is a name, a description and genes, separated by tabs; "
                    f"this line begins with {line[:40].rstrip()!r}."
                )
            if name in sets:
                raise ValueError(f"{path}, line {number}: there is a gene set {name!r} above: rename one.")
            sets[name] = genes
    return sets


def sets_in_columns(sets: Mapping[str, Iterable[str]], columns: Any, min_size: int) -> dict[str, list[int]]:
    """Positions of each set's genes among the columns, in each view that has them.

    Genes without a column are left out, and then sets of fewer than ``min_size``; a remark counts both.
    """
    if not isinstance(sets, Mapping):
        raise TypeError(f"views is a {type(sets).__name__}: with columns=, pass a dict of sets, name to genes.")
    names = columns.columns if is_frame(columns) else getattr(columns, "var_names", columns)
    views: dict[str, dict[str, int]] = {"": {}}
    for position, name in enumerate(map(str, names)):
        views[""][name] = position
        view, colon, gene = name.partition(":")
        if colon:
            views.setdefault(view, {})[gene] = position
    wanted = dict.fromkeys(gene for genes in sets.values() for gene in genes)
    used = {view: places for view, places in views.items() if not places.keys().isdisjoint(wanted)}
    kept: dict[str, list[int]] = {}
    used_sets = set()
    for name, genes in sets.items():
        for view, places in used.items():
            own = [places[gene] for gene in genes if gene in places]
            if len(own) >= max(min_size, 1):
                kept[f"{name} in {view}" if view and len(used) > 1 else name] = own
                used_sets.add(name)
    absent = wanted.keys() - {gene for places in used.values() for gene in places}
    if not kept:
        raise ValueError(
            f"no set has {max(min_size, 1)} of its genes among the columns. Genes are called "
            f"{next(iter(wanted), None)!r}, columns {next(iter(names), None)!r}: use the same kind of name."
        )
    if absent or len(used_sets) < len(sets):
        warn_user(
            f"left out of the gene sets: {len(absent)} of {len(wanted)} genes, which have no column; "
            f"{len(sets) - len(used_sets)} of {len(sets)} sets, with fewer than {max(min_size, 1)} genes.",
            UserWarning,
        )
    return kept
