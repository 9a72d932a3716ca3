"""What every test relies on: deterministic property tests, and the optional folder of real data."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

from multikernel import datasets

# derandomize: the same examples on every run, so that a failure is a change of the code;
# deadline: the first call of a compiled function takes seconds, which says nothing about the function
hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder with the real data sets; the test is skipped where there is none."""
    folder = datasets.data_home()
    if folder is None:
        pytest.skip("real data needed: set MULTIKERNEL_DATA to the folder that holds the .npz archives")
    return folder
