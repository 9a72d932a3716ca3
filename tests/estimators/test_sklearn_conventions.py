"""scikit-learn's own checks, for every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multikernel import (
    BestKernelClassifier,
    CSKLClassifier,
    CSKLClassifierCV,
    GMKLClassifier,
    KernelAverageClassifier,
    LPBetaClassifier,
    MKFDAClassifier,
    MKFDAClassifierCV,
    MKLClassifier,
    MultilabelMKLClassifier,
    ObscureClassifier,
    SVRGMKLClassifier,
    SVRGMKLRegressor,
    UFOMKLClassifier,
    estimators,
)
from multikernel.kernels import RBF, Linear

FEW = [Linear(), RBF()]
ESTIMATORS = [
    KernelAverageClassifier(),
    KernelAverageClassifier(kernels=[RBF(), RBF(bandwidth="4*mean")], how="product", multi_class="ovo"),
    BestKernelClassifier(kernels=FEW, normalize="variance"),
    MKLClassifier(),
    MKLClassifier(p=2.0, weights="per-class", multi_class="ovo", solver="lp"),
    CSKLClassifier(t=2),
    CSKLClassifierCV(ts=[1, 2], cv=2),
    GMKLClassifier(),
    GMKLClassifier(combination="product", regularizer="l2", reg=10.0, weights="per-class"),
    MKFDAClassifier(kernels=[Linear(), RBF(bandwidth=2.0)], p=1.5, tol=1e-9),
    MKFDAClassifierCV(kernels=FEW, ps=[1.0, 2.0], regs=[1e-4, 1e-1], criterion="loo"),
    MultilabelMKLClassifier(max_iter=100),  # kernels of random labels, all alike: it warns at a gap of 4 %
    MultilabelMKLClassifier(objective="sum", bias=True),
    ObscureClassifier(max_iter=50, tol=0.1),
    ObscureClassifier(kernels=FEW, solver="sdca", normalize="cosine"),
    UFOMKLClassifier(kernels=[*FEW, RBF(bandwidth="4*mean")], a=0.01, max_iter=50, tol=0.1),
    SVRGMKLClassifier(),
    SVRGMKLClassifier(FEW, loss="squared_hinge", normalize="cosine", tol=1e-3),
    SVRGMKLRegressor(),
    SVRGMKLRegressor(FEW, loss="huber", normalize="cosine", tol=1e-3),
    LPBetaClassifier(kernels=FEW, normalize="variance"),
    LPBetaClassifier(kernels=FEW, shared=False, C="cv", Cs=[0.1, 10.0], nu=0.2, cv=2),
]
COVERED = {type(estimator) for estimator in ESTIMATORS}
EVERY = [getattr(estimators, name) for name in estimators.__all__ if name.endswith(("Classifier", "ClassifierCV"))]
ESTIMATORS += [estimator() for estimator in EVERY if estimator not in COVERED]
WEIGHTS_DIFFER = (
    "bandwidths, normalisation and folds look at the samples, not at their weights, and solutions agree to tol; "
    "with fixed kernels and a small tol the equivalence is tested with each estimator"
)


def expected_failures(estimator):
    failures = {f"check_sample_weight_equivalence_on_{kind}_data": WEIGHTS_DIFFER for kind in ("dense", "sparse")}
    if isinstance(estimator, MKFDAClassifier):  # that has kernels of fixed bandwidth, and a small tol
        failures = {}
    if type(estimator).__name__ in ("MKFDAClassifier", "MKFDAClassifierCV", "EasyMKLClassifier"):
        nearest = "samples go to the class with the nearest centroid, or point of its hull, however heavy it is"
        failures["check_class_weight_classifiers"] = nearest
    return failures


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)
