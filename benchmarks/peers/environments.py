"""An environment for each peer: a virtual environment with pinned versions, made once and kept in a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Versions that work together, and the newest of them that the peers run with. The CPU build of torch is asked for by
# name: the default one brings gigabytes of libraries for graphics cards along. Where pip's index does not have it,
# PIP_EXTRA_INDEX_URL can name one that does.
COMMON = ("numpy==2.4.6", "scipy==1.17.1", "threadpoolctl==3.8.0")
REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "mklpy": (*COMMON, "scikit-learn==1.9.1", "MKLpy==0.6", "torch==2.13.0+cpu", "cvxopt==1.3.3"),
    "himalaya": (*COMMON, "scikit-learn==1.9.1", "himalaya==0.4.11", "packaging==25.0"),
    "multimodal": (*COMMON, "scikit-learn==1.5.2", "scikit-multimodallearn==0.1.0", "cvxopt==1.3.3"),
}
IMPORTS = {"mklpy": "MKLpy.algorithms", "himalaya": "himalaya.kernel_ridge", "multimodal": "multimodal.kernels.mvml"}


class Unavailable(Exception):
    """A peer that cannot be installed here; the message says why."""


def cache_folder() -> Path:
    """Where environments are kept: ``MULTIKERNEL_CACHE``, else the user's cache folder."""
    given = os.environ.get("MULTIKERNEL_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "multikernel"
    return base / "peers"


def python_of(name: str) -> Path:
    """The interpreter that runs a peer's methods, its environment made first if need be.

    Raises
    ------
    Unavailable
        If the packages cannot be installed or imported; tried once, then remembered in a file beside the
        environment. Remove the folder to try again.
    """
    if name == "here":
        return Path(sys.executable)
    folder = cache_folder() / name
    python, ready, failed = folder / "bin" / "python", folder / "ready.txt", folder / "failed.txt"
    wanted = "\n".join(REQUIREMENTS[name])
    if ready.is_file() and ready.read_text() == wanted:
        return python
    if failed.is_file() and failed.read_text().startswith(wanted):
        raise Unavailable(failed.read_text()[len(wanted) :].strip())
    print(f"making the environment of {name} in {folder} ...", file=sys.stderr, flush=True)
    try:
        _run([sys.executable, "-m", "venv", "--clear", str(folder)], 120)
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *REQUIREMENTS[name]], 1200)
        _run([str(python), "-c", f"import {IMPORTS[name]}"], 120)
    except Unavailable as error:
        folder.mkdir(parents=True, exist_ok=True)
        failed.write_text(f"{wanted}\n{error}")
        raise
    ready.write_text(wanted)
    return python


def _run(command: list[str], seconds: float) -> None:
    """Run a command; its last line of complaint becomes the reason."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{Path(command[0]).name} took longer than {seconds:.0f} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
        raise Unavailable(lines[-1].strip()[:200] if lines else f"exit code {done.returncode}")
