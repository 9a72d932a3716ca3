"""What is compared. Each method is a function of a problem that returns how to fit and how to predict.

This file is imported by the interpreters of all peers, so it imports what a method needs inside it. Making the input
that a library wants (a list of tensors, say) is off the clock; combining kernels is on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

METHODS: dict[str, Method] = {}


@dataclass(frozen=True)
class Method:
    """A method: the environment it runs in, what it optimises, and how to run it."""

    title: str
    environment: str
    package: str
    optimises: str
    prepare: Callable[[SimpleNamespace], tuple[Callable[[], Any], Callable[[Any, SimpleNamespace], np.ndarray]]]


def method(name: str, title: str, environment: str, package: str, optimises: str) -> Callable:
    def register(function: Callable) -> Callable:
        METHODS[name] = Method(title, environment, package, optimises, function)
        return function

    return register


@method("svc", "SVC on the average kernel", "here", "scikit-learn", "one-vs-one C-SVMs on the mean of the kernels")
def svc(problem):
    from sklearn.svm import SVC

    def fit():
        return SVC(kernel="precomputed", C=problem.C).fit(problem.K.mean(axis=0), problem.y)

    return fit, lambda model, new: model.predict(new.K.mean(axis=0))


@method(
    "svc-ovr", "SVC, one against the rest", "here", "scikit-learn", "one-vs-rest C-SVMs on the mean of the kernels"
)
def svc_one_vs_rest(problem):
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC

    def fit():
        model = OneVsRestClassifier(SVC(kernel="precomputed", C=problem.C))
        return model.fit(problem.K.mean(axis=0), problem.y)

    return fit, lambda model, new: model.predict(new.K.mean(axis=0))


def ours(make: Callable[[float], Any]) -> Callable:
    def prepare(problem):
        X = np.moveaxis(problem.K, 0, -1)  # a view: recognised, not copied
        return lambda: make(problem.C).fit(X, problem.y), lambda model, new: model.predict(np.moveaxis(new.K, 0, -1))

    return prepare


def _average(C):
    from multikernel import KernelAverageClassifier

    return KernelAverageClassifier("precomputed", C=C)


def _mkl(p: float) -> Callable[[float], Any]:
    def make(C):
        from multikernel import MKLClassifier

        return MKLClassifier("precomputed", p=p, C=C)

    return make


def _two_stage(name: str, **options: Any) -> Callable[[float], Any]:
    def make(C):
        import multikernel

        given = {} if name == "EasyMKLClassifier" else {"C": C}
        return getattr(multikernel, name)("precomputed", **given, **options)

    return make


def _sdca(C):
    from multikernel import ObscureClassifier

    return ObscureClassifier("precomputed", p=1.25, C=C, solver="sdca", tol=1e-3, random_state=0)


def _fisher(C):
    from multikernel import MKFDAClassifier

    return MKFDAClassifier("precomputed", p=2.0, reg=1e-4)


OURS = {
    "average": ("average kernel", "one-vs-rest C-SVMs on the mean of the kernels, gap 1e-3", _average),
    "mkl-1": ("MKL, p = 1", "one-vs-rest C-SVMs and shared weights in the l1 ball, gap 1e-3", _mkl(1.0)),
    "mkl-2": ("MKL, p = 2", "the same in the l2 ball", _mkl(2.0)),
    "easymkl": (
        "EasyMKL",
        "the weights of MKLpy's EasyMKL (lam = 0.1), then its KOMD on the weighted kernel, both to a gap of 1e-4",
        _two_stage("EasyMKLClassifier"),
    ),
    "alignf": (
        "ALIGNF",
        "weights >= 0 of the largest centred alignment, then one-vs-rest C-SVMs, gap 1e-3",
        _two_stage("AlignmentMKLClassifier"),
    ),
    "pwmk": (
        "PWMK",
        "weights from each kernel's 3-fold accuracy, then one-vs-rest C-SVMs, gap 1e-3",
        _two_stage("PWMKClassifier", cv=3),
    ),
    "sdca": ("OBSCURE's problem, sdca", "one multiclass SVM with a group norm, p = 1.25, gap 1e-3", _sdca),
    "mkfda": (
        "MK-FDA, p = 2",
        "regularised Fisher discriminant, λ = 1e-4, weights in the l2 ball, gap 1e-4",
        _fisher,
    ),
}
for _name, (_title, _optimises, _make) in OURS.items():
    method(_name, _title, "here", "multikernel", _optimises)(ours(_make))


def mklpy(make: Callable[[float], Any]) -> Callable:
    def prepare(problem):
        import torch

        kernels = [torch.from_numpy(K) for K in problem.K]
        labels = torch.from_numpy(problem.y.astype(np.int64))

        def predict(model, new):
            return np.asarray(model.predict([torch.from_numpy(K) for K in new.K]))

        return lambda: make(problem.C).fit(kernels, labels), predict

    return prepare


def _from_mklpy(name: str) -> Callable[[float], Any]:
    def make(C):
        from MKLpy import algorithms
        from sklearn.svm import SVC

        learner = SVC(kernel="precomputed", C=C)
        return getattr(algorithms, name)(learner=learner, multiclass_strategy="ova")

    return make


MKLPY = {
    "AverageMKL": "one-vs-rest C-SVMs on the mean of the kernels",
    "EasyMKL": "weights from one margin problem (lam = 0.1, its default), then a C-SVM; each class separately",
    "PWMK": "weights from each kernel's cross-validated accuracy, then a C-SVM; each class separately",
    "CKA": "weights from centred alignment with the labels, then a C-SVM; each class separately",
}
for _class, _optimises in MKLPY.items():
    _name = f"mklpy-{_class.removesuffix('MKL').lower()}"
    method(_name, _class, "mklpy", "MKLpy", _optimises)(mklpy(_from_mklpy(_class)))


def himalaya(solver: str, parameters: dict[str, Any]) -> Callable:
    def prepare(problem):
        from himalaya.kernel_ridge import MultipleKernelRidgeCV

        classes = np.unique(problem.y)
        targets = np.where(problem.y[:, None] == classes, 1.0, -1.0)
        offset = targets.mean(axis=0)  # one of the two solvers knows no intercept

        def fit():
            options = {"progress_bar": False, **parameters}
            model = MultipleKernelRidgeCV(
                kernels="precomputed", solver=solver, solver_params=options, cv=3, random_state=0
            )
            return model.fit(problem.K, targets - offset)

        return fit, lambda model, new: classes[(np.asarray(model.predict(new.K)) + offset).argmax(axis=1)]

    return prepare


RANDOM = {"n_iter": 20, "alphas": np.logspace(-4, 2, 7)}
method(
    "himalaya-random",
    "MultipleKernelRidgeCV, random search",
    "himalaya",
    "himalaya",
    "kernel ridge on ±1 targets; weights and penalty per class from 20 random draws × 7 penalties, 3-fold CV",
)(himalaya("random_search", RANDOM))
method(
    "himalaya-gradient",
    "MultipleKernelRidgeCV, hypergradient",
    "himalaya",
    "himalaya",
    "the same by gradient descent on the 3-fold CV loss, up to 100 steps",
)(himalaya("hyper_gradient", {}))


class OneVsRest:
    """A binary learner for each class; the largest score wins. What the peer would need for several classes."""

    def __init__(self, fit: Callable[[np.ndarray], Any], y: np.ndarray) -> None:
        self.classes = np.unique(y)
        positive = self.classes[1:] if len(self.classes) == 2 else self.classes
        self.models = [fit((y == label).astype(int)) for label in positive]

    def predict(self, new: Any) -> np.ndarray:
        scores = np.column_stack([np.ravel(model.decision_function(new)) for model in self.models])
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes[codes]


def multimodal(make: Callable[[SimpleNamespace], Any]) -> Callable:
    def prepare(problem):
        kernels = dict(enumerate(problem.K))

        def fit():
            return OneVsRest(lambda y: make(problem).fit(kernels, y), problem.y)

        return fit, lambda model, new: model.predict(dict(enumerate(new.K)))

    return prepare


def _mvml(problem):
    from multimodal.kernels.mvml import MVML

    F, n, _ = problem.K.shape  # its matrix A has F m rows: m such that these are a few hundred
    return MVML(kernel="precomputed", nystrom_param=min(1.0, 300 / (F * n)))


def _lp_mkl(problem):
    from multimodal.kernels.lpMKL import MKL

    return MKL(lmbda=1.0 / problem.C, kernel="precomputed")


method(
    "multimodal-mvml",
    "MVML",
    "multimodal",
    "scikit-multimodallearn",
    "least squares with a learnt metric between views; Nyström, 300 landmarks over all views; each class separately",
)(multimodal(_mvml))
method(
    "multimodal-lpmkl",
    "MKL",
    "multimodal",
    "scikit-multimodallearn",
    "kernel ridge, penalty 1/C, weights in the l2 ball by closed-form updates; each class separately",
)(multimodal(_lp_mkl))


@method(
    "multimodal-mucombo",
    "MuComboClassifier",
    "multimodal",
    "scikit-multimodallearn",
    "boosting of trees on the views themselves, not on kernels; depth 6, because the default, stumps, is far worse",
)
def mucombo(problem):
    from multimodal.boosting.combo import MuComboClassifier
    from sklearn.tree import DecisionTreeClassifier

    if problem.X is None:
        raise NotImplementedError("needs features, but only distances are available")

    def fit():
        trees = DecisionTreeClassifier(max_depth=6)
        return MuComboClassifier(estimator=trees, random_state=0).fit(problem.X, problem.y, problem.views)

    return fit, lambda model, new: model.predict(new.X)
