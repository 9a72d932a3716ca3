"""Reading tasks from files: what is understood, and what is refused with which words."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from multikernel.io.files import DataError
from multikernel.io.tables import (
    parse_view,
    read_dataset,
    read_features,
    read_table,
    read_test_kernels,
    select_columns,
)

HEADER = "petal_length,petal_width,gene_1,gene_2,species"
ROWS = ["1.5,0.2,3,4,setosa", "4.7,1.4,5,6,virginica", "1.3,0.3,7,8,setosa", "4.9,1.5,9,10,virginica"]


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def flowers(tmp_path):
    return write(tmp_path / "flowers.csv", HEADER, *ROWS)


def random_kernels(n_kernels, n, seed=0):
    factors = np.random.default_rng(seed).standard_normal((n_kernels, n, n))
    return factors @ factors.transpose(0, 2, 1)


# -- tables -------------------------------------------------------------------------------------------------


def test_a_csv_file_gives_numbers_and_text_labels(flowers):
    data = read_dataset(flowers, target="species")
    assert_array_equal(data.X, [[1.5, 0.2, 3, 4], [4.7, 1.4, 5, 6], [1.3, 0.3, 7, 8], [4.9, 1.5, 9, 10]])
    assert data.y.tolist() == ["setosa", "virginica", "setosa", "virginica"]
    assert data.feature_names == HEADER.split(",")[:-1]
    assert data.views == {"all": [0, 1, 2, 3]}
    assert data.describe() == "flowers.csv: 4 samples, 4 features in 1 view, 2 classes"


def test_views_keep_the_order_of_their_columns_and_unused_columns_are_left_out(flowers):
    data = read_dataset(flowers, target="species", views={"genes": "gene_*", "petal": "petal_width"})
    assert data.feature_names == ["petal_width", "gene_1", "gene_2"]
    assert data.views == {"genes": [1, 2], "petal": [0]}
    assert_array_equal(data.X[0], [0.2, 3, 4])


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_separators_are_seen_from_the_header(tmp_path, delimiter):
    lines = [line.replace(",", delimiter) for line in (HEADER, *ROWS)]
    data = read_dataset(write(tmp_path / "flowers.csv", *lines), target="species")
    assert data.X.shape == (4, 4)


def test_whole_numbers_are_integer_labels_and_a_usual_name_needs_no_telling(tmp_path):
    data = read_dataset(write(tmp_path / "a.tsv", "x\tLabel", "1\t2.0", "2\t7", "3\t2", "4\t7"))
    assert data.target == "Label"
    assert data.y.dtype.kind == "i"
    assert data.y.tolist() == [2, 7, 2, 7]


def test_parquet_gives_what_csv_gives(tmp_path, flowers):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(flowers)
    frame["species"] = frame["species"].astype("category")
    frame.iloc[::-1].iloc[::-1].to_parquet(tmp_path / "flowers.parquet")
    ours, theirs = (read_dataset(p, target="species") for p in (flowers, tmp_path / "flowers.parquet"))
    assert_array_equal(ours.X, theirs.X)
    assert_array_equal(ours.y, theirs.y)
    assert ours.feature_names == theirs.feature_names


def test_new_samples_are_read_by_the_names_of_the_model(tmp_path):
    path = write(tmp_path / "new.csv", "extra,b,a", "text,2,1", "text,4,3")
    X, _ = read_features(path, ["a", "b"])
    assert_array_equal(X, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match=r"lacks 1 of the 2 columns .* 'exta'; did you mean 'extra'"):
        read_features(path, ["a", "exta"])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b,y", "1,2,0", "3,4"], r"line 3: 2 fields, but the header has 3; the file may be truncated"),
        (["a,b,y", '1,"2,0', "3,4,1"], r"line 3: .* the file may be truncated"),
        (["a,b,y"], r"header of 3 columns and no rows"),
        (["a,a,y", "1,2,0"], r"column name 'a' occurs 2 times"),
        (["a,b,y", "1,2,0", "3,,1", "5,NA,0", "1,1,1"], r"2 values are missing .* column 'b', row 1"),
        (["a,b,y", "1,2,0", "3,inf,1", "5,1,0", "1,1,1"], r"1 values are missing or not finite.* 'b', row 1"),
        (["a,b,y", "1,2,0", "3,red,1", "5,1,0", "1,1,1"], r"'b' is not numeric: row 1 .* 'red'.*--drop b"),
        (
            ["a,b,y", "1,2,0", f"3,{'x' * 10**5},1", "5,1,0", "1,1,1"],
            r"row 1 .* 'x{60}'\. Leave it out with --drop b",
        ),
        (["a,b,y", "1,2,0", "3,4,0"], r"only one class \(0\) in 2 rows"),
        (["a,b,y", "1,2,0.5", "3,4,1"], r"looks continuous \(0.5\)"),
        (["a,b,y", "1,2,0", "3,4,", "3,4,1"], r"'y' is missing in 1 of 3 rows, first in row 1"),
        (
            ["a,b,y", *(f"1,2,id{i}" for i in range(9))],
            r"9 different values in 9 rows: is it the right column",
        ),
        (["y", "0", "1", "0", "1"], r"no column besides the target 'y'"),
    ],
)
def test_bad_tables_are_refused_with_the_place(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read_dataset(write(tmp_path / "bad.csv", *lines))


def test_a_missing_target_suggests_what_was_meant(flowers):
    with pytest.raises(DataError, match="no column 'speceis' for the target; did you mean 'species'"):
        read_dataset(flowers, target="speceis")
    with pytest.raises(DataError, match=r"no column is obviously the target; say which with --target"):
        read_dataset(flowers)


def test_the_target_cannot_be_a_feature(flowers):
    with pytest.raises(DataError, match="'species' is the target"):
        read_dataset(flowers, target="species", views={"a": "species,gene_1"})


def test_dropping_all_columns_of_a_view_is_an_error(flowers):
    with pytest.raises(DataError, match="no column is left in view 'g'"):
        read_dataset(flowers, target="species", views={"g": "gene_1"}, drop="gene_*")


# -- files that cannot be read -----------------------------------------------------------------------------


def test_a_missing_file_suggests_one_with_a_close_name(flowers):
    with pytest.raises(DataError, match=r"did you mean .*flowers\.csv"):
        read_table(flowers.with_name("flower.csv"))


def test_empty_unknown_and_binary_files_are_refused(tmp_path):
    (tmp_path / "empty.csv").touch()
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    (tmp_path / "latin.csv").write_bytes("a,y\n1,é\n".encode("latin-1"))
    (tmp_path / "zeros.csv").write_bytes(b"a,y\n\0\0\0")
    for name, message in {
        "empty.csv": "is empty",
        "image.png": "unknown file type '.png'; supported are .csv",
        "latin.csv": "is not UTF-8 text",
        "zeros.csv": "holds binary data",
        "": "is a folder",
    }.items():
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)


def make_npz(path):
    np.savez(path, X=np.random.default_rng(0).normal(size=(50, 8)), y=np.arange(50) % 2)


def make_mat(path):
    from scipy.io import savemat

    savemat(path, {"X": np.random.default_rng(0).normal(size=(50, 8)), "y": np.arange(50) % 2})


def make_parquet(path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": np.arange(50.0), "y": np.arange(50) % 2}).to_parquet(path)


@pytest.mark.parametrize(("ending", "make"), [("npz", make_npz), ("mat", make_mat), ("parquet", make_parquet)])
@pytest.mark.parametrize("kept", [0.01, 0.3, 0.9])
def test_truncated_files_are_refused_and_complete_ones_read(tmp_path, ending, make, kept):
    path = tmp_path / f"data.{ending}"
    make(path)
    assert read_dataset(path).X.shape[0] == 50
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) + 1])
    with pytest.raises(DataError, match="not a complete"):
        read_dataset(path)


def test_a_damaged_byte_in_an_archive_is_noticed(tmp_path):
    make_npz(tmp_path / "data.npz")
    content = bytearray((tmp_path / "data.npz").read_bytes())
    content[500] ^= 0xFF
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DataError, match="not a complete"):
        read_dataset(tmp_path / "data.npz")


def test_pickled_objects_in_an_archive_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", X=np.array([{1}, {2}], dtype=object), y=np.arange(2))
    with pytest.raises(DataError, match="'X' holds pickled objects, which may run code"):
        read_dataset(tmp_path / "objects.npz")


def test_matlab_73_files_say_how_to_save_them(tmp_path):
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    (tmp_path / "new.mat").write_bytes(header + b"\x89HDF\r\n\x1a\n" + bytes(500))
    with pytest.raises(DataError, match=r"MATLAB 7\.3 .*'-v7'"):
        read_dataset(tmp_path / "new.mat")


# -- archives ---------------------------------------------------------------------------------------------


def test_every_array_of_an_archive_is_a_view(tmp_path):
    rng = np.random.default_rng(0)
    colour, shape = rng.normal(size=(6, 3)), rng.normal(size=(6, 2, 2))
    np.savez(tmp_path / "v.npz", colour=colour, shape=shape, y=np.arange(6) % 2, names=np.array(["a", "b"]))
    data = read_dataset(tmp_path / "v.npz")
    assert data.views == {"colour": [0, 1, 2], "shape": [3, 4, 5, 6]}
    assert_array_equal(data.X, np.hstack([colour, shape.reshape(6, 4)]))
    chosen = read_dataset(tmp_path / "v.npz", views={"few": "shape.1:shape.3,colour.0", "colour": "colour"})
    assert chosen.feature_names == ["colour.0", "colour.1", "colour.2", "shape.1", "shape.2", "shape.3"]
    assert chosen.views == {"few": [3, 4, 5, 0], "colour": [0, 1, 2]}
    X, _ = read_features(tmp_path / "v.npz", chosen.feature_names)
    assert_array_equal(X, chosen.X)


def test_views_of_different_lengths_are_refused_unless_chosen(tmp_path):
    np.savez(tmp_path / "v.npz", a=np.ones((6, 3)), b=np.ones((5, 2)), y=np.arange(6) % 2)
    with pytest.raises(DataError, match="'b' has 5 rows, but 'y' has 6"):
        read_dataset(tmp_path / "v.npz")
    assert read_dataset(tmp_path / "v.npz", views={"a": "a"}).X.shape == (6, 3)


def test_names_of_classes_are_not_taken_for_labels(tmp_path):
    arrays = {"X": np.ones((6, 3)), "classes": np.array(["a", "b"])}
    np.savez(tmp_path / "v.npz", **arrays, y_train=np.arange(6) % 2, y_test=np.arange(4) % 2)
    assert read_dataset(tmp_path / "v.npz").target == "y_train"
    np.savez(tmp_path / "v.npz", **arrays, answer=np.arange(6) % 2)
    with pytest.raises(DataError, match="no column is obviously the target; say which with --target"):
        read_dataset(tmp_path / "v.npz")
    assert read_dataset(tmp_path / "v.npz", target="answer").y.tolist() == [0, 1, 0, 1, 0, 1]


def test_several_labels_a_sample_are_refused(tmp_path):
    np.savez(tmp_path / "v.npz", X=np.ones((6, 3)), Y=np.ones((6, 2)))
    with pytest.raises(DataError, match=r"shape \(6, 2\): expected one label per sample"):
        read_dataset(tmp_path / "v.npz")


# -- precomputed kernels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_kernels", [1, 3, 8])
@pytest.mark.parametrize("samples_first", [False, True])
def test_kernels_are_found_in_both_orders_even_with_as_many_kernels_as_samples(tmp_path, n_kernels, samples_first):
    K = random_kernels(n_kernels, 8)
    np.savez(tmp_path / "k.npz", K=np.moveaxis(K, 0, -1) if samples_first else K, y=np.arange(8) % 2)
    data = read_dataset(tmp_path / "k.npz")
    assert data.is_precomputed
    assert data.X.shape == (8, 8, n_kernels)
    assert_array_equal(data.X, np.moveaxis(K, 0, -1))
    assert data.kernel_names == [f"K[{f}]" for f in range(n_kernels)]


def test_kernels_first_arrays_are_not_copied_into_another_order(tmp_path):
    np.savez(tmp_path / "k.npz", K=random_kernels(3, 8), y=np.arange(8) % 2)
    assert np.moveaxis(read_dataset(tmp_path / "k.npz").X, -1, 0).flags.c_contiguous


def test_kernel_names_come_from_a_list_of_the_right_length(tmp_path):
    names = np.array(["colour", "shape", "text"])
    np.savez(tmp_path / "k.npz", K=random_kernels(3, 8), y=np.arange(8) % 2, names=names)
    assert read_dataset(tmp_path / "k.npz").kernel_names == names.tolist()


def test_a_cell_of_kernels_and_a_cell_of_labels_in_matlab(tmp_path):
    from scipy.io import savemat

    K = random_kernels(2, 4)
    cell = np.empty(2, dtype=object)
    cell[:] = list(K)
    labels = np.array(["cat", "dog", "cat", "dog"], dtype=object)
    savemat(tmp_path / "k.mat", {"K": cell, "labels": labels})
    data = read_dataset(tmp_path / "k.mat")
    assert data.kernel_names == ["K{1}", "K{2}"]
    assert_array_equal(data.X, np.moveaxis(K, 0, -1))
    assert data.y.tolist() == ["cat", "dog", "cat", "dog"]


def test_square_features_are_kernels_only_when_asked(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 6))
    np.savez(tmp_path / "k.npz", X=X, y=np.arange(6) % 2)
    assert not read_dataset(tmp_path / "k.npz").is_precomputed
    assert read_dataset(tmp_path / "k.npz", precomputed=True).X.shape == (6, 6, 1)


def test_one_of_several_stacks_is_chosen_by_name(tmp_path):
    a, b = random_kernels(2, 6), random_kernels(3, 6)
    np.savez(tmp_path / "k.npz", a=a, b=b, y=np.arange(6) % 2)
    with pytest.raises(DataError, match=r"2 arrays of kernels: choose one with --precomputed NAME"):
        read_dataset(tmp_path / "k.npz")
    assert_array_equal(read_dataset(tmp_path / "k.npz", precomputed="b").X, np.moveaxis(b, 0, -1))
    with pytest.raises(DataError, match="no array 'c'"):
        read_dataset(tmp_path / "k.npz", precomputed="c")


def test_missing_values_in_a_kernel_are_located(tmp_path):
    K = random_kernels(3, 6)
    K[1, 2, 3] = np.nan
    np.savez(tmp_path / "k.npz", K=K, y=np.arange(6) % 2)
    with pytest.raises(DataError, match=r"kernel 1 has 1 values .* first at \(2, 3\)"):
        read_dataset(tmp_path / "k.npz")


def test_kernels_that_do_not_fit_the_labels_are_refused(tmp_path):
    np.savez(tmp_path / "k.npz", K=random_kernels(3, 6), y=np.arange(5) % 2)
    with pytest.raises(DataError, match=r"kernels of 5 samples have shape \(F, 5, 5\) .* K \(3, 6, 6\)"):
        read_dataset(tmp_path / "k.npz", precomputed=True)


@pytest.mark.parametrize("order", ["kernels first", "samples first", "separate"])
def test_kernels_of_new_samples_are_found_in_each_order(tmp_path, order):
    K = np.random.default_rng(0).normal(size=(3, 4, 7))
    arrays = {"kernels first": {"K": K}, "samples first": {"K": np.moveaxis(K, 0, -1)}}
    np.savez(tmp_path / "k.npz", **arrays.get(order, {f"K{f}": K[f] for f in range(3)}))
    assert_array_equal(read_test_kernels(tmp_path / "k.npz", 3, 7), np.moveaxis(K, 0, -1))
    with pytest.raises(DataError, match=r"\(2, m, 7\) or \(m, 7, 2\); found K"):
        read_test_kernels(tmp_path / "k.npz", 2, 7)


# -- choosing columns -------------------------------------------------------------------------------------

COLUMNS = ["id", "gene_1", "gene_2", "age", "7"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("age", [3]),
        ("gene_2:age", [2, 3]),
        ("gene_1:", [1, 2, 3, 4]),
        (":2", [0, 1]),
        ("-2:", [3, 4]),
        ("2", [2]),
        ("-1", [4]),
        ("7", [4]),
        ("gene_*,age,gene_1", [1, 2, 3]),
        ("g?ne_[2-9]", [2]),
        ("block", [0, 3]),
        ("b*k", [0, 3]),
    ],
)
def test_columns_are_selected_by_name_position_range_and_pattern(selector, expected):
    assert select_columns(selector, COLUMNS, {"block": [0, 3]}) == expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("gene_3", "no column 'gene_3'; did you mean 'gene_"),
        ("gen*e", "no column matches 'gen.e'; did you mean"),
        ("9", "no column number 9: the 5 columns are numbered from 0"),
        ("3:2", "the range '3:2' is empty"),
        ("aeg:", "no column 'aeg'; did you mean 'age'"),
        ("age,,id", "an empty entry"),
    ],
)
def test_selectors_that_name_nothing_say_so(selector, message):
    with pytest.raises(DataError, match=message):
        select_columns(selector, COLUMNS)


@pytest.mark.parametrize("text", ["petals", "=a", "petals=", " = "])
def test_a_view_without_name_or_columns_is_refused(text):
    with pytest.raises(ValueError, match="should be name=columns"):
        parse_view(text)
