"""What SVRG costs against the number of kernels or of samples, and what the paper's theorem promises of it.

Of the printed algorithm the steps of single kernels in an epoch are counted, of ours passes until a gap is proved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from multikernel_experiments.findings.curves import exponent
from multikernel_experiments.findings.drawing import panels, plain, sizes_on_log_axes, style
from multikernel_experiments.findings.passes import passes_to
from multikernel_experiments.findings.verdicts import Finding, graded, listed
from multikernel_experiments.protocol import Entry
from multikernel_experiments.results import Results

Sizes = Mapping[str, int]  # sizes by setting


def costs(results: Results, entry: Entry, sizes: Sizes, gap: float) -> dict[int, float]:
    """By size: passes until a relative gap is proved, where it is; of the printed algorithm, steps in units of n."""
    done = {s: n for s, n in sizes.items() if s in results.protocol.settings}
    if entry.params["solver"] == "printed":
        found = {n: block_passes(results, entry.key, s) for s, n in done.items()}
    else:
        found = {n: passes_to(results, entry.key, s, gap) for s, n in done.items()}
    return {n: cost for n, cost in found.items() if math.isfinite(cost)}


def block_passes(results: Results, key: str, setting: str) -> float:
    """Steps of single kernels in an epoch of the printed algorithm, in units of n; nan if no epoch was ended."""
    record = results.cells.get((setting, 0, key))
    rows = [row for row in record["history"] if "block_passes" in row] if record else []
    return rows[-1]["block_passes"] / rows[-1]["epoch"] if rows else math.nan


def cost_panels(
    results: Results, figure: Any, groups: Mapping[str, Sizes], name: str, gap: float, theory: bool = False
) -> None:
    """Passes to a gap of 1e-4, and of the printed algorithm steps in an epoch, against kernels; dashed: F^(1/q).

    A panel for each group of settings, with fitted exponents; dashed lines with ``theory`` only.
    """
    entries = [entry for entry in results.protocol.entries if entry.params["solver"] != "newton"]
    groups = {title: g for title, g in groups.items() if any(costs(results, e, g, gap) for e in entries)}
    if not groups:
        return
    sides = panels(figure, len(groups), (max(5.0 * len(groups), 6.5), 4.5), sharey=True)
    for panel, (title, sizes) in zip(sides, groups.items()):
        for k, entry in enumerate(entries):
            found = costs(results, entry, sizes, gap)
            slope = exponent(list(found), list(found.values()))
            panel.plot(list(found), list(found.values()), label=f"{entry.title}: {slope:+.2f}", **style(k))
            if theory and entry.params["solver"] == "printed" and found:
                first = next(iter(found))
                line = [found[first] * (F / first) ** (1 - 1 / entry.params["p"]) for F in found]
                panel.plot(list(found), line, linestyle="--", color=style(k)["color"], linewidth=1)
        panel.set(title=title, xlabel=name)
        sizes_on_log_axes(panel, [n for s, n in sizes.items() if s in results.protocol.settings])
        panel.legend(frameon=False, fontsize=8, title="exponent")
        plain(panel)
    sides[0].set_ylabel("passes, or steps in an epoch / n")


def promised_error(results: Results, groups: Sequence[Sizes], norms: Sequence[float], error: float) -> Finding | None:
    """Whether the printed algorithm ends within ``error`` of the distance between w = 0 and the optimum, by norm.

    The paper starts at random; at w = 0 the logistic loss is log 2, and there the bound is no weaker. Judged is w as
    it is after the last epoch, not the alpha that is made of it; a run that overflowed has broken the promise.
    """
    parts, held = [], []
    for p in norms:
        left = []
        for setting in (s for sizes in groups for s in sizes if s in results.protocol.settings):
            ours, best = (results.cells.get((setting, 0, f"{name}-{p:g}")) for name in ("printed", "newton"))
            if not ours or not best or not ours.get("objectives") or not best.get("objectives"):
                return None
            last = [row["objective"] for row in ours["history"] if "block_passes" in row][-1:]
            optimum = best["objectives"][0]
            left.append(max(*last, optimum) - optimum if last else math.inf)
            left[-1] /= math.log(2.0) - optimum
        kept = [share <= error for share in left]
        held += kept
        parts.append(f"p = {p:g}: {sum(kept)} of {len(kept)} settings, from {min(left):.0e} to {max(left):.0e}")
    return (graded(held), f"error left, kept if at most {error:g}: {'; '.join(parts)}") if held else None


def promised_steps(results: Results, groups: Sequence[Sizes], norms: Sequence[float]) -> Finding | None:
    """Whether steps in an epoch of the printed algorithm grow like F^(1/q) at most; by norm and group of settings."""
    entries = {entry.key: entry for entry in results.protocol.entries}
    parts, held = [], []
    for p in norms:
        slopes = [exponent(*_axes(costs(results, entries[f"printed-{p:g}"], sizes, 0.0))) for sizes in groups]
        if not all(math.isfinite(slope) for slope in slopes):
            return None
        held += [slope <= 1 - 1 / p + 0.1 for slope in slopes]
        parts.append(f"p = {p:g}: 1/q = {1 - 1 / p:.2f}, found " + ", ".join(f"{slope:+.2f}" for slope in slopes))
    return graded(held), f"exponents of F: {'; '.join(parts)}"


def linear_in_samples(results: Results, sizes: Sizes, gap: float) -> Finding | None:
    """Whether passes of our SVRG do not grow with the samples, so that samples visited grow in proportion."""
    entries = [entry for entry in results.protocol.entries if entry.params["solver"] == "svrg"]
    slopes = {entry.key: exponent(*_axes(costs(results, entry, sizes, gap))) for entry in entries}
    if not all(math.isfinite(slope) for slope in slopes.values()):
        return None
    powers = listed({key: 1 + slope for key, slope in slopes.items()}, ".2f", ": n^")
    text = f"samples visited: {powers}; on Gram matrices a sample costs a row, so that time has one power more"
    return graded(slope <= 0.2 for slope in slopes.values()), text


def _axes(found: Mapping[int, float]) -> tuple[list[int], list[float]]:
    return list(found), list(found.values())
