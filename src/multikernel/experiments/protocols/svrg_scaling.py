"""Spam: how the cost of SVRG grows with the number of kernels and with the number of samples."""

from __future__ import annotations

import math

import numpy as np

from multikernel.experiments import archives as a
from multikernel.experiments.curves import exponent
from multikernel.experiments.drawing import plain, style
from multikernel.experiments.passes import passes_to
from multikernel.experiments.protocol import FAILS, HOLDS, IN_PART, Entry, Protocol, Task, Verdict
from multikernel.experiments.results import Results
from multikernel.experiments.sets import UCI

NORMS = (1.25, 2.0)
KERNELS, SAMPLES = (8, 16, 32, 64, 128, 256), (250, 500, 1000, 2000)
FEW_SAMPLES, FEW_KERNELS = 400, 16
# the same sum of the kernels' sizes whatever their number, as the theorem has it; or the same size of each
SUM = {f"{F} kernels, unit sum": F for F in KERNELS}
EACH = {f"{F} kernels": F for F in KERNELS[:3]}
BY_SAMPLES = {f"{n} samples": n for n in SAMPLES}
GAP = 1e-4
PROBLEM = {"C": 1.0, "random_state": 0, "tol": GAP, "max_iter": 1000}
UNITS = {"svrg": "passes", "paper": "block_passes"}


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    archive = archives.load(UCI)
    X, y = archive["spam_X"], archive["spam_y"]
    n_train = min(BY_SAMPLES.get(setting, FEW_SAMPLES), len(y) // 2)
    train, test = a.shuffled(y, n_train, split, min(1000, len(y) - n_train))
    n_kernels = SUM.get(setting) or EACH.get(setting) or FEW_KERNELS
    training, testing = a.normalized(a.from_features(X, drawn(n_kernels, X.shape[1]), train, test), "variance")
    if setting not in EACH:
        training, testing = (shrunk(stack, n_kernels) for stack in (training, testing))
    return Task(training, testing, y[train], y[test], [])


def drawn(n_kernels: int, n_columns: int) -> list:
    """RBF kernels on three columns each, drawn at random; those of fewer are among those of more."""
    from multikernel.kernels import RBF

    rng = np.random.default_rng(0)
    columns = [sorted(rng.choice(n_columns, size=3, replace=False).tolist()) for _ in range(n_kernels)]
    return [RBF(columns=chosen, name=f"kernel {k}") for k, chosen in enumerate(columns)]


def shrunk(stack, n_kernels: int):
    """The stack with every kernel divided by the number of kernels."""
    factor = np.full((n_kernels, len(stack)), n_kernels**-0.5)
    columns = np.full((n_kernels, stack.shape[1]), n_kernels**-0.5)
    return stack.scaled(factor, columns)


def costs(results: Results, key: str, sizes: dict[str, int]) -> dict[int, float]:
    """Passes to a gap of 1e-4 by size: of all kernels at once, for the paper's rule of single kernels."""
    unit = UNITS[key.split("-")[0]]
    found = {n: passes_to(results, key, s, GAP, unit) for s, n in sizes.items() if s in results.protocol.settings}
    return {n: cost for n, cost in found.items() if math.isfinite(cost)}


def cost_by_kernels(results: Results, figure) -> None:
    """Passes to a gap of 1e-4, for the paper's rule of single kernels, against kernels; dashed: F^(1/q)."""
    _panels(results, figure, {"kernels that sum to one": SUM, "kernels of the same size": EACH}, "kernels F", True)


def cost_by_samples(results: Results, figure) -> None:
    """Passes to a gap of 1e-4 against the number of samples: level if the cost in samples is linear."""
    _panels(results, figure, {"16 kernels": BY_SAMPLES}, "samples n", False)


def _panels(results: Results, figure, groups: dict[str, dict[str, int]], name: str, theory: bool) -> None:
    keys = [entry.key for entry in results.protocol.entries]
    groups = {title: sizes for title, sizes in groups.items() if any(costs(results, key, sizes) for key in keys)}
    if not groups:
        return
    figure.set_size_inches(max(5.0 * len(groups), 6.5), 4.5)
    for panel, (title, sizes) in zip(np.atleast_1d(figure.subplots(1, len(groups), sharey=True)), groups.items()):
        for k, entry in enumerate(results.protocol.entries):
            found = costs(results, entry.key, sizes)
            slope = exponent(list(found), list(found.values()))
            panel.plot(list(found), list(found.values()), label=f"{entry.title}: {slope:+.2f}", **style(k))
            if theory and entry.key.startswith("paper") and found:
                first = next(iter(found))
                line = [found[first] * (F / first) ** (1 - 1 / entry.params["p"]) for F in found]
                panel.plot(list(found), line, linestyle="--", color=style(k)["color"], linewidth=1)
        panel.set(xscale="log", yscale="log", title=title, xlabel=name)
        ticks = [n for s, n in sizes.items() if s in results.protocol.settings]
        panel.set_xticks(ticks, [str(n) for n in ticks])
        panel.minorticks_off()
        panel.legend(frameon=False, fontsize=8, title="exponent")
        plain(panel)
    figure.axes[0].set_ylabel("passes to a gap of 1e-4")


def claims(results: Results) -> list[Verdict]:
    keys = [entry.key for entry in results.protocol.entries]
    found = {(key, k): costs(results, key, g) for key in keys for k, g in enumerate((SUM, EACH, BY_SAMPLES))}
    slopes = {place: exponent(list(cost), list(cost.values())) for place, cost in found.items()}
    if not all(math.isfinite(slope) for slope in slopes.values()):
        return []
    paper = [slopes[f"paper-{p:g}", 0] <= 1 - 1 / p + 0.1 for p in NORMS]
    text = "; ".join(
        f"p = {p:g}: 1/q = {1 - 1 / p:.2f}, paper {slopes[f'paper-{p:g}', 0]:+.2f} ({slopes[f'paper-{p:g}', 1]:+.2f} "
        f"with kernels of the same size), SVRG {slopes[f'svrg-{p:g}', 0]:+.2f} ({slopes[f'svrg-{p:g}', 1]:+.2f})"
        for p in NORMS
    )
    linear = [slopes[key, 2] <= 0.2 for key in keys]
    by_n = ", ".join(f"{key}: n^{1 + slopes[key, 2]:.2f}" for key in keys)
    return [
        Verdict(
            "Cost grows like F^(1/q) with the number of kernels F",
            "AOJS16, theorem 1",
            HOLDS if all(paper) else IN_PART if any(paper) else FAILS,
            f"exponents of F, {text}",
        ),
        Verdict(
            "Cost is linear in the number of samples",
            "AOJS16, theorem 1",
            HOLDS if all(linear) else IN_PART if any(linear) else FAILS,
            f"samples visited: {by_n}; on Gram matrices a sample costs a row, so that time has one power more",
        ),
    ]


PROTOCOL = Protocol(
    name="svrg-scaling",
    title="Cost of variance reduction against kernels and samples",
    about="Spam, RBF kernels on three columns drawn at random, unit variance, C = 1, logistic loss: passes until the "
    "duality gap is 1e-4. 8 to 256 kernels on 400 samples, each divided by their number, so that the Lipschitz "
    "constant stays as the theorem assumes; 8 to 32 as they are; 250 to 2,000 samples with 16 kernels. For the "
    "paper's rule the steps of single kernels are counted, as in its theorem; SVRG makes steps of all at once.",
    source="[AOJS16, theorem 1]",
    files=(UCI,),
    entries=tuple(
        Entry(f"{solver}-{p:g}", "svrg", f"{title}, p = {p:g}", {**PROBLEM, "solver": solver, "p": p})
        for solver, title in (("paper", "paper's rule"), ("svrg", "SVRG"))
        for p in NORMS
    ),
    task=task,
    settings=(*SUM, *EACH, *BY_SAMPLES),
    quick_settings=(*list(SUM)[:2], *list(EACH)[:2], *list(BY_SAMPLES)[:2]),
    setting_title="size",
    n_splits=1,
    figures=(cost_by_kernels, cost_by_samples),
    claims=claims,
    minutes=4,
)
