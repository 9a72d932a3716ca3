"""Oxford flowers, seven kernels: OBSCURE as printed, Pegasos and others against time."""

from __future__ import annotations

from functools import partial

from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.lines import against_time, line_table, near_the_end, race
from multikernel_experiments.findings.verdicts import HERE, Claim
from multikernel_experiments.protocol import OWN, PRINTED, Entry, Protocol, along
from multikernel_experiments.protocols.flower17 import FILE, task

CS = {"C = 10": {"C": 10.0}, "C = 1000": {"C": 1000.0}}
EPOCHS = (1, 3, 10, 30, 100, 300)
GROUP = ("printed", "online", "pegasos", "obscure", "sdca")  # lines that solve problem (9)
LINEAR = ("silp", "simplemkl")
PROBLEM = {"p": 1.05, "tol": 1e-3, "random_state": 0}
BY = 'ObscureClassifier(solver="obscure-printed"), p = 1.05'


def group(key: str, title: str, solver: str, budgets: tuple[int, ...] = EPOCHS) -> list[Entry]:
    """A line of longer and longer fits of OBSCURE's problem."""
    return along(Entry(key, "obscure", title, {**PROBLEM, "solver": solver}, at=CS), budgets)


def per_class(key: str, title: str, budgets: tuple[int, ...]) -> list[Entry]:
    """A line of MKL with p = 1 and weights for each class, as MKL was compared with then."""
    return along(Entry(key, "mkl", title, {"solver": key, "weights": "per-class", "p": 1.0}, at=CS), budgets)


PROTOCOL = Protocol(
    name="obscure-time",
    title="Flower17, OBSCURE against time",
    about="Seven kernels, p = 1.05, C = 10 and C = 1000 on three given splits: 1020 images to train on, 340 to "
    "test. Each "
    "point is a fit of its own with that many epochs or iterations. OBSCURE and Pegasos are as printed: samples "
    "drawn "
    "at random, the last iterate returned; dual coordinate ascent proves the optimum that they are held against.",
    source="[OJC10, Figure 1]",
    files=(FILE,),
    entries=(
        Entry("average", "average", "average", at=CS),
        Entry("lp-beta", "lp-beta", "LP-β", {"nu": 0.5}, {"cv": (3,)}, at=CS),
        *group("printed", "OBSCURE as printed", "obscure-printed"),
        *group("online", "its stage 1 alone", "online", EPOCHS[:4]),
        *group("pegasos", "p-norm Pegasos", "pegasos"),
        *group("obscure", "OBSCURE, our stage 2", "obscure"),
        *group("sdca", "dual coordinate ascent", "sdca", (1, 4, 16, 64)),
        *per_class("silp", "SILP", (1, 4, 16)),
        *per_class("simplemkl", "SimpleMKL", (1, 4, 16)),
    ),
    task=task,
    settings=tuple(CS),
    setting_title="C",
    figures=(
        Picture(
            "against_time",
            against_time,
            of="OJC10, Figure 1",
            differs="Descriptors and splits are not those of the paper, C is fixed at two values instead of chosen.",
            problems={"group norm": GROUP, "p = 1": LINEAR},
            beside=("average", "lp-beta"),
        ),
    ),
    claims=(
        Claim(
            "OBSCURE converges much faster than Pegasos",
            "OJC10, Figure 1",
            race,
            by=BY,
            about=PRINTED,
            key="printed",
            rival="pegasos",
            problem=GROUP,
        ),
        Claim(
            "The solution of the online stage is close to the optimal one, at a tenth of the time",
            "OJC10, Figure 1",
            near_the_end,
            by='ObscureClassifier(solver="online")',
            about=PRINTED,
            key="online",
            other="printed",
            faster=10.0,
        ),
        Claim(
            "Our second stage converges faster than the printed one",
            HERE,
            race,
            by='ObscureClassifier(solver="obscure")',
            about=OWN,
            key="obscure",
            rival="printed",
            problem=GROUP,
        ),
    ),
    tables=partial(line_table, keys=(*GROUP, *LINEAR)),
    minutes=5,
)
