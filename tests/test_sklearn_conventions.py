"""scikit-learn's own checks, for every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from multikernel import (
    BestKernelClassifier,
    CSKLClassifier,
    CSKLClassifierCV,
    KernelAverageClassifier,
    MKLClassifier,
)
from multikernel.kernels import RBF, Linear

ESTIMATORS = [
    KernelAverageClassifier(),
    KernelAverageClassifier(kernels=[RBF(), RBF(bandwidth="4*mean")], how="product", multi_class="ovo"),
    BestKernelClassifier(kernels=[Linear(), RBF()], normalize="variance"),
    MKLClassifier(),
    MKLClassifier(p=2.0, weights="per-class", multi_class="ovo", solver="lp"),
    CSKLClassifier(t=2),
    CSKLClassifierCV(ts=[1, 2], cv=2),
]

WEIGHTS_DIFFER = (
    "bandwidths, normalisation and folds look at the samples, not at their weights, and solutions agree to tol; "
    "with fixed kernels and a small tol the equivalence is tested in test_estimators.py"
)


def expected_failures(estimator):
    return {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS_DIFFER,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS_DIFFER,
    }


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_estimator_follows_scikit_learn(estimator, check):
    check(estimator)
