"""Spam: how the cost of SVRG grows with the number of kernels and with the number of samples."""

from __future__ import annotations

import numpy as np

from multikernel.kernels import RBF
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.scaling import cost_panels, linear_in_samples, promised_error, promised_steps
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.protocol import OWN, PRINTED, Entry, Protocol, Task
from multikernel_experiments.sets import UCI

NORMS = (1.25, 2.0)
KERNELS, SAMPLES = (8, 16, 32, 64, 128, 256), (250, 500, 1000, 2000)
FEW_SAMPLES, FEW_KERNELS = 400, 16
# the same sum of the kernels' sizes whatever their number; or the same size of each, which sets the printed steps
SUM = {f"{F} kernels, unit sum": F for F in KERNELS}
EACH = {f"{F} kernels": F for F in KERNELS[:3]}
BY_KERNELS = {"kernels that sum to one": SUM, "kernels of the same size": EACH}
BY_SAMPLES = {f"{n} samples": n for n in SAMPLES}
LEVEL = "Passes to a gap of 1e-4 against the number of samples: level if the cost in samples is linear."
GAP = 1e-4
ERROR = 1e-3  # ε of the theorem
PROBLEM = {"C": 1.0, "random_state": 0, "tol": GAP, "max_iter": 1000}
SOLVERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("printed", "SVRG as printed", {"tol": ERROR}),
    ("svrg", "SVRG", {}),
    ("newton", "optimum (newton)", {"tol": 1e-7}),
)


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
    rng = np.random.default_rng(0)
    columns = [sorted(rng.choice(n_columns, size=3, replace=False).tolist()) for _ in range(n_kernels)]
    return [RBF(columns=chosen, name=f"kernel {k}") for k, chosen in enumerate(columns)]


def shrunk(stack, n_kernels: int):
    """The stack with every kernel divided by the number of kernels."""
    factor = np.full((n_kernels, len(stack)), n_kernels**-0.5)
    columns = np.full((n_kernels, stack.shape[1]), n_kernels**-0.5)
    return stack.scaled(factor, columns)


BY = 'SVRGMKLClassifier(solver="printed", tol=1e-3), p = 1.25 and 2'
CLAIMS = (
    Claim(
        "The error after log(1/ε) epochs is at most ε of the first",
        "AOJS16, Theorem 1, eq. (7)",
        promised_error,
        by=BY,
        about=PRINTED,
        groups=(SUM, EACH, BY_SAMPLES),
        norms=NORMS,
        error=ERROR,
    ),
    Claim(
        "Steps of single kernels in an epoch grow like F^(1/q)",
        "AOJS16, Theorem 1, eq. (8)",
        promised_steps,
        by=BY,
        about=PRINTED,
        groups=(EACH,),  # kernels that shrink with F have an L_k that does, and fewer steps for that
        norms=NORMS,
    ),
    Claim(
        "The cost of our SVRG is linear in the number of samples",
        HERE,
        linear_in_samples,
        by='SVRGMKLClassifier(solver="svrg")',
        about=OWN,
        sizes=BY_SAMPLES,
        gap=GAP,
    ),
)

PROTOCOL = Protocol(
    name="svrg-scaling",
    title="Cost of variance reduction against kernels and samples",
    about="Spam, RBF kernels on three columns drawn at random, unit variance, C = 1, logistic loss: 8 to 256 "
    "kernels on 400 samples, each divided by their number, so that the Lipschitz constant of their sum stays; "
    "8 to 32 as they are, so that each kernel's, on which the printed steps depend, does; 250 to 2,000 "
    "samples with 16 kernels. The algorithm as printed makes log(1/ε) epochs for ε = 1e-3, whose steps of "
    "single kernels are counted, as in its theorem; our SVRG makes steps of all at once, and is counted in "
    "passes until the gap is 1e-4.",
    source="[AOJS16, theorem 1]",
    files=(UCI,),
    entries=tuple(
        Entry(f"{solver}-{p:g}", "svrg", f"{title}, p = {p:g}", {**PROBLEM, "solver": solver, "p": p, **more})
        for solver, title, more in SOLVERS
        for p in NORMS
    ),
    task=task,
    settings=(*SUM, *EACH, *BY_SAMPLES),
    quick_settings=(*list(SUM)[:2], *list(EACH)[:2], *list(BY_SAMPLES)[:2]),
    setting_title="size",
    n_splits=1,
    figures=(
        Picture(
            "cost_by_kernels",
            cost_panels,
            of="AOJS16, Theorem 1, eq. (8)",
            differs="The paper has no figures.",
            groups=BY_KERNELS,
            name="kernels F",
            gap=GAP,
            theory=True,
        ),
        Picture("cost_by_samples", cost_panels, LEVEL, groups={"16 kernels": BY_SAMPLES}, name="samples n", gap=GAP),
    ),
    claims=CLAIMS,
    minutes=2,
)
