"""Gene sets become kernels on the columns that there are."""

import gzip
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from multikernel import KernelAverageClassifier
from multikernel.kernels import join_views, kernel_grid, read_gmt

SETS = {"cycle": ["CDK1", "MYC", "TP53"], "growth": ["EGFR", "MYC"], "immune": ["CD8A", "CD4"]}


def test_a_file_of_gene_sets_is_read(tmp_path):
    text = "cycle\thttp://where\tCDK1\tMYC\tMYC\t\n\ngrowth\t\tEGFR\r\n"
    (tmp_path / "sets.gmt").write_text(text)
    with gzip.open(tmp_path / "sets.gmt.gz", "wt") as file:
        file.write(text)
    for name in ("sets.gmt", "sets.gmt.gz"):
        assert read_gmt(tmp_path / name) == {"cycle": ["CDK1", "MYC"], "growth": ["EGFR"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cycle\tfirst\tMYC\ngrowth EGFR\n", "line 2: a gene set is a name.*begins with 'growth EGFR'"),
        ("cycle\tfirst\tMYC\ncycle\tsecond\tMYC\n", "line 2: there is a gene set 'cycle' above"),
    ],
)
def test_lines_that_are_no_gene_sets_are_named(tmp_path, text, message):
    (tmp_path / "sets.gmt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_gmt(tmp_path / "sets.gmt")


def test_genes_without_a_column_and_small_sets_are_left_out_with_a_count():
    columns = ["TP53", "EGFR", "MYC"]
    with pytest.warns(UserWarning, match="3 of 6 genes, which have no column; 1 of 3 sets"):
        kernels = kernel_grid(SETS, ["rbf"], ["mean"], columns=columns, min_size=2)
    assert [kernel.label for kernel in kernels] == ["rbf(mean) on cycle", "rbf(mean) on growth"]
    assert [list(kernel.columns) for kernel in kernels] == [[2, 0], [1, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(kernel_grid({"growth": SETS["growth"]}, "linear", columns=columns)) == 1


def test_sets_are_views_of_each_table_that_has_their_genes():
    rna = pd.DataFrame(np.eye(4), columns=["MYC", "CDK1", "TP53", "ACTB"], index=list("abcd"))
    protein = pd.DataFrame(np.eye(4)[:, :2], columns=["TP53", "MYC"], index=list("abcd"))
    X, _ = join_views({"rna": rna, "protein": protein})
    sets = {"cycle": SETS["cycle"]}
    kernels = kernel_grid(sets, "linear", columns=X, min_size=2)
    assert {kernel.label: list(X.columns[kernel.columns]) for kernel in kernels} == {
        "linear on cycle in rna": ["rna:CDK1", "rna:MYC", "rna:TP53"],
        "linear on cycle in protein": ["protein:MYC", "protein:TP53"],
    }
    with pytest.warns(UserWarning, match="1 of 5 genes, which have no column; 1 of 2 sets, with fewer than 2 genes"):
        kernel_grid({**sets, "alone": ["ACTB", "NONE"]}, "linear", columns=X, min_size=2)  # of sets, not of views
    for table in (X, X.to_numpy(), sparse.csr_matrix(X)):  # positions need no names
        KernelAverageClassifier(kernels).fit(table, [0, 1, 0, 1])


def test_names_with_a_colon_are_found_as_they_are():
    (kernel,) = kernel_grid({"enhancers": ["chr1:10-20", "chr2:5-9"]}, "linear", columns=["chr2:5-9", "chr1:10-20"])
    assert (kernel.label, list(kernel.columns)) == ("linear on enhancers", [1, 0])


def test_names_of_another_kind_are_an_error():
    with pytest.raises(ValueError, match=r"no set has 1 of its genes.*columns 'ENSG00000141510'"):
        kernel_grid(SETS, columns=["ENSG00000141510"])
    with pytest.raises(TypeError, match="pass a dict of sets"):
        kernel_grid(None, columns=["MYC"])
