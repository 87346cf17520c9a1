"""Servers on the command line: written down, looked at, trusted, used in runs and conversations."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from tests.cli.conversations import idle
from tests.cli.screens import ENTER, ESC, TAB
from tests.cli.terminal import Terminal

from pure_agent_loop.cli import main
from pure_agent_loop.cli.exits import INTERRUPTED
from pure_agent_loop.mcp.settings import ServerSettings
from pure_agent_loop.testing import ScriptedServer, call

GOOD = str(Path(__file__).with_name("good_server.py"))
BAD = str(Path(__file__).with_name("bad_server.py"))
BAD_COMMAND = [sys.executable, "-I", "-S", BAD]


def home(pal):
    return Path(pal.env["PAL_HOME"])


def brought(pal, *words):
    """A folder that brings a server."""
    servers = {
        "bad": {"command": BAD_COMMAND[0], "args": [*BAD_COMMAND[1:], *words], "env": {"A": "${HOME}"}}
    }
    (pal.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def seen_by(server):
    return [each["content"] for each in server.requests[-1].body["messages"] if each["role"] == "tool"]


@pytest.fixture
def here(pal, monkeypatch, capsys):
    """The command in this process: the SDK is loaded once."""
    monkeypatch.setenv("PAL_HOME", pal.env["PAL_HOME"])
    monkeypatch.chdir(pal.workspace)

    def run(*words):
        code = main(["mcp", *words])
        return code, *capsys.readouterr()

    return run


def test_in_chinese_a_person_reads_no_english_sentence(pal, here, monkeypatch):
    monkeypatch.setenv("PAL_LANG", "zh")
    assert here("list") == (0, "", "pal: 没有 MCP 服务器；添加：pal mcp add 名称 -- 命令\n")
    code, _, err = here("add", "away", "http://127.0.0.1:9/mcp")
    file = home(pal) / "mcp.json"
    assert (code, err) == (0, f"pal: 已把 away 添加到 {file}；测试：pal mcp test away\n")
    assert here("list")[1].startswith("away  失败  http://127.0.0.1:9/mcp  （")
    assert here("logout", "awai")[2] == ("pal: 错误：没有 MCP 服务器 'awai'。是否指 away？ 见 pal mcp list\n")
    assert here("remove", "away") == (0, "", "pal: 已移除 away\n")


def test_servers_are_added_listed_tested_agreed_to_and_removed(pal, here):
    state = str(pal.workspace / "starts")
    assert here("add", "bad", "--env", "A=b", "--", *BAD_COMMAND, "changed", state)[0] == 0
    login = ("--oauth", "client_id=app", "--oauth", "redirect_port=8123")
    assert here("add", "away", "http://127.0.0.1:9/mcp", "--header", "X: ${NO_SUCH}", *login)[0] == 0
    assert here("add", "dead", "--", sys.executable, "-c", "raise SystemExit(3)")[0] == 0
    file = home(pal) / "mcp.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["mcpServers"]["bad"]["env"] == {"A": "b"}
    away = json.loads(file.read_text())["mcpServers"]["away"]
    assert away["oauth"] == {"client_id": "app", "redirect_port": 8123}
    listed = json.loads(here("list", "--json")[1])["servers"]
    assert [(each["name"], each["state"], each["tools"]) for each in listed] == [
        ("bad", "ready", 1),
        ("away", "failed", 0),
        ("dead", "failed", 0),
    ]
    assert "the environment variable NO_SUCH is not set" in listed[1]["error"]
    assert "The program ended (exit code 3)." in listed[2]["error"]
    assert "dead  failed" in here("list")[1]
    _, out, err = here("test", "bad")
    assert "CHANGED mcp__bad__work: [The MCP server 'bad' says:] Start 3" in out  # listed twice before
    assert "pal mcp test bad --agree" in err
    assert "approved the changed tools" in here("test", "bad", "--agree")[2]
    code, _, err = here("test", "dead")
    assert (code, "The program ended (exit code 3)" in err) == (1, True)
    identity = ServerSettings("away", url="http://127.0.0.1:9/mcp").identity
    login = home(pal) / "mcp" / "logins" / f"{identity}.json"
    login.parent.mkdir(parents=True)
    for way in ("logout", "remove"):
        login.write_text("{}")
        assert here(way, "away")[0] == 0
        assert not login.exists()
    assert [here("remove", "dead")[0], here("remove", "dead")[0]] == [0, 2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add", "a b", "--", "x"], "at most 32 letters"),
        (["add", "x", "http://a", "b"], "takes one URL, or"),
        (["add", "x", "--env", "A", "--", "y"], "must be NAME=VALUE"),
        (["add", "x", "ftp://a/mcp"], "url='ftp://a/mcp' must be http:// or https://, with a host"),
        (["add", "x", "https:///mcp"], "with a host"),
        (["add", "x", "localhost:80/mcp"], "with a host"),
        (["add", "x", "--sse", "--", "y"], "--sse needs a server with a URL"),
        (["add", "x", "--cwd", "/no/where", "--", "y"], "is not a folder"),
        (["add", "x", "y", "--flag"], "Put -- before the server's command"),
        (["add", "x", "http://a", "--oauth", "redirect_port=b"], "redirect_port must be a whole number"),
        (
            ["add", "x", "http://a", "--oauth", "who=b"],
            "'who' is not a field of oauth. Fields: grant, client_id",
        ),
        (["add", "x", "http://a", "--oauth", "client_secret=b"], "'x': oauth: client_secret and private_key"),
        (["test", "none"], "Unknown MCP server"),
    ],
)
def test_unsupported_request_is_rejected(here, words, why):
    code, _, err = here(*words)
    assert (code, why in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["--", "no-such-program"], "program 'no-such-program' is not on the PATH"),
        (["--", "./mine"], "use its full path if it is in a folder"),
        (["--", sys.executable, "mine"], "the server does not start in this folder and will not find 'mine'"),
        (["--cwd", ".", "--", sys.executable, "mine"], ""),
        (["http://a", "--header", "A: ${NO_SUCH}"], "the environment variable NO_SUCH is not set"),
    ],
)
def test_adding_a_server_reports_unusable_features(here, pal, words, note):
    (pal.workspace / "mine").touch()
    code, _, err = here("add", "clock", *words)
    assert (code, note in err, "warning: " in err) == (0, True, bool(note)), err
    assert "replaced clock in" in here("add", "clock", *words)[2]
    assert "Did you mean clock?" in here("remove", "clok")[2]


WRONG = {
    '{"command": "no such program"}': "command takes only the program; put its arguments in args.",
    '{"command": "/"}': "'/' cannot be started: Permission denied.",
    '{"command": "python", "cwd": "/no/where"}': "The working folder '/no/where' does not exist.",
    '{"command": "x", "timeout": "5"}': "timeout is '5'; timeout must be a number",
    '{"command": "x", "trusted": "yes"}': "trusted is 'yes'; trusted must be true or false",
    '{"command": "x", "disabled": "true"}': "disabled is 'true'; it must be true or false",
    '{"command": "x", "env": {"A": 5}}': "env['A'] is 5; env must be a table of strings",
    '{"command": "x", "allow": "read_*"}': "allow is 'read_*'; allow must be a list of strings",
    '{"url": "http://a", "oauth": "yes"}': "oauth is 'yes'; oauth must be a table",
    '{"command": "x", "type": "sse"}': "type='sse' cannot be combined with command",
    '{"url": "http://a", "type": "stdio"}': "type='stdio' cannot be combined with url",
    '{"command": "sleep", "args": ["100"], "start_timeout": 0.1}': "did not answer within 0.1 seconds.",
}


def test_a_server_that_is_written_wrong_or_does_not_answer_says_so_in_one_sentence(pal, here):
    servers = {f"s{number}": json.loads(text) for number, text in enumerate(WRONG)}
    home(pal).mkdir(parents=True, exist_ok=True)
    (home(pal) / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    _, out, err = here("list", "--json")
    listed = json.loads(out)["servers"]
    assert (err, [each["state"] for each in listed]) == ("", ["failed"] * len(WRONG))
    for each, why in zip(listed, WRONG.values(), strict=True):
        assert why in each["error"]


def test_ctrl_c_does_not_wait_for_a_server_that_is_starting(pal, tmp_path):
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    program = f"import sys; open({str(fifo)!r}, 'w').write('x'); sys.stdin.read()"
    servers = {"mute": {"command": sys.executable, "args": ["-c", program], "start_timeout": 3600}}
    home(pal).mkdir(parents=True, exist_ok=True)
    (home(pal) / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    process = pal.start("mcp", "test", "mute")
    fifo.read_text()  # it runs now, and says nothing
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED


EDITORS = {
    ".cursor/mcp.json": ("mcpServers", {"env": {"A": "${env:HOME}"}}, ""),
    ".vscode/mcp.json": ("servers", {"type": "stdio"}, ""),
    "asks.json": ("servers", {"env": {"A": "${input:key}"}}, "works in VS Code only"),
    "other.json": ("tasks", {}, "must have the form"),
}


@pytest.mark.parametrize("name", EDITORS)
def test_files_of_editors_are_used_on_request_only(pal, name):
    key, more, why = EDITORS[name]
    (path := pal.workspace / name).parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({key: {"theirs": {"command": BAD_COMMAND[0], "args": BAD_COMMAND[1:], **more}}})
    )
    with ScriptedServer(["hi"] * 3, strict=False) as server:
        pal.use(server)
        pal("run", "-p", "--trust-folder", "go")
        assert "theirs" not in str(server.requests[-1].body["tools"])
        done = pal("run", "-p", "--mcp-config", name, "go")
        assert ("theirs" in str(server.requests[-1].body["tools"])) == (not why)
    assert why in done.stderr


def test_a_run_uses_those_of_the_user_and_of_the_command_line(pal, tmp_path):
    pal("mcp", "add", "mine", "--", *BAD_COMMAND, "ok")
    (home(pal) / "pal.toml").write_text(
        f"[mcp.toml]\ncommand = {json.dumps(sys.executable)}\nargs = ['-c', '1']\n"
    )
    given = tmp_path / "given.json"
    given.write_text(
        json.dumps({"mcpServers": {"given": {"command": BAD_COMMAND[0], "args": [*BAD_COMMAND[1:], "x"]}}})
    )
    words = ("run", "-p", "--mcp-config", str(given), "--allow", "mcp__mine__work")
    with ScriptedServer([call("mcp__mine__work", n=1), call("mcp__given__work", n=1)]) as server:
        pal.use(server)
        done = pal(*words, "go")
        tools = {each["function"]["name"] for each in server.requests[0].body["tools"]}
        seen = seen_by(server)
    assert {"mcp__mine__work", "mcp__given__work", "mcp__toml__connect"} <= tools
    assert "fine" in seen[0]
    assert done.returncode == 4  # nobody has allowed the other one
    with ScriptedServer(["hi"] * 2, strict=False) as server:
        pal.use(server)
        assert pal("run", "-p", "--no-mcp", "go").stdout == "hi\n"
        assert "mcp__" not in json.dumps(server.requests[0].body["tools"])
    refused = pal("run", "-p", "--tools", "read", "--mcp-config", str(given), "go")
    assert "--mcp-config adds tools" in refused.stderr


def test_untrusted_folder_starts_no_server(pal):
    started = pal.workspace / "starts"
    brought(pal, "changed", str(started))
    with ScriptedServer(["hi"] * 2) as server:
        pal.use(server)
        assert "ignored, not trusted" in pal("run", "-p", "go").stderr
        assert not started.exists()
        pal("run", "-p", "--trust-folder", "go")
        assert "mcp__bad__work" in json.dumps(server.requests[1].body["tools"])
    assert started.exists()
    (pal.workspace / ".mcp.json").write_text("[]")
    with ScriptedServer(["hi"]) as server:
        pal.use(server)
        done = pal("run", "-p", "--trust-folder", "go")
        assert (done.returncode, "must have the form" in done.stderr) == (0, True)


def test_servers_of_a_folder_are_shown_and_confirmed_once(pal):
    brought(pal, "ok")
    with ScriptedServer(["hi"] * 2, strict=False) as server:
        pal.use(server)
        for answers in (["y"], []):
            terminal = Terminal(pal, "run", "go")
            for each in answers:
                terminal.until("Start them with your permissions")
                assert '"${HOME}"' in terminal.shown  # as it is written: nothing is filled in before
                terminal.type(each + "\n")
            terminal.until("completed")
            terminal.close()
        assert "mcp__bad__work" in json.dumps(server.requests[-1].body["tools"])


def test_a_question_of_a_server_is_answered_at_the_terminal(pal):
    pal("mcp", "add", "good", "--", sys.executable, GOOD)
    servers = json.loads((home(pal) / "mcp.json").read_text())
    servers["mcpServers"]["good"]["legacy"] = True
    (home(pal) / "mcp.json").write_text(json.dumps(servers))
    with ScriptedServer([call("mcp__good__wish"), "done"]) as server:
        pal.use(server)
        terminal = Terminal(pal, "run", "--permission-mode", "auto", "go")
        terminal.until("colour: Colour; string")
        terminal.type("blue\n")
        terminal.until("count: Count; integer")
        terminal.type("7\n")
        terminal.until("completed")
        terminal.close()
        assert "accept: colour='blue' count=7" in seen_by(server)[0]


def test_a_question_of_a_server_ends_when_the_person_stops_the_call(pal, chat):
    pal("mcp", "add", "bad", "--", *BAD_COMMAND, "questions_in_questions", str(pal.workspace / "starts"))
    screen = chat([call("mcp__bad__work"), "Good morning to you."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type("go" + ENTER)
    screen.until(" asks:")
    screen.type(ESC)
    screen.until("  stopped")
    idle(screen)
    screen.type("hello" + ENTER)
    screen.until("Good morning to you.")


def test_prompts_and_resources_in_a_run(pal):
    pal("mcp", "add", "good", "--", sys.executable, GOOD)
    tasks = ["/good:greet @good:note://secret", " /bin:ls, @bad:x and @good:note://milk ?"]
    with ScriptedServer(["hi"] * 2) as server:
        pal.use(server)
        done = [pal("run", "-p", task, text="@good:note://piped") for task in tasks]
        done.append(pal("run", "-p", "@good:no://thing"))
        asked = [each.body["messages"][-1]["content"] for each in server.requests]
    assert [each.returncode for each in done] == [0, 0, 1], [each.stderr for each in done]
    assert "Greet @good:note://secret kindly." in asked[0]
    assert "Note secret." not in asked[0]  # what a server says is looked into as little as
    assert "Note piped." not in str(asked)  # what comes from elsewhere
    assert asked[1].count("Note milk.") == 1
    assert "/bin:ls, @bad:x and @good:note://milk ?" in asked[1]
    assert "The MCP server 'good' rejected the request" in done[2].stderr


@pytest.mark.parametrize("task", ["/good:gret Ann", "/goood:greet Ann", "/good: Ann"])
def test_a_prompt_that_is_not_there_is_wrong_usage(pal, task):
    pal("mcp", "add", "good", "--", sys.executable, GOOD)
    with ScriptedServer([]) as server:
        pal.use(server)
        done = pal("-p", task)
    assert done.returncode == 2
    assert f"Unknown command {task.split()[0]}. Did you mean /good:" in done.stderr


def test_prompts_resources_and_states_in_a_conversation(pal, chat):
    pal("mcp", "add", "good", "--", sys.executable, GOOD)
    pal("mcp", "add", "dead", "--", sys.executable, "-c", "raise SystemExit(3)")
    screen = chat(["Hello.", "Again.", "Milk."], "chat", "--permission-mode", "auto")
    screen.until("/ commands")
    screen.type("/good:greet Ann" + ENTER)
    screen.until("Hello.")
    idle(screen)
    screen.type("/good:greet @good:note://secret" + ENTER)
    screen.until("Again.")
    idle(screen)
    screen.type("What is @good:note://milk ?" + ENTER)
    screen.until("Milk.")
    idle(screen)
    screen.type("/mcp" + ENTER)
    screen.until("`?good`? ready")
    screen.until("/good:greet`? WHO")  # the name alone is on the screen already: it was typed
    screen.until("exit code 3")
    first, other, second = (each.body["messages"][-1]["content"] for each in screen.server.requests)
    assert first == "Greet Ann kindly."
    assert other == "Greet @good:note://secret kindly."
    assert "Note milk." in second
    children = Path(f"/proc/{screen.process.pid}/task/{screen.process.pid}/children").read_text().split()
    assert children  # the server stays for the whole conversation
    screen.type("/exit" + ENTER)
    screen.process.wait(30)
    assert not [each for each in children if Path(f"/proc/{each}").exists() and os.getpid() != int(each)]


def test_prompts_and_their_arguments_are_completed_in_a_conversation(pal, chat):
    pal("mcp", "add", "good", "--", sys.executable, GOOD)
    screen = chat(["Hello."], "chat")
    screen.until("/ commands")
    screen.type("/good:")
    screen.until("WHO Greets somebody")
    screen.type("gr")
    screen.until(r"> /good:gr\s+good:greet")
    screen.type(TAB)
    screen.until("> /good:greet")
    screen.type(" An")
    screen.until(r"Anton\s")
    screen.type("t")
    screen.until(r"> /good:greet Ant\s+Anton")
    screen.type(TAB)
    screen.until("> /good:greet Anton")
    screen.type(ENTER)
    screen.until("Hello.")
    assert screen.server.requests[0].body["messages"][-1]["content"] == "Greet Anton kindly."


def test_a_server_that_cannot_be_asked_completes_nothing_and_holds_nothing_up(pal, chat):
    pal("mcp", "add", "dead", "--", sys.executable, "-c", "raise SystemExit(3)")
    (pal.workspace / "notes.txt").touch()
    screen = chat(["Hello."], "chat")
    screen.until("/ commands")
    screen.type("/dead:greet A")
    screen.type(" @no")
    screen.until(r"notes\.txt")
    screen.type("\x15Hi" + ENTER)
    screen.until("Hello.")
