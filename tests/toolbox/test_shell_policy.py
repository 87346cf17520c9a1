"""The shell policy against lines that really write, lines that agents really type, and lines nobody would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.toolbox.shell_scratch import build, copy, corpus, shell

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.toolbox import ShellPolicy, Verdict

BYPASSES = corpus("shell_bypasses")
HARMLESS = corpus("shell_harmless")
DEFAULT = ShellPolicy()
TYPICAL = ShellPolicy(
    allow=["git *", "find *", "sed *", "npm test", "npm test *", "ls *", "sort *", "tar *"],
)
FORBIDDING = ShellPolicy(deny=["rm *", "git push *"], ask=["git log *"])


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("template") / "work")


def present(entry) -> bool:
    return "needs" not in entry or shutil.which(entry["needs"]) is not None


@pytest.mark.parametrize("part", range(4))
def test_every_bypass_really_writes(part, template, tmp_path):
    def writes(numbered) -> bool:
        number, entry = numbered
        folder = copy(template, tmp_path / str(number) / "work", repository="git" in entry["command"])
        shell(entry["command"], folder)
        return os.path.lexists(folder / "marker")

    entries = [entry for entry in BYPASSES if present(entry)][part::4]
    with ThreadPoolExecutor(2) as pool:
        wrote = list(pool.map(writes, enumerate(entries)))
    assert len(entries) >= 30
    silent = [entry["command"] for entry, done in zip(entries, wrote, strict=True) if not done]
    assert silent == []


def test_no_bypass_is_allowed():
    let_through = [
        entry["command"] for entry in BYPASSES if DEFAULT.judge(entry["command"]).behavior == "allow"
    ]
    assert let_through == []


def test_no_bypass_hides_behind_typical_rules():
    let_through = [
        entry["command"]
        for entry in BYPASSES
        if not entry.get("broad") and TYPICAL.judge(entry["command"]).behavior == "allow"
    ]
    assert let_through == []


def test_hardly_any_harmless_line_is_asked_about():
    asked = [line for line in HARMLESS if DEFAULT.judge(line).behavior != "allow"]
    assert len(HARMLESS) >= 100
    assert len(asked) <= 5, asked


@pytest.mark.parametrize(
    "line",
    [
        "cat /etc/shadow",
        "cat ~/.ssh/id_rsa",
        "cat a/../../x",
        "cat .*/x",
        "grep -f/etc/shadow x",
        "cat /proc/self/environ",
        "cat < /etc/shadow",
        "echo /etc/shadow | xargs cat",
        "cd .. && ls",
        "env",
        "echo $SECRET",
        "echo ~root",
        "echo /etc/*",
        "printf %s /home/*/.ssh/*",
        "awk '{ print ENVIRON[\"HOME\"] }'",
        "awk 'BEGIN { ARGV[1] = \"x\" }'",
        "grep x --include=*$y a",
        "jq env x",
        "ls\u00a0-la",
        "",
        "(" * 5000,
        "x" * 20_000,
    ],
)
def test_looking_elsewhere_and_what_cannot_be_read_is_asked(line):
    assert DEFAULT.judge(line).behavior == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "/bin/rm x",
        "\\rm x",
        "'r'm x",
        "command rm x",
        "env rm x",
        "busybox rm x",
        "sudo -u bob rm x",
        "ls | xargs -n1 rm",
        "find . -exec rm {} \\;",
        "bash -c 'ls; rm x'",
        "bash <<< 'rm x'",
        "sh <<EOF\nrm x\nEOF",
        "echo 'rm x' | sh",
        "eval 'rm x'",
        "$(rm x)",
        "/bin/r? x",
        "f() { rm x; }; f",
        "git push origin main",
        "git -C x push",
        "rm -rf /",
        ":(){ :|:& };:",
        "sudo mkfs.ext4 /dev/sda",
    ],
)
def test_what_is_forbidden_is_found_however_it_is_written(line):
    assert FORBIDDING.judge(line).behavior == "deny"


def test_rules_allow_what_they_say():
    policy = ShellPolicy(allow=["npm test", "npm run *", "git commit *"])
    for line in ("npm test", "npm run build", "npm test 2>&1 | tail -5", "git commit -m 'fix: x'"):
        assert policy.judge(line).behavior == "allow", line
    for line in ("npm test -- -x", "npm tests", "./npm test", "n'pm' test", "env npm test", "npm run $X"):
        assert policy.judge(line).behavior == "ask", line


def test_the_verdict_names_the_command_and_the_rule():
    assert FORBIDDING.judge("ls && rm x") == Verdict("deny", "rm x: the deny rule 'rm *'")
    assert FORBIDDING.judge("ls; git log -1").reason == "git log -1: the ask rule 'git log *'"
    assert [part[:2] for part in FORBIDDING.explain("ls | rm x")] == [("ls", "allow"), ("rm x", "deny")]


def test_absolute_paths_below_the_root_are_inside():
    policy = ShellPolicy(root="/repo/project")
    assert policy.judge("cat /repo/project/a").behavior == "allow"
    assert policy.judge("cat /repo/projects/a").behavior == "ask"
    assert policy.judge("cat /repo/project/../a").behavior == "ask"


@pytest.mark.parametrize("rule", ["", "  ", "a; b", "a 'b", "a $x", "*", "a > b", 3])
def test_a_rule_that_cannot_work_is_refused(rule):
    with pytest.raises(ConfigError, match="allow holds"):
        ShellPolicy(allow=[rule])


def test_without_the_parser_everything_is_asked():
    code = (
        "import sys; sys.modules['tree_sitter'] = sys.modules['tree_sitter_bash'] = None\n"
        "from pure_agent_loop.toolbox import ShellPolicy\n"
        "print(ShellPolicy(allow=['ls']).judge('ls'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "behavior='ask'" in done.stdout
    assert "[shell]" in done.stdout


PIECES = st.sampled_from(
    [
        *"abx \n\t;|&()<>{}$'\"`\\*?[]~#!=-",
        "ls ",
        "cat ",
        "echo ",
        "$(",
        "${",
        "a.txt",
        "-o ",
        "<<E\n",
        "done",
        "git log ",
    ]
)


@settings(max_examples=120, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text_has_a_verdict_and_always_the_same(text):
    assert DEFAULT.judge(text) == DEFAULT.judge(text)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(HARMLESS),
    st.sampled_from(["; touch x", " | tee x", " && x", " $(x)", "\ntouch x", " > x"]),
)
def test_nothing_added_stays_unasked(line, added):
    assert DEFAULT.judge(line + added).behavior != "allow"
    assert DEFAULT.judge(f"touch x; {line}").behavior != "allow"


WORDS = st.sampled_from(
    [
        "a.txt",
        "b.txt",
        "sub",
        "*.txt",
        "*",
        "-o",
        "-n",
        "-l",
        "-c",
        "-r",
        "-e",
        "-w",
        "--",
        "marker",
        "'w",
        "marker'",
        "p",
        "'1w",
        "marker'",
        "$f",
        '"$f"',
        "{}",
        ".",
        "-exec",
        "-print",
        "-delete",
        "HEAD",
        "diff",
        "log",
        "status",
        "--output=marker",
        "-name",
        "--stat",
        "<",
        ">",
        "|",
        ";",
        "&&",
        "$(ls)",
        "+",
    ]
)
NAMES = st.sampled_from("ls cat sort uniq find sed git grep echo head xargs test printf cut tar date".split())  # noqa: SIM905


def test_what_is_allowed_changes_nothing(template, tmp_path):
    folder = copy(template, tmp_path / "work")
    before = tree(folder)

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(NAMES, st.lists(WORDS, max_size=4), NAMES, st.lists(WORDS, max_size=2))
    def check(first, words, second, more):
        line = " ".join([first, *words, "|", second, *more])
        if DEFAULT.judge(line).behavior == "allow":
            shell(f"GIT_OPTIONAL_LOCKS=0; export GIT_OPTIONAL_LOCKS; {line}", folder)
            assert tree(folder) == before, line

    check()


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


@pytest.mark.parametrize("rule", ["git status", "git *", "timeout 5 git *"])
def test_a_rule_for_git_does_not_hold_in_another_folder(rule):
    command = "timeout 5 git status" if rule.startswith("timeout") else "git status"
    assert ShellPolicy(allow=[rule]).judge(command).behavior == "allow"
    assert ShellPolicy(allow=[rule]).judge(f"cd hostile && {command}").behavior == "ask"
