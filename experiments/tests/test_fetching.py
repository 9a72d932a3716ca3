"""Downloads from a server on this machine, and conversion of small files in the public formats."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from multikernel_experiments import converters, sources
from multikernel_experiments.archives import Archives
from multikernel_experiments.download import download
from multikernel_experiments.standins import MAKERS

from multikernel.cli import main
from multikernel.io.files import DataError

CONTENT = np.random.default_rng(0).bytes(300_000)
SUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves the content: whole, in parts, broken off, or not at all, by the path that is asked for."""

    def do_GET(self):
        content = self.server.content
        self.server.requests.append((self.path, self.headers.get("Range")))
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/busy" and len(self.server.requests) < 3:
            self.send_error(503)
            return
        start = self.headers.get("Range")
        start = int(start.removeprefix("bytes=").removesuffix("-")) if start and self.path != "/no-range" else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        breaks = self.path == "/breaks" and len(self.server.requests) == 1
        self.wfile.write(content[start : 100_000 if breaks else None])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        found.requests, found.content = [], CONTENT
        found.address = f"http://127.0.0.1:{found.server_port}"
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_a_file_arrives_whole_and_is_not_fetched_twice(server, tmp_path):
    path = tmp_path / "new" / "file"
    seen = []
    assert download(server.address + "/file", path, sha256=SUM, progress=lambda *step: seen.append(step)) == SUM
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert download(server.address + "/file", path, sha256=SUM) == SUM
    assert len(server.requests) == 1


def test_a_partial_file_is_completed(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT[:120_000])
    download(server.address + "/file", tmp_path / "file", sha256=SUM)
    assert server.requests == [("/file", "bytes=120000-")]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_connection_that_breaks_is_tried_again_from_there(server, tmp_path):
    download(server.address + "/breaks", tmp_path / "file", sha256=SUM, wait=0.0)
    assert server.requests == [("/breaks", None), ("/breaks", "bytes=100000-")]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_everything_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    download(server.address + "/no-range", tmp_path / "file", sha256=SUM)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_is_whole_already_is_taken(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert download(server.address + "/file", tmp_path / "file", sha256=SUM) == SUM
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"more")
    assert download(server.address + "/file", tmp_path / "file", sha256=SUM) == SUM


def test_a_wrong_sum_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(DataError, match=f"has the SHA-256 sum {SUM}, not {'0' * 64}"):
        download(server.address + "/file", tmp_path / "file", sha256="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_without_a_known_sum_that_of_the_first_download_counts(server, tmp_path):
    download(server.address + "/file", tmp_path / "file")
    assert (tmp_path / "file.sha256").read_text().strip() == SUM
    (tmp_path / "file").write_bytes(b"changed")
    with pytest.raises(DataError, match="was removed"):
        download(server.address + "/file", tmp_path / "file")
    assert download(server.address + "/file", tmp_path / "file") == SUM


def test_what_the_server_refuses_is_said_at_once(server, tmp_path):
    with pytest.raises(DataError, match=r"answers 404 Not Found\. Download it by hand and put it at"):
        download(server.address + "/missing", tmp_path / "file", wait=0.0)
    assert len(server.requests) == 1
    assert download(server.address + "/busy", tmp_path / "file", wait=0.0) == SUM


def test_no_answer_and_other_addresses_are_explained(tmp_path):
    with pytest.raises(DataError, match=r"cannot be fetched.*nothing arrived"):
        download("http://127.0.0.1:9/file", tmp_path / "file", tries=2, wait=0.0, timeout=2.0)
    with pytest.raises(DataError, match="not an http or https address"):
        download("file:///etc/hosts", tmp_path / "file")


def idx(array):
    """Unsigned bytes in the IDX format."""
    return b"\x00\x00\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx_files_become_the_arrays_of_mnist(tmp_path):
    rng = np.random.default_rng(1)
    arrays = {
        "train-images": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "train-labels": rng.integers(0, 10, 5, dtype=np.uint8),
        "t10k-images": rng.integers(0, 256, (3, 28, 28), dtype=np.uint8),
        "t10k-labels": rng.integers(0, 10, 3, dtype=np.uint8),
    }
    files = {}
    for k, (name, array) in enumerate(arrays.items()):
        files[name] = tmp_path / name
        files[name].write_bytes(gzip.compress(idx(array)) if k % 2 else idx(array))
    made = converters.mnist(files)
    np.testing.assert_array_equal(made["X_train"], arrays["train-images"])
    np.testing.assert_array_equal(made["y_test"], arrays["t10k-labels"])
    files["train-labels"].write_bytes(idx(arrays["train-labels"])[:-1])
    with pytest.raises(DataError, match="its head says 5"):
        converters.mnist(files)
    files["train-labels"].write_bytes(b"\x00\x00\x0d\x01")
    with pytest.raises(DataError, match="not an IDX file"):
        converters.mnist(files)


@pytest.mark.parametrize("nested", [False, True])
def test_the_zip_of_multiple_features_becomes_six_views(tmp_path, nested):
    rng = np.random.default_rng(2)
    views = {name: rng.integers(0, 9, (20, k + 1)) for k, name in enumerate(converters.MFEAT_VIEWS)}
    texts = {
        f"mfeat-{name}": "\n".join("  " + " ".join(map(str, row)) for row in view).encode()
        for name, view in views.items()
    }
    path = tmp_path / "features.zip"
    with zipfile.ZipFile(path, "w") as archive:
        if nested:
            stream = io.BytesIO()
            with tarfile.open(fileobj=stream, mode="w") as inner:
                for name, text in texts.items():
                    info = tarfile.TarInfo(f"mfeat/{name}")
                    info.size = len(text)
                    inner.addfile(info, io.BytesIO(text))
            archive.writestr("mfeat.tar", stream.getvalue())
        else:
            for name, text in texts.items():
                archive.writestr(name, text)
    made = converters.mfeat({"mfeat": path})
    for k, name in enumerate(converters.MFEAT_VIEWS):
        np.testing.assert_array_equal(made[f"view_{k:02d}"], views[name])
    assert made["y"].tolist() == np.repeat(np.arange(10), 2).tolist()
    with pytest.raises(DataError, match="has no file other"):
        converters.member(path, "other")


def test_tables_of_the_uci_repository_keep_order_and_drop_what_is_no_feature(tmp_path):
    texts = {
        "Ionosphere": "1,0,0.5,g\n0,0,-0.25,b\n",
        "LetterRecognition": "T,2,8\nI,5,12\nA,1,1\n",
        "BreastCancer": "1000025,5,1,2\n1002945,?,4,4\n1015425,3,1,4\n",
    }
    files = {}
    for name, text in texts.items():
        files[name] = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(files[name], "w") as archive:
            archive.writestr(f"folder/{converters.UCI[name][0]}", text)
    made = converters.uci(files)
    assert made["Ionosphere_X"].tolist() == [[1.0, 0.5], [0.0, -0.25]]
    assert made["Ionosphere_y"].tolist() == [1, 0]
    assert made["LetterRecognition_y"].tolist() == [2, 1, 0]
    assert made["BreastCancer_X"].tolist() == [[5.0, 1.0], [3.0, 1.0]]
    with pytest.raises(DataError, match=r"lines have \[2, 3\] columns"):
        converters.table(b"1,2\n1,2,3\n")
    with pytest.raises(DataError, match="could not convert"):
        converters.table(b"a,2\n1,2\n")


def test_files_of_libsvm_become_two_views_and_labels(tmp_path):
    files = {"train": tmp_path / "a", "test": tmp_path / "b"}
    files["train"].write_bytes(bz2.compress(b"6,7,11 1:0.5 80:0.25\n0 103:1.0\n"))
    files["test"].write_bytes(b"13 79:-1.0\n")
    made = converters.yeast(files)
    assert made["view_00"].shape == (3, 79)
    assert made["view_01"].shape == (3, 24)
    assert (made["view_00"][0, 0], made["view_01"][0, 0], made["view_01"][1, 23]) == (0.5, 0.25, 1.0)
    assert [np.flatnonzero(row).tolist() for row in made["Y"]] == [[6, 7, 11], [0], [13]]


@pytest.mark.parametrize("name", list(sources.SOURCES))
def test_the_sums_of_contents_are_those_of_the_archives(name, data_home):
    source = sources.SOURCES[name]
    archive = np.load(data_home / source.archive, allow_pickle=False)
    assert [text for text in sources.differences(source, archive) if "exactly" in text] == []


def test_every_archive_is_fetched_or_explained():
    fetched = {source.archive for source in sources.SOURCES.values()}
    assert fetched | set(sources.NOT_FETCHED) == set(MAKERS)
    assert not fetched & set(sources.NOT_FETCHED)
    for source in sources.SOURCES.values():
        assert all(part.url.startswith("https://") for part in source.parts.values())
        assert source.licence


def test_an_archive_is_fetched_converted_and_read(tmp_path, server, monkeypatch, capsys):
    server.content = b"1.0,2.0,R\n3.0,4.0,M\n"
    part = sources.Part(server.address + "/sonar.zip", "sonar.zip", content="0" * 64)
    monkeypatch.setitem(sources.SOURCES, "uci", replace(sources.SOURCES["uci"], parts={"Sonar": part}))
    assert main(["data", "uci", "--data-home", str(tmp_path / "data")]) == 0
    captured = capsys.readouterr()
    assert "note: Sonar in uci_pack.npz is not exactly the one" in captured.err
    assert captured.out.strip() == str(tmp_path / "data" / "uci_pack.npz")
    made = Archives(tmp_path / "data").load("uci_pack.npz")
    assert made["Sonar_X"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert made["Sonar_y"].tolist() == [1, 0]
    assert main(["data", "uci", "--data-home", str(tmp_path / "data")]) == 1
    assert "is there already" in capsys.readouterr().err


def test_the_list_says_what_is_at_hand_and_how_to_get_the_rest(tmp_path, monkeypatch, capsys):
    (tmp_path / "mnist.npz").write_bytes(b"")
    assert main(["data", "--data-home", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "mnist.npz (at hand)" in shown
    assert "mfeat.npz (missing)" in shown
    assert "multikernel data mfeat" in shown
    assert "D_triu" in shown
    monkeypatch.delenv("MULTIKERNEL_DATA", raising=False)
    assert main(["data", "mnist"]) == 2
    assert "--data-home" in capsys.readouterr().err
    assert main(["data", "mnits", "--data-home", str(tmp_path)]) == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err
