"""Kernels from short descriptions: strings, callables, grids of views and bandwidths."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sklearn.base import clone

from multikernel.kernels.approximation import Nystroem
from multikernel.kernels.base import Kernel
from multikernel.kernels.columns import describe
from multikernel.kernels.functions import (
    RBF,
    ChiSquared,
    Cosine,
    HistogramIntersection,
    Laplacian,
    Linear,
    Polynomial,
    Sigmoid,
)
from multikernel.kernels.given import (
    FromDistance,
    FromFunction,
    FromGaussianProcess,
    Precomputed,
    is_gaussian_process_kernel,
)
from multikernel.kernels.pyramid import SpatialPyramid
from multikernel.runtime.warnings import warn_user

NAMED_KERNELS: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "chi2": ChiSquared,
    "additive_chi2": lambda **parameters: ChiSquared(additive=True, **parameters),
    "intersection": HistogramIntersection,
    "cosine": Cosine,
    "sigmoid": Sigmoid,
    "pyramid": SpatialPyramid,
    "distance": FromDistance,
    "precomputed": Precomputed,
}

# Samples up to which the default kernels are taken as they are, and rank of their features beyond.
LARGE, RANK = 20_000, 200


def as_kernel(candidate: Any) -> Kernel:
    """A kernel object from a kernel, a name, a callable or a Gaussian-process kernel of scikit-learn.

    Examples
    --------
    >>> as_kernel("rbf")
    RBF()
    >>> as_kernel(lambda A, B: A @ B.T).label
    '<lambda>'
    """
    if isinstance(candidate, Kernel):
        return candidate
    if isinstance(candidate, str):
        if candidate not in NAMED_KERNELS:
            near = difflib.get_close_matches(candidate, NAMED_KERNELS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{candidate!r} is not a kernel.{hint} There are: {', '.join(NAMED_KERNELS)}.")
        return NAMED_KERNELS[candidate]()
    if is_gaussian_process_kernel(candidate):
        return FromGaussianProcess(kernel=candidate)
    if isinstance(candidate, type) and issubclass(candidate, Kernel):
        raise TypeError(f"{candidate.__name__} is a class; write {candidate.__name__}() to make a kernel.")
    if callable(candidate):
        return FromFunction(function=candidate)
    raise TypeError(
        f"{candidate!r} of type {type(candidate).__name__} is not a kernel. Give a Kernel, a name such as 'rbf', "
        "a function of two blocks of rows, or a kernel of sklearn.gaussian_process.kernels."
    )


def as_kernels(kernels: Any, n_samples: int = 0) -> list[Kernel]:
    """A list of kernels from one or several descriptions; for None the default family for so many samples."""
    if kernels is None:
        return default_kernels(n_samples)
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        kernels = [kernels]
    if not kernels:
        raise ValueError("kernels is empty; give at least one kernel, or None for the default family.")
    found = []
    for position, candidate in enumerate(kernels):
        try:
            found.append(as_kernel(candidate))
        except (TypeError, ValueError) as error:
            raise type(error)(f"kernels[{position}]: {error}") from None
    return found


def default_kernels(n_samples: int = 0) -> list[Kernel]:
    """Linear, and RBF at ¼, 1 and 4 times the mean squared distance, on all columns.

    Parameters
    ----------
    n_samples : int
        Above 20,000 they are approximated by Nyström features of rank 200, with a warning that says so: the kernels
        themselves have n² entries, which take too long to read.

    Examples
    --------
    >>> [kernel.label for kernel in default_kernels()]
    ['linear', 'rbf(0.25*mean)', 'rbf(mean)', 'rbf(4*mean)']
    """
    kernels = [Linear(), *(RBF(bandwidth=width) for width in ("0.25*mean", "mean", "4*mean"))]
    if n_samples <= LARGE:
        return kernels
    warn_user(
        f"kernels=None with {n_samples:,} samples, more than {LARGE:,}, uses Nystroem(kernel=…, rank={RANK}) for the "
        "default kernels, because n² entries take too long to read. To choose yourself, pass "
        "kernels=multikernel.kernels.default_kernels(), or features of another rank.",
        UserWarning,
    )
    return [Nystroem(kernel=kernel, rank=RANK) for kernel in kernels]


def kernel_grid(
    views: Any = None,
    families: Any = ("rbf",),
    bandwidths: Sequence[float | str] = ("0.25*mean", "mean", "4*mean"),
) -> list[Kernel]:
    """One kernel per view, family and bandwidth; one per view for families without a bandwidth.

    Parameters
    ----------
    views : dict of name to columns, or sequence of columns, optional
        What each kernel looks at (any ``columns=``); all columns by default.
    families : sequence of names, kernel classes or kernels
        A kernel is a template: its other parameters are kept.
    bandwidths : sequence of numbers or rules

    Examples
    --------
    >>> views = {"petals": ["petal length", "petal width"], "sepals": ["sepal length", "sepal width"]}
    >>> for kernel in kernel_grid(views, ["linear", "rbf"], ["mean", "4*mean"]):
    ...     print(kernel.label)
    linear on petals
    rbf(mean) on petals
    rbf(4*mean) on petals
    linear on sepals
    rbf(mean) on sepals
    rbf(4*mean) on sepals
    """
    if isinstance(families, str | Kernel | type):
        families = [families]
    templates = [
        family() if inspect.isclass(family) and issubclass(family, Kernel) else as_kernel(family)
        for family in families
    ]
    if not templates:
        raise ValueError("families is empty; name at least one, such as 'rbf'.")
    return [
        _on_view(kernel, view, columns)
        for view, columns in _named_views(views)
        for template in templates
        for kernel in _with_bandwidths(template, bandwidths)
    ]


def _named_views(views: Any) -> list[tuple[str | None, Any]]:
    if views is None:
        return [(None, None)]
    if isinstance(views, Mapping):
        return list(views.items())
    return [(describe(columns), columns) for columns in views]


def _with_bandwidths(template: Kernel, bandwidths: Sequence[float | str]) -> list[Kernel]:
    parameters = template.get_params()
    has_gamma = isinstance(template, RBF) and template.gamma is not None
    if isinstance(template, SpatialPyramid) and template.base is None:
        template = clone(template).set_params(base=ChiSquared())
        parameters = template.get_params()
    target = next((key for key in ("bandwidth", "base__bandwidth") if key in parameters), None)
    if target is None or has_gamma or parameters.get("additive") or parameters.get("base__additive"):
        return [clone(template)]
    return [clone(template).set_params(**{target: bandwidth}) for bandwidth in bandwidths]


def _on_view(kernel: Kernel, view: str | None, columns: Any) -> Kernel:
    if view is None:
        return kernel
    label = kernel.name if kernel.name is not None else kernel._description()
    return kernel.set_params(columns=columns, name=f"{label} on {view}")
