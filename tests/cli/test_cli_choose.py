"""Which model is used, from options and environment alone; and that no key goes where it does not belong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.runs.choose import LOCAL_KEY, Embedded, Endpoint, Search, plan_model, show_url
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
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigError, match="is not a server URL"):
        plan_model("m", url, {})


def test_passwords_in_addresses_are_not_shown():
    assert show_url("https://user:secret@host:1/v1?key=secret#secret") == "https://host:1/v1"
    with pytest.raises(ConfigError) as caught:
        plan_model("m", "ftp://user:secret@host/v1", {})
    assert "secret" not in str(caught.value)


def test_what_is_used_is_always_said_even_when_quiet(pal):
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
        "try: _open_embedded(Embedded('local', ''), 'off', print, print)\n"
        "except ConfigError as error: print(error)\n"
    )
    env = {**os.environ, "PAL_HOME": str(tmp_path)}  # where no server runs that could be joined
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    for way in ("OPENAI_API_KEY", "ollama serve", "pip install '.[local]'"):
        assert way in done.stdout
