"""Large Parquet files on the command line: read in blocks of rows, in this process or by workers."""

import errno
from pathlib import Path

import numpy as np
import pytest

from multikernel import SVRGMKLClassifier
from multikernel.io.models import load, read_manifest

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(900, 4)) * [1.0, 10.0, 100.0, 1.0]
Y = np.where(X[:, 0] * X[:, 1] / 10 + X[:, 2] / 100 > 0, "yes", "no")
KERNELS = ("--kernels", "rbf", "--rank", 20, "--view", "a=x0,x1", "--view", "b=x2,x3", "-C", 1)


@pytest.fixture
def folder():
    table = pyarrow.table({**{f"x{k}": X[:, k] for k in range(4)}, "row": [f"r{i}" for i in range(900)], "y": Y})
    Path("big").mkdir()
    parquet.write_table(table[:500], "big/0.parquet", row_group_size=100)
    parquet.write_table(table[500:], "big/1.parquet", row_group_size=150)
    return table


def no_space(columns):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_is_fitted_and_predicted_block_by_block(run, folder, monkeypatch):
    code, _, err = run("fit", "-d", "big", "-t", "y", "--drop", "row", *KERNELS, "--memory", "2GB", "-o", "m.mkl")
    assert code == 0, err
    assert "SVRG-MKL fitted on 900 rows" in err
    model = load("m.mkl")
    scaled = model[0].transform(X)
    again = SVRGMKLClassifier(model[-1].kernels, p=model[-1].p, C=1.0).fit(scaled, Y)
    np.testing.assert_allclose(model[-1].weights_, again.weights_, atol=1e-3)
    assert read_manifest("m.mkl")["metadata"]["columns"] == ["x0", "x1", "x2", "x3"]
    code, _, err = run("predict", "m.mkl", "-d", "big", "--id", "row", "--proba", "-o", "new.csv")
    assert code == 0, err
    lines = [line.split(",") for line in Path("new.csv").read_text().splitlines()]
    assert lines[0] == ["row", "prediction", "probability_no", "probability_yes"]
    assert [line[0] for line in lines[1:]] == [f"r{i}" for i in range(900)]
    assert [line[1] for line in lines[1:]] == model.predict(X).tolist()
    assert f"accuracy {100 * np.mean(model.predict(X) == Y):.1f} %" in err
    with monkeypatch.context() as full:
        full.setattr("multikernel.cli.commands._csv", no_space)
        code, _, err = run("predict", "m.mkl", "-d", "big", "-o", "half.csv")
    assert code == 1
    assert "No space left on device" in err
    assert not list(Path().glob("*half*"))
    parquet.write_table(folder.drop_columns("x2"), "less.parquet")
    assert "has no column 'x2'" in run("predict", "m.mkl", "-d", "less.parquet", "--workers", 1)[2]


def test_methods_that_read_blocks_are_compared(run, folder):
    code, out, err = run("compare", "-d", "big", "-t", "y", "--drop", "row", *KERNELS, "-m", "average,svrg,mkfda")
    assert code == 0, err
    assert all(title in out for title in ("Average kernel", "SVRG-MKL", "MK-FDA", "Most frequent class"))
    assert "rows held out" in Path("report.html").read_text()


def test_what_blocks_cannot_do_is_said(run, folder):
    start = ("fit", "-d", "big", "-t", "y", "--drop", "row", *KERNELS, "-o", "m.mkl")
    code, _, err = run(*start, "-m", "mkl")
    assert code == 2
    assert "'mkl' needs all samples at once; of blocks of rows learn average, svrg" in err
    code, _, err = run("fit", "-d", "big.csv", "--workers", 2, "-o", "m.mkl")
    assert code == 2
    assert "give one Parquet file or folder" in err
    pytest.importorskip("distributed")
    code, _, err = run(*start, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 1
    assert "the scheduler at tcp://127.0.0.1:9 cannot be reached" in err
    assert not Path("m.mkl").exists()
