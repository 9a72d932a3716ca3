"""Two Gaussians and 18 kernels, two of them noise: does a t between 1 and 18 win?"""

from __future__ import annotations

import numpy as np

from multikernel.compare.tuning import inner_folds
from multikernel.kernels import RBF, Polynomial
from multikernel_experiments import archives as a
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.kernel_counts import best_inside, kernels_against_t, score_against_t
from multikernel_experiments.findings.scores import ahead_of_several
from multikernel_experiments.findings.sparsity import entries_along_t
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.protocol import OWN, PRINTED, PROBLEM, Entry, Protocol, Task

TS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18)
# two widths of the Gaussian kernels, in deviations of a class: the paper leaves them blank
WIDTHS = {"narrow": (0.1, 0.5), "middle": (0.5, 2.0), "wide": (2.0, 8.0)}
PANELS = {name: f"Gaussian widths {low:g} and {high:g}" for name, (low, high) in WIDTHS.items()}
DEGREES = (1, 3)
LINES = {"cskl": "CSKL", "nu": "ν-CSKL", "printed": "ν-CSKL as printed", "exact": "exactly t kernels"}
LEVELS = {"simple": "SimpleMKL", "l2": "ℓ2 MKL", "validated": "CSKL, t by validation"}
N_POINTS, N_FRESH = 500, 2000


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    """500 points, half of them to learn from; scored on the others and on 2000 fresh ones."""
    rng = np.random.default_rng(split)
    n = N_POINTS + N_FRESH
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 3)) + 3.0 * y[:, None]
    X = np.hstack([X, rng.standard_normal((n, 2))])  # what the noise kernels see
    train = np.arange(N_POINTS // 2)
    test = np.arange(len(train), n)
    stacks = a.from_features(X, kernels_of(WIDTHS[setting]), train, test, standardize=False)
    training, testing = a.normalized(stacks, "cosine")
    return Task(training, testing, y[train], y[test], inner_folds(y[train], 3, split))


def kernels_of(widths: tuple[float, float]) -> list:
    """Two Gaussian and two polynomial kernels on each dimension and on all three; two Gaussian ones on noise."""
    kernels: list = []
    for name, columns in (("1", [0]), ("2", [1]), ("3", [2]), ("all", [0, 1, 2])):
        kernels += [RBF(gamma=0.5 / w**2, columns=columns, name=f"Gaussian {w:g}, {name}") for w in widths]
        kernels += [
            Polynomial(degree=d, gamma=1.0, coef0=1.0, columns=columns, name=f"degree {d}, {name}") for d in DEGREES
        ]
    noise = [RBF(gamma=0.5 / w**2, columns=[3 + k], name=f"noise {k + 1}") for k, w in enumerate(widths)]
    return [*kernels, *noise]


INSIDE = "a t between 1 and 18 is better than both ends"
JUDGED = {
    "nu": ("CSKLClassifier(nu=0.1), certified", PROBLEM),
    "printed": ('CSKLClassifier(nu=0.1, solver="printed")', PRINTED),
    "cskl": ("CSKLClassifier(C=1), certified", PROBLEM),
}
CLAIMS = (
    *(
        Claim(f"{LINES[key]}: {INSIDE}", "GMSB11, Figure 1", best_inside, by=by, about=about, key=key, ts=TS)
        for key, (by, about) in JUDGED.items()
    ),
    Claim(
        f"exactly t kernels: {INSIDE}",
        HERE,
        best_inside,
        by="CSKLClassifier(exact=True)",
        about=OWN,
        key="exact",
        ts=TS,
    ),
    Claim(
        "CSKL with t chosen by validation is better than sparse and non-sparse MKL",
        "GMSB11, sect. 5.2",
        ahead_of_several,
        by="CSKLClassifier, certified, t by three folds",
        key="validated",
        others={"simple": "SimpleMKL", "l2": "ℓ2 MKL"},
    ),
)

DIFFERS = "Widths, degrees and noise kernels are left blank in the paper: ours; 2000 fresh test points; ten seeds."
PROTOCOL = Protocol(
    name="cskl-toy",
    title="CSKL on two Gaussians, 18 kernels",
    about="500 points in three dimensions from Gaussians with unit covariance and means (0, 0, 0) and (3, 3, 3). Two "
    "Gaussian and two polynomial kernels (degrees 1 and 3) on each dimension and on all three, and two Gaussian "
    "kernels on dimensions that are noise; unit diagonals. The paper leaves widths and noise kernels open: three "
    "pairs of widths are tried. Half of the points train; accuracy is that on the other half and on 2000 fresh "
    "points, over ten seeds. C = 1, ν = 0.1. Exactly t kernels at the middle widths only.",
    source="[GMSB11, sect. 5.1.1 and Figure 1]",
    files=(),
    entries=(
        Entry("simple", "mkl", "SimpleMKL", {"p": 1.0}),
        Entry("l2", "mkl", "ℓ2 MKL", {"p": 2.0}),
        Entry("validated", "cskl", "CSKL, t by validation", {}, {"t": TS}),
        *entries_along_t("cskl", "CSKL", TS, {}),
        *entries_along_t("nu", "ν-CSKL", TS, {"nu": 0.1}),
        *entries_along_t("printed", "ν-CSKL as printed", TS, {"nu": 0.1, "solver": "printed"}),
        *entries_along_t("exact", "exactly", TS, {"exact": True, "max_time": 20.0}, leaves_out=("narrow", "wide")),
    ),
    task=task,
    settings=tuple(WIDTHS),
    quick_settings=("middle",),
    setting_title="widths",
    n_splits=10,
    quick_splits=2,
    figures=(
        Picture(
            "accuracy_against_t",
            score_against_t,
            of="GMSB11, Figure 1",
            differs=DIFFERS,
            lines=LINES,
            levels=LEVELS,
            ts=TS,
            panel_titles=PANELS,
        ),
        Picture("kernels_against_t", kernels_against_t, lines=LINES, ts=TS),
    ),
    claims=CLAIMS,
    minutes=3,
)
