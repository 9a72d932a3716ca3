"""Check the files in dist/: what they hold, and that the wheel works in a clean environment (run by `make dist`)."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIT = """
from pathlib import Path
import multikernel
from sklearn.datasets import load_breast_cancer
assert Path(multikernel.__file__).is_relative_to(Path.cwd()), multikernel.__file__
X, y = load_breast_cancer(return_X_y=True)
model = multikernel.MKLClassifier().fit(X, y)
assert model.converged_ and model.score(X, y) > 0.9, model.score(X, y)
print("multikernel", multikernel.__version__, "fitted", model.n_kernels_, "kernels")
"""


def check_members(wheel: Path, sdist: Path) -> None:
    """The sdist holds what git knows but the experiments, the wheel the package, with licence and changelog."""
    tracked = set(subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split())
    tracked = {name for name in tracked if not name.startswith("experiments/")}
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    assert found == tracked | {"PKG-INFO"}, f"{sdist.name}: {sorted(found ^ (tracked | {'PKG-INFO'}))}"
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name and ".data/" not in name}
        around = {Path(name).name for name in set(archive.namelist()) - found}
        metadata = next(archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    assert found == package, f"{wheel.name}: {sorted(found ^ package)}"
    assert around == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE", "CHANGELOG.md"}, around
    assert metadata.endswith((ROOT / "README.md").read_text(encoding="utf-8"))


def check_installed(wheel: Path, experiments: Path) -> None:
    """The wheel installs and fits where there is nothing else, and takes the commands of the experiments."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if os.name == "nt" else "bin", "python")
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for command in (
            ["-m", "pip", "install", "-qq", str(wheel)],
            ["-c", FIT],
            ["-m", "multikernel", "--version"],
            ["-m", "pip", "install", "-qq", f"{wheel}[report]", str(experiments)],
            ["-m", "multikernel", "reproduce", "--list"],
        ):
            subprocess.run([python, *command], check=True, cwd=folder, env=clean)


if __name__ == "__main__":
    [wheel], [experiments] = (
        (ROOT / "dist").glob(f"{name}-*.whl") for name in ("multikernel", "multikernel_experiments")
    )
    [sdist] = (ROOT / "dist").glob("multikernel-*.tar.gz")
    check_members(wheel, sdist)
    check_installed(wheel, experiments)
    print(f"{wheel.name} and {sdist.name} hold what they should; {experiments.name} adds its commands.")
