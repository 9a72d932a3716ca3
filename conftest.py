"""What every test relies on: deterministic property tests, and the optional folder of real data."""

from __future__ import annotations

import functools
import signal
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from multikernel import datasets
from multikernel.runtime import clock

# derandomize: the same examples on every run, so that a failure is a change of the code;
# deadline: the first call of a compiled function takes seconds, which says nothing about the function
hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("deterministic")


# Folders whose tests depend on the processor: solvers, kernels and the matrices between them.
NUMERICAL = {"kernels", "gram", "svm", "problems", "solvers"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark numerical tests, so that ``-m numerical`` runs them under other processors and versions."""
    for item in items:
        if item.path.name == "test_references.py" or (
            item.path.parent.name in NUMERICAL and "tests" in item.path.parts
        ):
            item.add_marker(pytest.mark.numerical)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder with the real data sets; the test is skipped where there is none."""
    folder = datasets.data_home()
    if folder is None:
        pytest.skip("real data needed: set MULTIKERNEL_DATA to the folder that holds the .npz archives")
    return folder


class FakeClock:
    """Time stands still, but for the jumps that a test makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.time = 0.0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(clock, "now", lambda: self.time)

    def jump_in(self, owner: Any, name: str, call: int | None = None, seconds: float = 1e6) -> None:
        """Let so many seconds pass when ``owner.name`` is called for that time; whenever it is called, without."""
        function, calls = getattr(owner, name), 0

        @functools.wraps(function)
        def jumping(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if call in (None, calls):
                self.time += seconds
            return function(*arguments, **options)

        self._monkeypatch.setattr(owner, name, jumping)


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    return FakeClock(monkeypatch)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt: processes in the background, and some runners' workers, ignore it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
