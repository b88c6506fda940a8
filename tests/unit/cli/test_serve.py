"""`dragoman serve`: errors before anything is served, with exit code 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import leave
from dragoman.cli.commands.serve import log_request
from dragoman.errors import SearchError
from dragoman.modeldir.info import ModelInfo
from dragoman.serve.models.loading import model_directories, model_languages
from dragoman.serve.server import PortError, bind, exposure_notes, own_names, server_url
from raising import raises
from small_model import model_at


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_at(tmp_path_factory.mktemp("serve") / "numbers")


def test_a_port_in_use_is_a_line(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = leave(capsys, "serve", str(model), "--port", str(port))
    assert (code, out) == (2, "")
    assert err.startswith(f"dragoman: cannot listen on 127.0.0.1:{port}: address already in use; ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["{model}/nowhere"], "nowhere"),
        (["{model}", "{model}"], "two models have the name 'numbers'"),
        (["{model}", "--host", "no such host"], "unknown host 'no such host'"),
        (["{model}", "--host", "192.0.2.1"], "--host must be an address of this machine, such as 127.0.0.1"),
        (["{model}", "--beam", "17"], "beam=17 is over max_beam=16"),
        (["{model}", "--max-queue", "0"], "max_queue must be at least 1; got 0"),
        (["{model}", "--timeout", "0"], "timeout must be over 0 and at most 86,400 seconds; got 0"),
        (["{model}", "--timeout", "nan"], "timeout must be over 0"),
        (["{model}", "--root-path", "mt/"], "--root-path 'mt/' must start with / and not end with /"),
        (["{model}", "--allowed-host", "https://a.org"], "--allowed-host 'https://a.org' must be a name without"),
        (["{model}", "--allowed-host", "a.org:443"], "--allowed-host 'a.org:443' must be a name without"),
        (["{model}", "--port", "0", "--device", "gpu"], "gpu"),
        (["a={model}", "b={model}", "--languages", "en-es"], "as in en-es=DIRECTORY"),
        (["{model}", "--languages", "english"], "such as en-es; got 'english'"),
    ],
)
def test_a_mistake_is_a_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], model: Path, args: list[str], message: str
) -> None:
    code, out, err = leave(capsys, "serve", *(arg.format(model=model) for arg in args))
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path, model: Path) -> None:
    hide = "import sys; sys.modules['fastapi'] = None; sys.modules['uvicorn'] = None\n"
    code = hide + "from importlib import util; find = util.find_spec\n"
    code += "util.find_spec = lambda name: None if name in ('fastapi', 'uvicorn') else find(name)\n"
    code += f"from dragoman.cli import main; main(['serve', {str(model)!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "dragoman: serving needs the package 'fastapi'; install it with: pip install 'dragoman[serve]'\n"
    )


def test_models_are_named_by_the_caller_or_by_their_directory(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_directories([str(model), f"other={model}"]) == {"numbers": model, "other": model}
    monkeypatch.setenv("DRAGOMAN_MODELS", str(model.parent))
    assert model_directories(["numbers", "a=numbers"]) == {"numbers": model, "a": model}
    odd = model_at(model.parent / "a=b")
    assert model_directories([str(odd)]) == {"a=b": odd}
    with raises(SearchError, "duplicate_name", "'numbers'", "NAME="):
        model_directories([str(model), f"numbers={odd}"])


@pytest.mark.parametrize(
    ("name", "title", "expected"),
    [
        ("en-de", None, ("en", "de")),
        ("xx-yy", None, None),
        ("mine", None, None),
        ("my-rot", "# train.en to train.de\n", ("en", "de")),
        ("de-en", "# train.en to train.de\n", ("de", "en")),
        ("mine", "# train.en to train.de\n", ("en", "de")),
        ("mine", "# corpus.clean.zh.gz to corpus.clean.en.gz\n", ("zh", "en")),
        ("mine", "# en to fr\n", ("en", "fr")),
        ("mine", "# source to target\n", None),
        ("mine", "# books to train.txt\n", None),
        ("my-run", None, None),  # Burmese, and the code of three letters for Rundi, which has rn
        ("my-run", "# train.en to train.de\n", ("en", "de")),
        ("my-rn", None, ("my", "rn")),
        ("eng-deu", None, ("en", "de")),
        ("en-gsw", None, ("en", "gsw")),
        ("gsw-en", None, ("gsw", "en")),
        ("eng-de", None, None),
        ("pt_BR-en_GB", None, ("pt", "en")),
        ("en-zh_Hans", None, ("en", "zh")),
        ("sr_Latn_RS-en", None, ("sr", "en")),
        ("zh-Hans", None, None),
        ("en-de-v2", None, None),
    ],
)
def test_languages_come_from_the_name_or_from_the_card(
    tmp_path: Path, name: str, title: str | None, expected: tuple[str, str] | None
) -> None:
    (tmp_path / "model.json").write_text('{"vocabulary": 300}')  # written before it had languages
    if title is not None:
        (tmp_path / "card.md").write_text(title + "\nmore\n", encoding="utf-8")
    assert model_languages(name, tmp_path) == expected


def test_of_a_directory_that_nobody_named_the_model_is_believed_first(tmp_path: Path) -> None:
    directory = tmp_path / "my-new"  # Burmese and Newari, by chance
    directory.mkdir()
    (directory / "model.json").write_text(ModelInfo(300).to_json())
    assert model_languages("my-new", directory) == ("my", "new")
    (directory / "model.json").write_text(ModelInfo(300, ("en",), ("de",)).to_json())
    assert model_languages("my-new", directory) == ("en", "de")
    assert model_languages("fr-it", directory) == ("fr", "it")


def test_a_name_without_a_model_is_refused() -> None:
    with raises(SearchError, "missing_option", "'en-de='", "NAME=DIRECTORY"):
        model_directories(["en-de="])


def test_the_address_is_one_that_a_browser_can_open() -> None:
    with bind("0.0.0.0", 0) as taken:
        assert server_url(taken) == f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("host", "token", "mentions"),
    [
        ("127.0.0.1", False, []),
        ("0.0.0.0", False, ["http://translator:{port}/mt", "--api-token"]),
        ("0.0.0.0", True, ["http://translator:{port}/mt"]),
    ],
)
def test_a_server_for_other_machines_says_its_address_and_that_it_has_no_token(
    host: str, token: bool, mentions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "translator")
    with bind(host, 0) as bound:
        notes = exposure_notes(bound, token, "/mt")
        assert own_names(bound) == (["translator"] if host == "0.0.0.0" else [])
        assert len(notes) == len(mentions)
        for line, mention in zip(notes, mentions, strict=True):
            assert mention.format(port=bound.getsockname()[1]) in line


def test_a_port_that_is_bound_refuses_connections_until_it_is_served() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(ConnectionRefusedError):
        socket.create_connection(taken.getsockname()[:2], timeout=5).close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may bind every port")
def test_a_port_that_may_not_be_bound() -> None:
    with raises(PortError, "port_unavailable", "permission denied"):
        bind("127.0.0.1", 1)


def test_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    log_request("POST", "/v1/translate", 200, 0.0124)
    assert capsys.readouterr().err[19:] == " POST /v1/translate 200 12 ms\n"
