"""Atomic writing: a file is complete or as it was before."""

import os
import stat

import pytest

from multikernel.io.files import atomic_write, near_matches, write_text


def test_the_old_content_stays_until_everything_is_written(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
def test_a_failure_halfway_leaves_neither_half_a_file_nor_a_temporary_one(tmp_path, problem):
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail_halfway():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise problem

    with pytest.raises(problem):
        fail_halfway()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.skipif(os.name == "nt", reason="permission bits are POSIX")
def test_permissions_are_those_of_an_ordinary_file_or_of_the_file_replaced(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    written = tmp_path / "written"
    write_text(written, "text")
    assert stat.S_IMODE(written.stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)
    written.chmod(0o640)
    write_text(written, "again")
    assert stat.S_IMODE(written.stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="links need privileges there")
def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="named pipes are POSIX")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    import threading

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_text, args=(pipe, "through"))
    writer.start()
    assert pipe.read_text() == "through"
    writer.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open files have no names")
def test_a_link_to_a_pipe_without_a_name_is_written_to():
    reader, writer = os.pipe()
    write_text(f"/dev/fd/{writer}", "through")
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert stream.read() == "through"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_text(tmp_path / "nowhere" / "file", "text")


def test_a_folder_is_not_written_over(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_text(tmp_path, "text")


def test_near_matches_ignore_case_and_fall_back_to_what_there_is():
    assert near_matches("Specis", ["age", "SPECIES"]) == "did you mean 'SPECIES'?"
    assert near_matches("zzz", [f"c{i}" for i in range(10)]).endswith("and 2 more")
    assert near_matches("zzz", []) == "there are none"
