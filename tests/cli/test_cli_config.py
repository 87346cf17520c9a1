"""Settings in files: which hold, who may say what, and that no stranger's file is followed unasked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.screens import Screen

from llm_client_conformance.protocols import MessagesServer
from pure_agent_loop.support.terminal import width_of
from pure_agent_loop.support.variables import KNOWN
from pure_agent_loop.testing import ScriptedServer, answer, call
from pure_agent_loop.testing.faults import status

if sys.platform != "win32":
    from terminal import Terminal

THERE = "https://models.example/v1"


@pytest.fixture
def user(pal):
    """Writes the user's own file."""
    path = Path(pal.env["PAL_HOME"]) / "pal.toml"
    path.parent.mkdir(parents=True)
    return lambda text: path.write_text(text, encoding="utf-8")


@pytest.fixture
def project(pal):
    return lambda text: (pal.workspace / "pal.toml").write_text(text, encoding="utf-8")


def shown(pal, *words, **env):
    done = pal("config", "show", "--json", *words, **env)
    assert done.returncode == 0, done.stderr
    return {
        name: (each["value"], each["origin"]) for name, each in json.loads(done.stdout)["settings"].items()
    }


class TestWhichHolds:
    def test_typed_then_profile_then_environment_then_project_then_user_then_default(
        self, pal, user, project
    ):
        assert shown(pal)["model"] == (None, "default")
        user('model = "of-user"\n[profiles.work]\nmodel = "of-profile"\n')
        assert shown(pal)["model"][0] == "of-user"
        project('model = "of-project"\n')
        assert shown(pal)["model"][0] == "of-user"  # nobody has trusted it
        value, origin = shown(pal, "--trust-folder")["model"]
        assert (value, origin) == ("of-project", str(pal.workspace / "pal.toml"))
        assert shown(pal, "--trust-folder", OPENAI_MODEL="of-openai")["model"] == (
            "of-openai",
            "OPENAI_MODEL",
        )
        assert shown(pal, "--trust-folder", PAL_MODEL="of-pal")["model"] == ("of-pal", "PAL_MODEL")
        value, origin = shown(pal, "--trust-folder", "-P", "work", PAL_MODEL="of-pal")["model"]
        assert (value, origin.split(" of ")[0]) == ("of-profile", "profile work")
        with ScriptedServer(["Hi."]) as server:
            env = {"PAL_BASE_URL": server.base_url, "PAL_MODEL": "of-pal"}
            done = pal("--no-tools", "-P", "work", "-m", "typed", "hi", **env)
        assert "using typed at" in done.stderr

    def test_fallbacks_are_servers_by_name_other_protocols_or_models_of_the_same_server(self, pal, user):
        def down(request):
            asked.append((request.body["model"], request.headers["authorization"]))
            return status(503, "down") if request.body["model"] != "small" else "From small."

        asked = []
        with (
            ScriptedServer(handler=down) as server,
            ScriptedServer(handler=down) as other,
            MessagesServer(["From Claude."]) as claude,
        ):
            user(
                f'base_url = "here"\nfallback = ["there", "anthropic:claude-opus-4-6"]\n'
                f'[servers.here]\nbase_url = "{server.base_url}"\nmodel = "big"\n'
                f'[servers.there]\nbase_url = "{other.base_url}"\nmodel = "mid"\napi_key_env = "MID_KEY"\n'
            )
            keys = {
                "PAL_API_KEY": "key-of-here",
                "MID_KEY": "key-of-mid",
                "ANTHROPIC_API_KEY": "key-of-claude",
            }
            done = pal("--no-tools", "hi", ANTHROPIC_BASE_URL=claude.base_url, **keys)
            assert done.stdout.strip() == "From Claude."
            assert "big failed" in done.stderr
            assert asked == [("big", "Bearer key-of-here"), ("mid", "Bearer key-of-mid")]
            assert claude.requests[0].headers["x-api-key"] == "key-of-claude"
            done = pal("--no-tools", "--fallback", "small", "hi", **keys)
            assert done.stdout.strip() == "From small."
            assert asked[2:] == [("big", "Bearer key-of-here"), ("small", "Bearer key-of-here")]

    def test_the_model_the_limits_and_the_rules_reach_the_run(self, pal, user):
        (pal.workspace / "a.txt").write_text("text")
        with ScriptedServer([answer("", call("read_file", path="a.txt")), "No."]) as server:
            user(
                f'base_url = "here"\ntools = ["read_file", "grep"]\ntemperature = 0.1\n'
                f'[rules]\ndeny = ["read_file(path=*.txt)"]\n[limits]\nmax_turns = 1\n'
                f'[servers.here]\nbase_url = "{server.base_url}"\nmodel = "qwen"\n'
            )
            done = pal("--output-format", "json", "read a")
        first, last = server.requests[0].body, server.requests[-1].messages
        assert (first["model"], first["temperature"]) == ("qwen", 0.1)
        assert [each["function"]["name"] for each in first["tools"]] == ["read_file", "grep"]
        assert "denied" in json.dumps(last) or "not allowed" in json.dumps(last)
        assert (done.returncode, json.loads(done.stdout)["stop_reason"]) == (3, "max_steps")
        assert "selected by" in done.stderr
        assert "pal.toml" in done.stderr

    def test_rules_add_up(self, pal, user, project):
        user('[rules]\ndeny = ["fetch"]\nallow = ["edit_file"]\n')
        project('[rules]\ndeny = ["shell(rm *)"]\n')
        found = shown(pal, "--trust-folder")
        assert found["rules.deny"][0] == ["shell(rm *)", "fetch"]
        assert found["rules.allow"][0] == ["edit_file"]

    def test_sessions_theme_and_language(self, pal, user):
        user('sessions = false\ntheme = "plain"\nlanguage = "zh"\n')
        with ScriptedServer([answer("", call("nope")), "Hi."]) as server:
            pal.use(server)
            done = pal("run", "hi", FORCE_COLOR="1")
        assert "to go on" not in done.stderr
        assert "\x1b[" in done.stderr  # the variable goes before the file
        assert re.search("[\u4e00-\u9fff]", json.dumps(server.requests[-1].messages, ensure_ascii=False))
        with ScriptedServer(["Hi."]) as server:
            pal.use(server)
            assert "\x1b[" not in pal("run", "hi", "--theme", "plain", FORCE_COLOR="1").stderr

    def test_a_server_brings_its_model_and_its_own_key(self, pal, user):
        with ScriptedServer(["Hi.", "Hi."]) as server:
            user(
                f'model = "for-others"\n[servers.work]\nbase_url = "{server.base_url}"\n'
                'api_key_env = "WORK_KEY"\nmodel = "big"\n'
            )
            keys = {"WORK_KEY": "work-secret-1", "OPENAI_API_KEY": "openai-secret"}
            done = pal("--no-tools", "--base-url", "work", "hi", **keys)
            assert done.returncode == 0, done.stderr
            assert pal("--no-tools", "--base-url", "work", "-m", "small", "hi", **keys).returncode == 0
            missing = pal("--no-tools", "--base-url", "work", "hi", OPENAI_API_KEY="openai-secret")
        assert [each.body["model"] for each in server.requests] == ["big", "small"]
        assert {each.headers["authorization"] for each in server.requests} == {"Bearer work-secret-1"}
        assert missing.returncode == 2
        assert "WORK_KEY is not set" in missing.stderr

    def test_a_profile_that_is_not_there(self, pal, user):
        user("[profiles.work]\n")
        done = pal("-P", "wrok", "hi")
        assert done.returncode == 2
        assert "--profile: unknown profile 'wrok'. Did you mean work? Available: work." in done.stderr

    def test_rules_of_a_file_are_for_runs_without_the_tool_too(self, pal, user):
        user('[rules]\ndeny = ["fetch", "shel"]\n')
        for words, said in (([], "Did you mean 'shell'?"), (["--no-tools"], "")):
            with ScriptedServer(["Hi."]) as server:
                pal.use(server)
                done = pal("run", *words, "hi")
            assert done.returncode == 0
            assert said in done.stderr
            assert said or "match no call" not in done.stderr
        assert pal("--deny", "shel", "hi").returncode == 2  # typed for this run

    def test_documented_settings_work(self, pal, user):
        text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)
        user("\n".join(blocks))
        found = shown(pal, "-P", "careful")
        assert (found["model"][0], found["permission_mode"][0]) == ("big-model", "plan")
        assert found["limits.price"][0] == "0.15,0.6"
        assert set(re.findall(r"^(\w+) = ", blocks[0], re.M)) <= {each.rpartition(".")[2] for each in found}


class TestWhatCannotBe:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("modell = 'x'", "unknown setting 'modell'. Did you mean model?"),
            ("max_turns = 3", "Did you mean limits.max_turns?"),
            ("[limits]\nmax_turn = 3", "unknown setting 'limits.max_turn'. Did you mean limits.max_turns?"),
            ("[profiles.x]\ntols = 'x'", "unknown setting 'profiles.x.tols'. Did you mean tools?"),
            ("model = 3", "model = 3: must be text in quotes."),
            ("thinking = 'hihg'", "use one of: off, none, low, medium, high. Did you mean high?"),
            ("temperature = 9", "'9' is not a number from 0 to 2"),
            ("network = 'yes'", "must be true or false"),
            ("tools = true", "must be text"),
            ("[limits]\nmax_turns = true", "'True' is not a whole number"),
            ("[limits]\nprice = [1]", "is not two to four numbers"),
            ("[rules]\nallow = 'shell'", "must be a list of rules"),
            ("[rules]\nallow = ['(']", "is not a permission rule"),
            ("rules = 3", "unknown setting 'rules'"),
            ("servers = 3", "servers must be a table: [servers.NAME]"),
            (
                "[servers.x]\nbase_url = 'http://a/v1'\napi_key = 'sk-canary-1'",
                "Keys do not belong in files",
            ),
            ("[servers.x]\nmodel = 'a'", "needs base_url"),
            ("model = ", "is not valid TOML"),
            ("# caf\xe9\x1b[2J\nmodel = \x1b", "is not valid TOML"),
            ("model = 'x'\n#" + "x" * 70_000, "is longer than"),
        ],
    )
    def test_it_is_said_with_the_file_and_the_way_out(self, pal, user, text, said):
        user(text)
        done = pal("run", "hi")
        assert done.returncode == 2
        assert said in done.stderr
        assert "pal.toml" in done.stderr
        assert "canary" not in done.stderr
        assert "\x1b" not in done.stderr

    def test_a_file_that_is_none(self, pal):
        (Path(pal.env["PAL_HOME"]) / "pal.toml").mkdir(parents=True)
        done = pal("run", "hi")
        assert (done.returncode, "is not a file. Move or delete it." in done.stderr) == (2, True)


class TestProject:
    @pytest.mark.parametrize(
        "text",
        [
            f'base_url = "{THERE}"',
            f'[profiles.work]\nbase_url = "{THERE}"',
            f'[servers.work]\nbase_url = "{THERE}"',
            'permission_mode = "bypass"',
            'permission_mode = "auto"',
            'sandbox = "none"',
            "network = true",
            "audit = false",
            "snapshots = false",
        ],
    )
    def test_project_cannot_set_key_targets_or_loosen_rights(self, pal, project, text):
        project(f"{text}\n")
        words = ["-P", "work"] if "profiles" in text else []
        done = pal("run", "--trust-folder", *words, "hi", OPENAI_API_KEY="secret-of-user")
        assert done.returncode == 2
        assert "pal.toml" in done.stderr
        assert re.search(
            "A project cannot set a URL|only allowed in your user settings|is not allowed in a project",
            done.stderr,
        )

    def test_untrusted_project_file_is_ignored_without_a_person(self, pal, project):
        project("what = is this\n")
        with ScriptedServer(["Hi."]) as server:
            pal.use(server)
            done = pal("--no-tools", "hi")
        assert done.returncode == 0
        assert "ignored, not trusted: " in done.stderr

    def test_settings_of_a_project_are_shown_and_confirmed_once(self, pal, project):
        project('model = "of-project"\n[rules]\nallow = ["shell(npm \\u001b[2Jtest)"]\n')

        def at_terminal(*typed):
            with ScriptedServer(["Done."]) as server:
                env = dict(pal.env)
                pal.env["PAL_BASE_URL"] = server.base_url
                with closing(Terminal(pal, "run", "--no-tools", "go", "-m", "x")) as terminal:
                    for answer_typed in typed:
                        terminal.until("rules.allow = ")
                        terminal.until("[n]o: ")
                        terminal.type(f"{answer_typed}\n")
                    terminal.end()
                pal.env.clear()
                pal.env.update(env)
            assert "\x1b[2J" not in terminal.shown
            return " ".join(terminal.shown.split())

        assert "ignored, not trusted: " in at_terminal("n")
        assert "not trusted" not in at_terminal("y")
        assert "  sets " not in at_terminal()
        assert shown(pal)["model"][0] == "of-project"  # trusted is trusted, for all commands
        project('model = "of-somebody"\n')
        assert shown(pal)["model"][0] is None

    def test_the_nearest_up_to_the_root_of_the_project_and_no_link_out_of_it(self, pal, tmp_path):
        (tmp_path / "pal.toml").write_text('model = "outside"\n')
        inner = pal.workspace / "a" / "b"
        inner.mkdir(parents=True)
        (pal.workspace / ".git").mkdir()
        (pal.workspace / "pal.toml").symlink_to(tmp_path / "pal.toml")
        run = ("run", "--workspace", "a/b", "--trust-folder", "hi")
        with ScriptedServer(["Hello."]) as server:
            pal.use(server)
            done = pal(*run)
            assert (done.returncode, "cannot be read" in done.stderr) == (2, True)
            (pal.workspace / "pal.toml").unlink()
            done = pal(*run)
            assert (done.stdout, "pal.toml" in done.stderr) == ("Hello.\n", False)
            (pal.workspace / "pal.toml").write_text("nope = 1\n")
            assert "unknown setting 'nope'" in pal(*run).stderr


class TestEnvFile:
    def test_none_is_read_unasked(self, pal):
        (pal.workspace / ".env").write_text(f"PAL_MODEL=stranger\nPAL_BASE_URL={THERE}\n")
        assert shown(pal)["model"] == (None, "default")

    def test_named_project_file_grants_only_known_settings(self, pal):
        (pal.workspace / ".env").write_text(
            '# keys\nexport PAL_API_KEY="k-secret-12345"  # mine\nPAL_MODEL=of-file\n\nLD_PRELOAD=/tmp/x.so\n'
        )
        with ScriptedServer(["It is k-secret-12345."]) as server:
            done = pal("--no-tools", "--env-file", ".env", "hi", PAL_BASE_URL=server.base_url)
        assert server.requests[0].headers["authorization"] == "Bearer k-secret-12345"
        assert server.requests[0].body["model"] == "of-file"
        assert ".env: ignored 1 variable unknown to pal" in done.stderr
        assert "k-secret" not in done.stdout + done.stderr
        assert shown(pal, "--env-file", ".env", PAL_MODEL="of-env")["model"][0] == "of-env"

    @pytest.mark.parametrize("text", [None, "sk-canary-1\n"])
    def test_one_that_cannot_be_read(self, pal, text):
        if text is not None:
            (pal.workspace / ".env").write_text(text)
        done = pal("--env-file", ".env", "hi")
        assert done.returncode == 2
        assert "--env-file=.env" in done.stderr
        assert "canary" not in done.stderr


class TestInit:
    def test_it_writes_all_settings_as_comments_that_hold(self, pal):
        for words, path in (
            (["init"], Path(pal.env["PAL_HOME"]) / "pal.toml"),
            (["init", "--project"], pal.workspace / "pal.toml"),
        ):
            done = pal(*words, OPENAI_API_KEY="sk-canary-123")
            assert (done.returncode, done.stdout) == (0, f"{path}\n")
            text = path.read_text(encoding="utf-8")
            assert "canary" not in text
            again = pal(*words)
            assert (again.returncode, "--force" in again.stderr) == (2, True)
            assert pal(*words, "--force").returncode == 0
            every = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.M)
            path.write_text(every.replace('base_url = "work"', "") if "--project" in words else every)
            found = shown(pal, "--trust-folder")
            assert found["limits.max_tokens"] == (500_000, str(path))
            assert found["rules.deny"][0] == ["read_file(path=*.env)"]

    def test_it_finds_a_server_that_runs_here(self, pal):
        code = (
            "import sys\n"
            "from pure_agent_loop import local\n"
            "local.KNOWN_PORTS = {'Our Server': int(sys.argv.pop(1))}\n"
            "from pure_agent_loop.cli import main\n"
            "sys.exit(main())\n"
        )
        with ScriptedServer([], models=["qwen"]) as server:
            url = server.base_url
            port = server.base_url.split(":")[2].split("/")[0]
            words = [sys.executable, "-c", code, port, "init"]
            done = subprocess.run(
                words, env=pal.env, cwd=pal.workspace, capture_output=True, text=True, check=False
            )
        assert done.returncode == 0, done.stderr
        assert "found qwen at" in done.stderr
        assert 'to start: pal "your task"' in done.stderr
        assert shown(pal)["base_url"][0] == "our-server"
        assert shown(pal)["servers.our-server"][0] == url

    def test_it_says_where_it_cannot_write(self, pal):
        done = pal("init", PAL_HOME=os.devnull + "/x")
        assert (done.returncode, "cannot be written" in done.stderr) == (2, True)


def test_without_any_file_nothing_is_loaded_for_them(pal):
    code = (
        "import sys\n"
        "from pure_agent_loop.cli import main\n"
        "main(['run', '--explain', '--no-tools', 'hi'])\n"
        "print('LOADED', sorted({'tomllib', 'tomli'} & set(sys.modules)))\n"
    )
    with ScriptedServer([]) as server:
        pal.use(server)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=pal.env,
            cwd=pal.workspace,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.endswith("LOADED []\n")


def test_a_misspelt_variable_is_named_with_the_one_that_is_read(pal):
    done = pal("config", "path", PAL_MODLE="x", PAL_WORK_KEY="y", PAL_API_KEY_OF_WORK="z", PALETTE="w")
    assert done.stderr == "pal: PAL_MODLE is set, but pal does not read it. Did you mean PAL_MODEL?\n"
    chinese = pal("config", "path", PAL_DATABSE="x", PAL_LANG="zh")
    assert chinese.stderr == "pal: 设置了 PAL_DATABSE，但 pal 不读取它。是否指 PAL_DATABASE？\n"


def test_the_known_variables_are_those_that_the_code_reads_and_the_docs_name():
    root = Path(__file__).parents[2]
    code = "".join(path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py"))
    read = set(re.findall(r'"(PAL_[A-Z_]*[A-Z])"', code)) - {"PAL_TOKEN"}  # of an example
    assert read == set(KNOWN)
    table = (root / "docs" / "cli.md").read_text(encoding="utf-8").partition("\n## Variables\n")[2]
    assert set(re.findall(r"`(PAL_[A-Z_]*[A-Z])`", table.partition("\nA misspelt variable")[0])) == set(KNOWN)


@pytest.mark.parametrize(("columns", "language"), [(120, "en"), (80, "zh"), (40, "en"), (40, "zh")])
def test_origins_of_settings_are_shown_and_defaults_are_dim(pal, columns, language):
    pal.env |= {"PAL_MODEL": "big-model", "PAL_LANG": language}
    with Screen(pal, "config", columns=columns, rows=60) as screen:
        assert screen.end() == 0
    shown = " ".join(screen.all.split())
    assert "big-model (PAL_MODEL)" in shown
    assert "permission_mode ask sandbox" in shown  # defaults have no origin
    assert "\x1b[1mmodel " in screen.coloured
    assert "\x1b[2msandbox " in screen.coloured
    assert all(width_of(line) <= columns for line in screen.lines)
    defaults = pal("config", "show", "--origin").stdout
    assert ("auto  (默认)" if language == "zh" else "auto  (default)") in defaults
