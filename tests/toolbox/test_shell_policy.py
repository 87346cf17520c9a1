"""The shell policy against lines that really write, lines that agents really type, and lines nobody would."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.toolbox.shell_scratch import build, corpus

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


@pytest.mark.parametrize(
    "line",
    [
        *("ls -la", "pwd", "cat a.txt | head -5", "grep -rn TODO src 2>/dev/null", "ls && cat src/*.py"),
        *("cd src && ls", "diff a.txt b.txt; echo $((1+2))", "wc -l < a.txt", "git status", "git diff"),
        *(
            "echo 'any text'",
            "for f in a b; do cat a.txt; done",
            "cat a.txt 2>&1 | tail -3",
            "ls {src,tests}",
        ),
    ],
)
def test_the_short_list(line):
    assert DEFAULT.judge(line) == Verdict("allow", DEFAULT.judge(line).reason, by_rule=False)


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
        "find . -name x",
        "sed -n 1p a.txt",
        "awk 1 a.txt",
        "git log -1",
        "cd sub && git status",
        "printf -v x y",
        "sort a.txt",
        "cat $(ls)",
        "",
        "(" * 5000,
        "x" * 20_000,
    ],
)
def test_outside_path_or_unparsed_line_is_asked_about(line):
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
def test_denied_command_is_found_in_every_spelling(line):
    assert FORBIDDING.judge(line).behavior == "deny"


def test_allow_rule_matches_its_command():
    policy = ShellPolicy(allow=["npm test", "npm run *", "git commit -m *"])
    for line in ("npm test", "npm run build", "npm test 2>&1 | tail -5", "git commit -m 'fix: x'"):
        assert policy.judge(line).behavior == "allow", line
    for line in ("npm test -- -x", "npm tests", "./npm test", "n'pm' test", "env npm test", "npm run $X"):
        assert policy.judge(line).behavior == "ask", line


STARS = {
    "git *": [
        *(
            "git ls-remote --upl='touch m;' .",
            "git grep -nO'touch m;' x",
            "git log --outp=m",
            "git -c a.b=c log",
        ),
        *(
            "git submodule foreach 'touch m'",
            "git config a.b c",
            "git clone 'ext::sh -c x' y",
            "git -pnOx log",
        ),
        *("git push --force", "git commit -m x", "git fetch ext::x", "git push +main", "git bisect run x"),
        "git push origin :main",
    ],
    "git log *": ["git log --output=m", "git log -Om", "git log *"],
    "git push origin *": ["git push origin --force", "git push origin +main", "git push origin -f"],
    "sed -n *": [
        "sed -n '1e touch m' a",
        "sed -n 1e a",
        "sed -n wm a",
        "sed -n 's/a/b/w m' a",
        "sed -n p -i a",
    ],
    "sed *": ["sed -i s/a/b/ a", "sed --in-pl 1d a", "sed 's/a/b/e' a", "sed -nf x a", "sed 1d a -i"],
    "sort *": ["sort -o m a", "sort -uom a", "sort --outp=m a", "sort *"],
    "tar *": ["tar cf m a", "tar xIf ./e m", "tar -cf m a", "tar tf a --to-command=x"],
    "find *": ["find . -delete", "find . -exec touch m ;", "find src -fprint m"],
    "make *": ["make SHELL=./evil", "make CC='touch m;'", "make --eval=x", "make -f evil.mk"],
    "npm run *": ["npm run x --script-shell=./e", "npm run 'a; b'"],
    "python3 -m *": ["python3 -m pip --log m list"],
    "dd *": ["dd if=a of=m"],
    "sqlite3 *": ["sqlite3 a '.shell touch m'"],
    "npm *": ["npm --prefix x test"],
    "cp * build/*": ["cp a build/../src/x", "cp a build/x/../../y", "cp a build/.."],
}


@pytest.mark.parametrize(("rule", "line"), [(rule, line) for rule in STARS for line in STARS[rule]])
def test_star_matches_operands_but_no_options_or_programs(rule, line):
    assert ShellPolicy(allow=[rule]).judge(line).behavior == "ask"


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        *(
            ("git *", "git push origin main"),
            ("git *", "git diff HEAD~1 src/app.py"),
            ("git *", "git status"),
        ),
        *(
            ("git commit -m *", "git commit -m 'fix: x; y'"),
            ("git log --format=*", "git log --format='%h %s'"),
        ),
        *(("sed -n *", "sed -n 5,10p a.txt"), ("sort *", "sort a.txt"), ("tar *", "tar tzf a.tgz")),
        *(("make *", "make test lint"), ("npm run *", "npm run build:css"), ("cp *", "cp src/*.py sub")),
        *(
            ("pytest -k *", "pytest -k 'a or b' tests/test_a.py"),
            ("sudo apt-get install *", "sudo apt-get install jq"),
        ),
        *(
            ("npm test *", "npm test"),
            ("cat docs/*", "cat docs/a.md"),
            ("cp * build/*", "cp ../a build/b..c"),
        ),
    ],
)
def test_star_matches_listed_operands(rule, line):
    assert ShellPolicy(allow=[rule]).judge(line) == Verdict(
        "allow", f"{line}: the allow rule {rule!r}", by_rule=True
    )


def test_a_denied_option_is_found_abbreviated_and_bundled():
    policy = ShellPolicy(deny=["git push --force", "rm -r", "git push --mirror *"])
    for line in ("git push --for", "git push origin --forc", "rm -vr x", "rm --recur x", "git push x --mir"):
        assert policy.judge(line).behavior == "deny", line
    assert policy.judge("git push --follow-tags").behavior == "ask"


def test_the_verdict_names_the_command_and_the_rule():
    assert FORBIDDING.judge("ls && rm x") == Verdict("deny", "rm x: the deny rule 'rm *'")
    assert FORBIDDING.judge("ls; git log -1").reason == "git log -1: the ask rule 'git log *'"
    assert [part[:2] for part in FORBIDDING.explain("ls | rm x")] == [("ls", "allow"), ("rm x", "deny")]


def test_absolute_paths_below_the_root_are_inside():
    policy = ShellPolicy(root="/repo/project")
    assert policy.judge("cat /repo/project/a").behavior == "allow"
    assert policy.judge("cat /repo/projects/a").behavior == "ask"
    assert policy.judge("cat /repo/project/../a").behavior == "ask"


@pytest.mark.parametrize(
    "rule",
    ["", "  ", "a; b", "a 'b", "a $x", "*", "a > b", 3, "git -*", "x --o*", "xargs *", "timeout 5 env *"],
)
def test_a_rule_that_cannot_work_is_refused(rule):
    with pytest.raises(ConfigError, match=r"^allow: "):
        ShellPolicy(allow=[rule])


@pytest.mark.parametrize(
    "rule",
    [
        *(
            "timeout 5 *",
            "timeout -k 5 10 *",
            "timeout -s KILL 5 *",
            "timeout 5 nice *",
            "/usr/bin/timeout 5 *",
        ),
        *("nice -n 5 *", "xargs -n1 *", "xargs -I {} *", "sudo -u bob *", "sudo -nu bob *", "sudo * x"),
        *("env -i *", "env A=1 *", "env -u X A=1 *", "env -S *", "stdbuf -oL *", "taskset 1 *", "chrt 5 *"),
        *(
            "taskset -c 0 *",
            "flock -n lock *",
            "strace -f *",
            "setpriv --nnp *",
            "ionice -c3 *",
            "su bob -c *",
        ),
        *(
            "ssh host *",
            "ssh -p 22 host *",
            "ssh host bash -c *",
            "docker exec -it c *",
            "docker run --rm i *",
        ),
        *(
            "docker compose exec web *",
            "kubectl exec pod -- *",
            "bash -c *",
            "bash *",
            "sh -x *",
            "busybox sh *",
        ),
        *(
            "find . -type f -exec *",
            "git -c x=y *",
            "git -C x *",
            "make -C x *",
            "npx *",
            "npm exec *",
            "uv run *",
        ),
        *(
            "watch -n 2 *",
            "systemd-run --user *",
            "script -c *",
            "unshare -r *",
            "sudo s*",
            "timeout 5 n*",
            "sudo /usr/bin/*",
            "bash ./*",
        ),
        *("gtimeout 5 *", "bwrap --unshare-all *", "numactl -N 0 *", "gdb --args *", "choom -n 5 *"),
        *("proxychains4 -q *", "direnv exec . *", "someone run -- *", "it exec -- *", ". *", "at -f *"),
    ],
)
def test_star_that_may_be_any_command_is_rejected(rule):
    with pytest.raises(ConfigError, match="could be any command"):
        ShellPolicy(allow=[rule])


@pytest.mark.parametrize(
    "rule",
    [
        *(
            "timeout 60 npm test *",
            "nice -n 5 npm test *",
            "sudo apt-get install *",
            "env A=1 npm *",
            "git *",
        ),
        *("git -C x log *", "git --no-pager log *", "make *", "find . -name *", "npm run *", "cargo run *"),
        *("docker exec c ls *", "docker exec web-* ls", "docker rm *", "uv run pytest *", "bash build.sh *"),
        *("xargs -0 grep *", "time make *", "ssh host uptime *", "timeout * npm test", "bash scripts/*.sh"),
    ],
)
def test_a_star_behind_a_command_that_is_named_is_none(rule):
    assert ShellPolicy(allow=[rule]).allow == (rule,)


@pytest.mark.parametrize(
    ("rule", "line"),
    [("python3 -c *", "python3 -c 'import os; os.remove(\"x\")'"), ("perl -e *", "perl -e 'unlink \"a\"'")],
)
def test_only_text_options_accept_any_text(rule, line):
    assert ShellPolicy(allow=[rule]).judge(line).behavior == "ask"


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
    st.sampled_from(["ls -la", "cat a.txt | head -5", "grep -rn x src"]),
    st.sampled_from(["; touch x", " | tee x", " && x", " $(x)", "\ntouch x", " > x"]),
)
def test_harmful_addition_needs_a_question(line, added):
    assert DEFAULT.judge(line + added).behavior != "allow"
    assert DEFAULT.judge(f"touch x; {line}").behavior != "allow"


@pytest.mark.parametrize("rule", ["git status", "git *", "timeout 5 git *"])
def test_a_rule_for_git_does_not_hold_in_another_folder(rule):
    command = "timeout 5 git status" if rule.startswith("timeout") else "git status"
    assert ShellPolicy(allow=[rule]).judge(command).behavior == "allow"
    assert ShellPolicy(allow=[rule]).judge(f"cd hostile && {command}").behavior == "ask"


def test_reasons_use_the_language_of_the_run(monkeypatch):
    lines = [
        "rm -rf /",
        "npm test",
        "cat ../x",
        "a=1 ls",
        "echo x > f",
        "ls $x",
        "cat <<E\nE",
        "ls 'x",
        ":(){ :|:& };:",
        "",
    ]
    policy = ShellPolicy(deny=["git push"], ask=["make *"], root="/work")
    lines += [
        "git push",
        "make all",
        "git status",
        "cd x; git status",
        "while true; do ls; done",
        "x=(1)",
        "\u200bls",
    ]
    english = [policy.judge(line) for line in lines]
    monkeypatch.setenv("PAL_LANG", "zh")
    chinese = [policy.judge(line) for line in lines]
    assert [(e.behavior, e.by_rule) for e in english] == [(c.behavior, c.by_rule) for c in chinese]
    assert all(e.reason.replace("\u200b", "").isascii() for e in english)
    assert not [c.reason for c in chinese if c.reason.isascii()]


@pytest.mark.parametrize(
    ("line", "trouble"), [('echo "a\\\nb"', "引号中的反引号或续行"), (r"echo $'x\q'", "单词中的 '$'")]
)
def test_unparsed_part_is_named_in_the_language(monkeypatch, line, trouble):
    monkeypatch.setenv("PAL_LANG", "zh")
    assert ShellPolicy().judge(line).reason.endswith(f"无法确切解析这一行：{trouble}")


def test_no_line_and_no_pattern_takes_long(tmp_path):
    """In a process of its own, so that what would take for ever fails; there is no other timing in it."""
    lines = {
        "scp *:*@*:*/secret": ["scp " + ":@" * 3000],
        "echo *a*a*a*b": ["echo " + "a" * 9_900, "echo " + "{" * 9_900, "echo " + "[a*?" * 2_400],
        "git push * * x": ["git " + "-a push " * 1_200, "git push " + "-a x " * 1_900],
        "rm *": [
            *(
                "sudo " * 1_900 + "x",
                "xargs " + "'sudo x y' " * 800,
                "eval " * 1_500 + "ls",
                "timeout " + "5 " * 3_000,
            ),
            *("env " + '\'env "a b" "env c d"\' ' * 380, "find . " + "-exec 'a b' " * 700, "(" * 4_900),
            *("sudo bash -c 'sudo bash -c \"sudo ls\"' " * 180, ":" * 300 + "(){" + ":|" * 300, "$(" * 3_000),
        ],
    }
    code = (
        "import sys, ast; from pure_agent_loop.toolbox import ShellPolicy\n"
        "for rule, lines in ast.literal_eval(sys.stdin.read()).items():\n"
        "    print(*(ShellPolicy(deny=[rule]).judge(line).behavior for line in lines))\n"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, input=repr(lines), capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) <= {"ask", "deny", "allow"}


@pytest.mark.parametrize(
    "line",
    [
        "sudo " * 1_900 + "rm a",
        "bash -c 'rm a' " + "x" * 10_000,
        "env " + "A=1 " * 200 + "rm a",
        'sh -c "sh -c \'sh -c \\"rm\\"\'" ' * 300,
    ],
)
def test_unsearchable_line_is_asked_about_if_a_rule_denies(line):
    verdict = ShellPolicy(deny=["rm *"], allow=["sudo rm a"]).judge(line)
    assert verdict.behavior == "deny" or (verdict.behavior == "ask" and verdict.by_rule)


ODD = [
    *map(chr, (0, 7, 27, 0x85, 0xA0, 0x200B, 0x202E, 0x2028, 0xD800, 0xDFFF, 0xFEFF, 0xFFFF, 0x10FFFF)),
    "打",
    "e\u0301",
]
TOKENS = [
    *(
        "ls",
        "git log",
        "rm -rf /",
        "sudo",
        "bash -c",
        "eval",
        "xargs",
        "find . -exec",
        "$(",
        ")",
        "`",
        "<<E\n",
        "E\n",
    ),
    *(
        "'",
        '"',
        "\\",
        "{a,b}",
        "{1..9}",
        "$x",
        "${x:-",
        "}",
        "[[ ",
        " ]]",
        "((",
        "))",
        "<(",
        ">(",
        "&&",
        "||",
        "|&",
    ),
    *(
        ";;",
        "case x in",
        "esac",
        "for i in",
        "do",
        "done",
        "if",
        "then",
        "fi",
        "f() {",
        "2>&1",
        "<<<",
        ">|",
        "$'\\n'",
    ),
    *(
        "#",
        "!",
        "~",
        "*",
        "?",
        "=",
        "A=1",
        "\n",
        "\t",
        " ",
        "-",
        "--",
        "&",
        "coproc",
        "time",
        "function",
        "select",
    ),
]


def test_no_line_makes_it_raise():
    dice = random.Random(27)
    policies = [DEFAULT, TYPICAL, FORBIDDING, ShellPolicy(deny=["* *a*"], ask=["env * x"], root="/repo")]
    for number in range(3_000):
        pieces = dice.choices([*TOKENS, *ODD], k=dice.randrange(40))
        line = "".join(piece + dice.choice(("", " ")) for piece in pieces)
        line = line * dice.choice((1, 1, 1, 50)) if number % 10 else chr(dice.randrange(0x110000)) * 50 + line
        verdict = policies[number % 4].judge(line)
        assert verdict.behavior in ("allow", "ask", "deny")
        policies[number % 4].explain(line)
    assert "IndexError" not in DEFAULT.judge("\udfff2>&1 >(<<<} done").reason
    for line in ("a" * 1_000_000, "(" * 1_000_000, "\0" * 1_000_000, "\ud800" * 9_000):
        assert DEFAULT.judge(line).behavior == "ask"


def test_a_failure_of_our_own_is_a_question(tmp_path):
    class Broken(str):
        def __iter__(self):
            raise OSError("broken")

    verdict = ShellPolicy(deny=["rm *"]).judge(Broken("ls"))
    assert (verdict.behavior, verdict.by_rule) == ("ask", True)


@pytest.mark.parametrize("rule", ["npm run test -- *", "cargo run -- *", "npm run batch *", "git add . *"])
def test_words_that_only_look_like_a_runner_may_stand_before_a_star(rule):
    assert ShellPolicy(allow=[rule]).judge(rule.replace("*", "a.txt")).behavior == "allow"
