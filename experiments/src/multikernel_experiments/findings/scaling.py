"""Passes until a gap is proved, against the number of kernels or of samples: figures and verdicts.

Of the paper's rule the steps of single kernels are counted, of others those of all kernels at once.
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
    """Passes until the relative gap is proved, by size, where it is."""
    unit = "block_passes" if entry.params["solver"] == "paper" else "passes"
    done = {s: n for s, n in sizes.items() if s in results.protocol.settings}
    found = {n: passes_to(results, entry.key, s, gap, unit) for s, n in done.items()}
    return {n: cost for n, cost in found.items() if math.isfinite(cost)}


def slopes(results: Results, groups: Sequence[Sizes], gap: float) -> list[dict[str, float]] | None:
    """Exponents of the cost by key of the entry, for each group of settings; None if one cannot be fitted."""
    found = []
    for sizes in groups:
        cost = {entry.key: costs(results, entry, sizes, gap) for entry in results.protocol.entries}
        found.append({key: exponent(list(each), list(each.values())) for key, each in cost.items()})
    return found if all(math.isfinite(slope) for each in found for slope in each.values()) else None


def cost_panels(
    results: Results, figure: Any, groups: Mapping[str, Sizes], name: str, gap: float, theory: bool = False
) -> None:
    """Passes to a gap of 1e-4, for the paper's rule of single kernels, against kernels; dashed: F^(1/q).

    A panel for each group of settings, with fitted exponents; dashed lines with ``theory`` only.
    """
    entries = results.protocol.entries
    groups = {title: g for title, g in groups.items() if any(costs(results, e, g, gap) for e in entries)}
    if not groups:
        return
    sides = panels(figure, len(groups), (max(5.0 * len(groups), 6.5), 4.5), sharey=True)
    for panel, (title, sizes) in zip(sides, groups.items()):
        for k, entry in enumerate(entries):
            found = costs(results, entry, sizes, gap)
            slope = exponent(list(found), list(found.values()))
            panel.plot(list(found), list(found.values()), label=f"{entry.title}: {slope:+.2f}", **style(k))
            if theory and entry.params["solver"] == "paper" and found:
                first = next(iter(found))
                line = [found[first] * (F / first) ** (1 - 1 / entry.params["p"]) for F in found]
                panel.plot(list(found), line, linestyle="--", color=style(k)["color"], linewidth=1)
        panel.set(title=title, xlabel=name)
        sizes_on_log_axes(panel, [n for s, n in sizes.items() if s in results.protocol.settings])
        panel.legend(frameon=False, fontsize=8, title="exponent")
        plain(panel)
    sides[0].set_ylabel(f"passes to a gap of 1e{math.log10(gap):.0f}")


def grows_like_the_theorem(
    results: Results, groups: Sequence[Sizes], gap: float, norms: Sequence[float]
) -> Finding | None:
    """Whether the cost of the paper's rule grows like F^(1/q) in the first group, for each norm p of the weights.

    The exponents in the second group, where kernels keep their size, and those of SVRG are said.
    """
    found = slopes(results, groups, gap)
    if found is None:
        return None
    unit, each, *_ = found
    keys = {p: (f"paper-{p:g}", f"svrg-{p:g}") for p in norms}
    text = "; ".join(
        f"p = {p:g}: 1/q = {1 - 1 / p:.2f}, paper {unit[paper]:+.2f} ({each[paper]:+.2f} "
        f"with kernels of the same size), SVRG {unit[svrg]:+.2f} ({each[svrg]:+.2f})"
        for p, (paper, svrg) in keys.items()
    )
    return graded(unit[paper] <= 1 - 1 / p + 0.1 for p, (paper, _) in keys.items()), f"exponents of F, {text}"


def linear_in_samples(results: Results, groups: Sequence[Sizes], gap: float) -> Finding | None:
    """Whether passes do not grow with the samples, the last group, so that samples visited grow in proportion."""
    found = slopes(results, groups, gap)
    if found is None:
        return None
    powers = {key: 1 + slope for key, slope in found[-1].items()}
    text = (
        f"samples visited: {listed(powers, '.2f', ': n^')}; on Gram matrices a sample costs a row, so that time has "
    )
    return graded(slope <= 0.2 for slope in found[-1].values()), text + "one power more"
