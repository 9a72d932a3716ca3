"""Parameters are fields of dataclasses: signatures and docstrings are complete, and agree."""

import inspect
import re
import subprocess
import sys
from dataclasses import KW_ONLY

import pytest
from sklearn.base import BaseEstimator

import multikernel.estimators
from multikernel.estimators.parameters import Resumable, estimator

EVERY = [getattr(multikernel.estimators, name) for name in multikernel.estimators.__all__]
ESTIMATORS = [found for found in EVERY if inspect.isclass(found) and issubclass(found, BaseEstimator)]


def documented(cls, section):
    """Names in a section of the docstring, in order."""
    body = re.search(rf"\n{section}\n-+\n(.*?)(?=\n\n\S[^\n]*\n---|\Z)", inspect.getdoc(cls), re.DOTALL).group(1)
    heads = [line.split(" : ")[0] for line in body.split("\n") if not line.startswith(" ")]
    return [name for head in heads for name in head.split(", ")]


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_docstrings_describe_every_parameter_once_and_positional_ones_in_order(cls):
    parameters = inspect.signature(cls).parameters.values()
    names = documented(cls, "Parameters")
    assert sorted(names) == sorted(p.name for p in parameters)
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert names[: len(positional)] == positional
    assert positional[0] == "kernels"


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_defaults_are_those_of_the_nearest_class(cls):
    # dataclasses collect fields base by base: of bases that share ancestors, one can bring back an ancestor's default
    assert {p.name: p.default for p in inspect.signature(cls).parameters.values()} == {
        name: getattr(cls, name) for name in inspect.signature(cls).parameters
    }


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_docstrings_describe_fitted_attributes_once(cls):
    names = documented(cls, "Attributes")
    assert len(set(names)) == len(names)
    assert {"weights_", "kernel_names_", "dual_coef_", "objective_", "dual_gap_", "converged_"} <= set(names)


def test_descriptions_are_inherited_unless_a_class_has_its_own():
    @estimator
    class Base(Resumable):
        """A base.

        Parameters
        ----------
        tol : float
            When to stop.
        """

        _: KW_ONLY
        tol: float = 1.0

    @estimator
    class Own(Base):
        """Something.

        Parameters
        ----------
        p : int
            The norm.
        tol : float
            Never.

        Notes
        -----
        None.
        """

        p: int = 2

    assert str(inspect.signature(Own)) == "(p: int = 2, *, checkpoint: 'Any' = None, tol: float = 1.0) -> None"
    assert Own.__doc__ == (
        "Something.\n\n"
        "Parameters\n----------\np : int\n    The norm.\ntol : float\n    Never.\n"
        "checkpoint : path, optional\n"
        "    File that keeps the state of a long fit, so that it can resume after being killed.\n\n"
        "Notes\n-----\nNone."
    )
    with pytest.raises(KeyError, match="shy"):

        @estimator
        class Undescribed(Base):
            """Nothing is said of its parameter."""

            shy: int = 0


def test_estimators_work_without_docstrings():
    code = "from multikernel import MKLClassifier; print(MKLClassifier(p=2.0))"
    result = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "MKLClassifier(p=2.0)\n"
