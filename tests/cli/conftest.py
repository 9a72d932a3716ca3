"""Commands, each in a folder of its own."""

import pytest

from multikernel.cli import main


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys):
    """Run a command; gives the exit code, standard output and standard error."""

    def call(*arguments):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as error:
            code = error.code
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call
