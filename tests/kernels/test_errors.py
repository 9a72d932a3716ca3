"""Bad input to kernels gets an error that says what, where and what to do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from multikernel.kernels import (
    RBF,
    ChiSquared,
    FromDistance,
    FromFunction,
    HistogramIntersection,
    KernelFamily,
    Linear,
    Nystroem,
    Polynomial,
    RandomFourier,
    Sigmoid,
    SpatialPyramid,
    as_kernel,
    kernel_grid,
)

X = np.abs(np.random.default_rng(0).normal(size=(12, 4)))
NAMES = ["petal length", "petal width", "sepal length", "sepal width"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["petal lenth"], ValueError, "no column named 'petal lenth'; did you mean 'petal length'"),
        ([0, 7], IndexError, "position 7, but X has 4 columns"),
        ([], ValueError, "selects none of the 4 columns"),
        (slice(3, 3), ValueError, "selects none"),
        ([True, False], ValueError, "mask of 2 entries, but X has 4"),
        ([0.5], TypeError, "names, integer positions"),
        (lambda X: [], ValueError, "selects none"),
    ],
)
def test_bad_columns_are_explained(columns, error, message):
    with pytest.raises(error, match=message):
        RBF(columns=columns).fit(X, feature_names=NAMES)


def test_names_need_names():
    with pytest.raises(ValueError, match="X has no column names"):
        RBF(columns=["a"]).fit(X)
    with pytest.raises(ValueError, match="3 feature_names for 4 columns"):
        RBF().fit(X, feature_names=["a", "b", "c"])


@pytest.mark.parametrize("kernel", [ChiSquared(), HistogramIntersection(), SpatialPyramid(levels=(1, 2))])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_negative_histograms_name_column_and_value(kernel, convert):
    bad = X.copy()
    bad[5, 2] = -0.25
    with pytest.raises(ValueError, match=r"column 'sepal length' is -0\.25 in row 5"):
        KernelFamily.fit([kernel], convert(bad), NAMES).evaluate(convert(bad))
    with pytest.raises(ValueError, match=r"column 2 is -0\.25 in row 5"):
        KernelFamily.fit([kernel], convert(bad)).evaluate(convert(bad))


def test_overflow_names_the_kernel():
    with pytest.raises(FloatingPointError, match=r"kernels\[1\] \('poly\(9\)'\) overflows float32"):
        KernelFamily.fit([Linear(), Polynomial(degree=9, gamma=1.0)], X).evaluate(
            (X * 1e6).astype(np.float32), dtype=np.float32
        )


def test_missing_values_are_located():
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X holds nan at \(3, 1\)"):
        RBF(bandwidth=1.0).fit(X)(bad)
    with pytest.raises(ValueError, match="bandwidth rule 'mean' gives nan"):
        RBF().fit(bad)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (RBF(bandwidth="0.5", gamma=1.0), ValueError, "give bandwidth='0.5' or gamma=1.0, not both"),
        (RBF(gamma=-1.0), ValueError, "gamma=-1.0 must be a positive number"),
        (RBF(gamma="x", name="r"), ValueError, "kernel 'r': gamma='x' must be a positive number, None or 'scale'"),
        (RBF(gamma="x"), ValueError, r"kernel 'rbf\(gamma=x\)': gamma='x' must be a positive number"),
        (Polynomial(coef0="a"), ValueError, r"kernel 'poly\(3\)': coef0='a' must be a finite number"),
        (Polynomial(coef0=np.inf), ValueError, "coef0=inf must be a finite number"),
        (Sigmoid(coef0="a"), ValueError, "kernel 'sigmoid': coef0='a' must be a finite number"),
        (Polynomial(degree=1.5), ValueError, "degree=1.5 must be a positive integer"),
        (Polynomial(coef0=-1), ValueError, "not positive semi-definite"),
        (SpatialPyramid(levels=(1, 3)), ValueError, "4 columns cannot be cut into 3 x 3 cells"),
        (SpatialPyramid(levels=(2, 3), grid=4), ValueError, "must divide grid=4"),
        (SpatialPyramid(levels=(1, 2), weights=(1,)), ValueError, "must be 2 numbers"),
        (SpatialPyramid(levels=(1, 2), base=RBF()), TypeError, "not a histogram kernel"),
        (SpatialPyramid(levels=(1, 2), base=ChiSquared(columns=[0])), ValueError, "give columns to the pyramid"),
        (FromFunction(), TypeError, "cannot be called"),
        (Nystroem(kernel=Sigmoid()), ValueError, "cannot be approximated"),
        (Nystroem(landmarks="best"), ValueError, "must be one of uniform, kmeans, leverage"),
        (Nystroem(rank=0), ValueError, "rank=0 must be at least 1"),
        (Nystroem(error=2.0), ValueError, "between 0 and 1"),
        (Nystroem(kernel=RBF(columns=[0]), columns=[1]), ValueError, "not both"),
        (RandomFourier(kernel=ChiSquared()), TypeError, "Use Nystroem"),
        (FromDistance(), ValueError, "square matrix"),
        (ChiSquared(bandwidth="scale"), ValueError, "RBF and Laplacian kernels only"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "label") else None,
)
def test_bad_parameters_are_explained(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel.fit(X)


def test_bad_distances_are_explained():
    with pytest.raises(ValueError, match="distances cannot be negative, but the smallest is -1"):
        FromDistance().fit(-np.eye(3))
    with pytest.raises(ValueError, match="must be a position among the 2 matrices"):
        FromDistance(columns=2).fit(np.ones((3, 3, 2)))
    with pytest.raises(ValueError, match="needs features of shape"):
        RBF().fit(np.ones((3, 3, 2)))
    with pytest.raises(ValueError, match="does not hold k\\(x, x\\)"):
        FromDistance().fit(np.ones((3, 3))).diagonal(np.ones((2, 3)))


def test_functions_must_be_symmetric_and_return_one_value_per_pair():
    with pytest.raises(ValueError, match="not symmetric"):
        as_kernel(lambda A, B: A @ B.T + A[:, :1])(X)
    with pytest.raises(ValueError, match=r"returned shape \(12,\)"):
        as_kernel(lambda A, B: A[:, 0])(X)


@pytest.mark.parametrize(
    ("candidate", "error", "message"),
    [
        ("rbff", ValueError, "'rbff' is not a kernel; did you mean 'rbf'"),
        (3, TypeError, "3 of type int is not a kernel"),
        (RBF, TypeError, r"write RBF\(\)"),
    ],
)
def test_what_is_not_a_kernel_is_refused(candidate, error, message):
    with pytest.raises(error, match=message):
        as_kernel(candidate)
    with pytest.raises(error, match=r"kernels\[1\]"):
        KernelFamily.fit([Linear(), candidate], X)


def test_families_refuse_what_cannot_work():
    with pytest.raises(ValueError, match="kernels is empty"):
        KernelFamily.fit([], X)
    with pytest.raises(ValueError, match="one X cannot be both"):
        KernelFamily.fit([RBF(), FromDistance()], X @ X.T)
    family = KernelFamily.fit([RBF()], X)
    with pytest.raises(ValueError, match="X has 3 columns, but kernel 'rbf\\(mean\\)' was fitted on 4"):
        family.evaluate(X[:, :3])
    with pytest.raises(ValueError, match=r"out has shape \(1, 2, 2\)"):
        family.evaluate(X, out=np.empty((1, 2, 2)))
    with pytest.raises(TypeError, match="float32 or float64, not int64"):
        family.evaluate(X, dtype=np.int64)
    with pytest.raises(ValueError, match="not fitted"):
        KernelFamily([RBF()]).evaluate(X)
    with pytest.raises(ValueError, match="X has 1 dimension"):
        family.evaluate(X[0])
    with pytest.raises(ValueError, match="without Z"):
        KernelFamily.fit([FromDistance()], np.ones((3, 3))).evaluate(np.ones((3, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="families is empty"):
        kernel_grid(None, [])
