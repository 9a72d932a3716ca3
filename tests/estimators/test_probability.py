"""Probabilities: calibrated, in the order of scores, the same for features and kernels, there only where fitted."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

import multikernel as mk
from multikernel.gram import gram_stack
from multikernel.io.models import ModelFileError, save
from multikernel.kernels import RBF, KernelFamily, Linear

X, y = load_iris(return_X_y=True)
KERNELS = [Linear(), RBF(columns=[0, 1], bandwidth=1.0), RBF(columns=[2, 3], bandwidth=1.0)]
RNG = np.random.default_rng(0)
PLANTED = RNG.normal(size=(1200, 3))
LOGITS = 2.0 * PLANTED[:, 0] - PLANTED[:, 1] ** 2 + 1.0
NOISY = (RNG.uniform(size=1200) < expit(LOGITS)).astype(int)
TRAIN, TEST = np.arange(400), np.arange(400, 1200)


def best_sigmoid(scores, labels):
    """Log-loss of the sigmoid that is best on these samples."""

    def loss(ab):
        return log_loss(labels, expit(ab[0] * scores + ab[1]))

    return minimize(loss, [1.0, 0.0], method="Nelder-Mead").fun


@pytest.mark.parametrize(
    "model",
    [
        mk.KernelAverageClassifier(),
        mk.MKLClassifier(C=100.0),  # which overfits
        mk.MKFDAClassifier(class_weight="balanced"),
        mk.LPBetaClassifier(),
        mk.ObscureClassifier(solver="sdca"),
        mk.SVRGMKLClassifier(loss="squared_hinge"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_probabilities_of_planted_data_are_calibrated_and_in_the_order_of_scores(model):
    model.set_params(kernels=[RBF(columns=[j]) for j in range(3)], probability=True)
    model.fit(PLANTED[TRAIN], NOISY[TRAIN])
    scores, probabilities = model.decision_function(PLANTED[TEST]), model.predict_proba(PLANTED[TEST])[:, 1]
    assert (np.diff(probabilities[np.argsort(scores)]) >= 0.0).all()
    assert log_loss(NOISY[TEST], probabilities) < 1.05 * best_sigmoid(scores, NOISY[TEST])


def test_labels_have_probabilities_of_their_own_and_rare_ones_too():
    labels = np.column_stack([NOISY, RNG.uniform(size=1200) < expit(PLANTED[:, 2]), np.arange(1200) == 3])
    labels = np.column_stack([labels, np.zeros(1200)])
    model = mk.MultilabelMKLClassifier([RBF(columns=[j]) for j in range(3)], probability=True, threshold="f1")
    with pytest.warns(UserWarning, match="1 of 4 labels have only one class") as warned:
        model.fit(PLANTED[TRAIN], labels[TRAIN])
    assert len(warned) == 1
    probabilities = model.predict_proba(PLANTED[TEST])
    scores = model.decision_function(PLANTED[TEST])
    for k in range(2):
        assert log_loss(labels[TEST, k], probabilities[:, k]) < 1.05 * best_sigmoid(scores[:, k], labels[TEST, k])
    assert (probabilities[:, 2:] < 0.05).all()
    assert model.threshold == "f1"


@pytest.mark.parametrize("options", [{}, {"normalize": ["center", "trace"], "class_weight": "balanced"}])
def test_features_kernels_and_stacks_give_the_same_probabilities(options):
    weight = RNG.integers(0, 3, size=len(y)).astype(float)
    family = KernelFamily.fit(KERNELS, X)
    K = np.moveaxis(family.evaluate(X), 0, -1)
    expected = mk.MKLClassifier(KERNELS, probability=True, **options).fit(X, y, sample_weight=weight).predict_proba(X)
    for given in (K, gram_stack(K)):
        model = mk.MKLClassifier("precomputed", probability=True, **options).fit(given, y, sample_weight=weight)
        assert_allclose(model.predict_proba(given), expected, atol=1e-4)


def test_sub_fits_compute_no_kernel_again():
    calls = []

    class Counting(RBF):
        def evaluate(self, *arguments, **options):
            calls.append(1)
            return super().evaluate(*arguments, **options)

    for probability in (False, True):
        mk.MKLClassifier([Counting(bandwidth=1.0), Linear()], probability=probability).fit(X, y)
        calls.append(None)
    first = calls.index(None)
    assert calls[:first] == calls[first + 1 : -1]


def test_missing_views_and_class_weights():
    holes = PLANTED[TRAIN].copy()
    holes[::3, 2] = np.nan
    kernels = [RBF(columns=[j]) for j in range(3)]
    model = mk.MKLClassifier(kernels, missing="mask", probability=True, class_weight={0: 5.0, 1: 1.0})
    probabilities = model.fit(holes, NOISY[TRAIN]).predict_proba(holes)
    assert abs(probabilities[:, 1].mean() - NOISY[TRAIN].mean()) < 0.03  # those of the data, not of the weights


def test_scorers_searches_and_calibration_by_scikit_learn_work():
    model = mk.MKLClassifier(KERNELS, probability=True)
    assert cross_val_score(model, X, y, scoring="neg_log_loss", cv=3).mean() > -0.3
    assert cross_val_score(model, X, y, scoring="roc_auc_ovr", cv=3).mean() > 0.97
    assert CalibratedClassifierCV(model, cv=2).fit(X, y).predict_proba(X).shape == (150, 3)
    chosen = mk.CSKLClassifierCV(KERNELS, ts=[1, 2], cv=2, scoring="neg_log_loss", probability=True).fit(X, y)
    assert -0.5 < chosen.best_score_ < 0.0
    assert chosen.predict_proba(X).shape == (150, 3)


def test_predict_proba_is_there_only_where_it_works(tmp_path):
    model = mk.ObscureClassifier(KERNELS, solver="sdca")
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model.fit(X, y), "predict_log_proba")
    model.set_params(probability=True)
    with pytest.raises(AttributeError) as error:
        model.predict_proba(X)
    assert "fitted without probability=True" in str(error.value.__cause__)
    assert model.fit(X, y).predict_proba(X).shape == (150, 3)
    assert not hasattr(model.partial_fit(X[:5], y[:5]), "predict_proba")
    with pytest.raises(ValueError, match="class 2 has only one sample that counts"):
        model.fit(X[:101], y[:101])


def test_a_file_with_a_wrong_calibration_is_refused(tmp_path):
    model = mk.MKLClassifier(KERNELS, probability=True).fit(X, y)
    for name, wrong in (("calibration_slope_", -np.ones(3)), ("calibration_intercept_", np.zeros(2))):
        right = getattr(model, name)
        setattr(model, name, wrong)
        with pytest.raises(ModelFileError, match=name):
            save(model, tmp_path / "model.mkl")
        setattr(model, name, right)
    del model.calibration_slope_
    with pytest.raises(ModelFileError, match="half of the calibration"):
        save(model, tmp_path / "model.mkl")


def test_time_is_shared_with_the_sub_fits():
    X = RNG.normal(size=(800, 4))
    model = mk.MKLClassifier(probability=True, max_time=0.5, tol=1e-12, solver="silp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, X[:, 0] * X[:, 1] > 0)
    assert model.history_[-1]["time"] < 1.0
    assert not hasattr(model, "predict_proba") or np.isfinite(model.predict_proba(X)).all()
