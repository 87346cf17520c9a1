"""Sessions on the command line, end to end: real processes, a real server, records in a temporary folder."""

from __future__ import annotations

import json
import re
import signal
import sys
import time

import httpx2
import pytest
from tests.cli.conversations import without_facts
from tests.cli.served import PATIENCE, address, serving
from tests.helpers import unframed

from pure_agent_loop.cli.session_list import age, rename
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import ScriptedServer, answer, call, status

if sys.platform != "win32":
    from terminal import Terminal

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals and signals")


LOOK = answer("I will look.", call("list_dir", path="."))
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b1m\r\u202e\u200b<script>alert(1)</script>"


@pytest.fixture
def store(pal):
    return JsonlStore(f"{pal.env['PAL_HOME']}/sessions")


def run(pal, script, *words, **more):
    with ScriptedServer(script) as server:
        pal.use(server)
        done = pal("run", *words, **more)
    return done, server


def said(server):
    return [(m["role"], unframed(m["content"])) for m in without_facts(server.requests[-1].messages)]


@pytest.fixture
def trip(pal):
    """A session of three steps: a task with a call, and one more task."""
    (pal.workspace / "a.txt").write_text("text of a")
    assert run(pal, [LOOK, "One file."], "--session", "trip", "what is here?")[0].returncode == 0
    assert run(pal, ["You are welcome."], "--session", "trip", "thank you")[0].returncode == 0
    return "trip"


class TestRun:
    def test_a_session_is_gone_on_with_by_name_by_resume_and_by_continue(self, pal, trip):
        for words in (["--session", trip], ["--resume", trip], ["--continue"]):
            done, server = run(pal, ["Yes."], *words, "still there?")
            assert done.returncode == 0
            assert ("user", "what is here?") in said(server)
            assert said(server)[-1] == ("user", "still there?")
        assert [role for role, _ in said(server)].count("user") == 5

    def test_the_footer_names_the_session_and_how_to_go_on(self, pal):
        done, _ = run(pal, ["Hi."], "--session", "trip", "hello")
        assert done.stderr.splitlines()[-1] == 'pal: session trip; to resume: pal run --resume trip "..."'
        assert done.stdout == "Hi.\n"
        quiet, _ = run(pal, ["Hi."], "-q", "--session", "trip", "hello")
        assert "to go on" not in quiet.stderr

    def test_the_machine_formats_name_the_session(self, pal):
        for form in ("json", "stream-json"):
            done, _ = run(pal, ["Hi."], "--session", "trip", "--output-format", form, "hello")
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            assert lines[-1]["session_id"] == "trip"
            assert form == "json" or lines[0]["session_id"] == "trip"

    def test_with_no_session_nothing_is_kept(self, pal, store):
        done, _ = run(pal, ["Hi."], "--no-session", "hello")
        assert "to go on" not in done.stderr
        assert store.list() == []
        assert not store.folder.exists()

    def test_each_run_begins_a_session_of_its_folder(self, pal, store):
        done, _ = run(pal, ["Hi."], "hello")
        assert done.stderr.splitlines()[-1] == 'pal: to resume: pal -c "..."'
        other = pal.workspace / "other"
        other.mkdir()
        assert run(pal, ["Hi."], "--workspace", "other", "elsewhere")[0].returncode == 0
        assert len(store.list()) == 2
        _, server = run(pal, ["Yes."], "-c", "still there?")
        assert [text for role, text in said(server) if role == "user"] == ["hello", "still there?"]
        _, server = run(pal, ["Yes."], "--workspace", "other", "-c", "and here?")
        assert [text for role, text in said(server) if role == "user"] == ["elsewhere", "and here?"]
        titles = [
            row["title"] for row in json.loads(pal("sessions", "list", "--json", "--here").stdout)["sessions"]
        ]
        assert titles == ["hello"]

    def test_run_without_a_writable_folder_continues_with_a_notice(self, pal, store):
        home = "/proc/nowhere" if sys.platform == "linux" else "/dev/nowhere"
        words = ("--no-audit", "--no-snapshots", "--tools", "none")
        done, _ = run(pal, ["Hi."], *words, "hello", PAL_HOME=home)
        assert (done.returncode, done.stdout) == (0, "Hi.\n")
        assert "pal: this run is not recorded: " in done.stderr
        assert "to go on" not in done.stderr
        named, _ = run(pal, [], *words, "--session", "trip", "hello", PAL_HOME=home)
        assert (named.returncode, named.stdout) == (1, "")  # what was asked for by name is no maybe

    @posix_only
    def test_resume_without_an_id_lets_a_person_pick(self, pal, trip):
        run(pal, ["Hi."], "hello")
        pal.env["TERM"] = "dumb"  # in another terminal it is a picker: test_chat_picker.py
        with ScriptedServer(["Yes."]) as server:
            pal.use(server)
            terminal = Terminal(pal, "run", "still there?", "-r")
            try:
                terminal.until("hello")
                terminal.until("what is here?")
                terminal.until("Which session")
                terminal.type("99\n")
                terminal.until("Which session")
                terminal.type("2?\n")
                terminal.until("> what is here?")
                terminal.until("· list_dir")
                terminal.until("> thank you")
                terminal.until("Which session")
                terminal.type("HELL\n")
                terminal.until("hello")
                terminal.until("Which session")
                terminal.type("2\n")
                assert terminal.end() == 0
            finally:
                terminal.close()
        assert terminal.shown.count("hello") == 2  # in the list, and among what was searched
        assert ("user", "thank you") in said(server)
        headless = pal("run", "--no-tools", "yes", "--resume")
        assert headless.returncode == 2
        assert f"--resume needs a session ID here. Sessions in this folder: {trip}" in headless.stderr

    def test_continue_takes_the_session_used_last(self, pal, trip):
        run(pal, ["Hi."], "--session", "other", "hello")
        run(pal, ["Hi."], "--session", trip, "hello again")
        _, server = run(pal, ["Yes."], "--continue", "still there?")
        assert ("user", "hello again") in said(server)

    def test_failed_session_resumes_without_a_task(self, pal):
        done, _ = run(pal, [LOOK, status(404, "gone")], "--session", "trip", "what is here?")
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == "pal: session trip; to resume: pal run --resume trip"
        done, server = run(pal, ["One file."], "--resume", "trip")
        assert (done.returncode, done.stdout) == (0, "One file.\n")
        assert [role for role, _ in said(server)] == ["system", "user", "assistant", "tool"]

    @posix_only
    def test_killed_run_resumes_without_repeating_a_question(self, pal, store):
        seen = []

        async def handler(request):
            seen.append(request.messages)
            if len(seen) == 1:
                return LOOK
            if len(seen) == 2:
                victim.send_signal(signal.SIGKILL)
                return status(500)
            return "No files."

        with ScriptedServer(handler=handler) as server:
            pal.use(server)
            victim = pal.start("run", "--session", "trip", "what is here?")
            victim.communicate(timeout=60)
            assert victim.returncode == -signal.SIGKILL
            done = pal("run", "--continue")
        assert (done.returncode, done.stdout) == (0, "No files.\n")
        assert len(seen) == 3
        assert seen[1] == seen[2]
        kinds = [record.type for record in store.read("trip").records]
        assert (kinds.count("intent"), kinds.count("outcome")) == (1, 1)

    def test_a_finished_one_without_a_task_only_repeats_its_answer(self, pal, trip):
        done, _ = run(pal, [], "--resume", trip)
        assert (done.returncode, done.stdout) == (0, "You are welcome.\n")

    def test_piped_text_is_the_task_of_a_session_too(self, pal, trip):
        _, server = run(pal, ["Yes."], "--resume", trip, text="still there?")
        assert said(server)[-1] == ("user", "still there?")

    def test_a_session_that_is_not_there_is_an_error_with_the_newest_three(self, pal, store):
        empty = pal("run", "--resume", "nope", "hi")
        assert (empty.returncode, empty.stdout) == (2, "")
        assert "There is no session 'nope'. No sessions are recorded here." in empty.stderr
        for number in range(4):
            with JsonlStore(store.folder, now=lambda n=number: 1e9 + n).open(f"s{number}") as log:
                log.append("run", {"task": "x"})
        done = pal("run", "--resume", "nope", "hi")
        assert done.returncode == 2
        assert re.search(
            r"The newest: s3 \(2001-09-09 01:46\), s2 \(.*\), s1 \([^,]*\)\.$", done.stderr, re.M
        )
        assert not store.exists("nope")

    def test_continue_with_nothing_is_an_error(self, pal):
        done = pal("run", "--continue", "hi")
        assert done.returncode == 2
        assert f"No session to resume in {pal.workspace}. To start one:" in done.stderr

    @pytest.mark.parametrize("option", ["--session", "--resume"])
    @pytest.mark.parametrize("name", ["x" * 201, "", " ", "a\nb", "\x1b[2J"])
    def test_an_id_that_cannot_be_one_is_refused_before_anything_else(self, pal, option, name):
        done = pal("run", f"{option}={name}", "hi", PAL_MODEL="missing.gguf")
        assert (done.returncode, done.stdout) == (2, "")
        assert "is not a valid session id" in done.stderr
        assert "\x1b" not in done.stderr
        assert "new_session_id" not in done.stderr

    @pytest.mark.parametrize("option", ["--session", "--resume"])
    def test_a_session_in_use_is_an_error_that_says_by_whom(self, pal, store, trip, option):
        with store.open(trip):
            done, server = run(pal, [], option, trip, "--output-format", "stream-json", "hi")
        assert (done.returncode, done.stdout) == (75, "")
        assert re.search(r"'trip' is open for writing in process \d+ on ", done.stderr)
        assert server.requests == []

    def test_options_that_contradict_are_refused(self, pal, trip):
        assert pal("run", "--session", "a", "--continue", "hi").returncode == 2
        done = pal("run", "--explain", "--session", trip, "hi")
        assert done.returncode == 2
        assert "--explain" in done.stderr

    def test_a_call_that_waits_for_permission_waits_on_and_happens_once_permitted(self, pal, store):
        words = ["--session", "trip", "--ask", "list_dir", "what is here?"]
        done, _ = run(pal, [LOOK], *words)
        assert done.returncode == 4
        again, server = run(pal, [], "--resume", "trip", "--ask", "list_dir")
        assert (again.returncode, server.requests) == (4, [])
        assert 'list_dir(path=".") needs a person\'s permission' in again.stderr
        assert [r.type for r in store.read("trip").records].count("intent") == 0
        done, server = run(pal, ["No files."], "--resume", "trip", "--allow", "list_dir")
        assert (done.returncode, done.stdout) == (0, "No files.\n")

    @posix_only
    @pytest.mark.parametrize(("typed", "result"), [("y", "a.txt"), ("n", "")])
    def test_a_call_that_waits_for_permission_is_asked_about_at_a_terminal(self, pal, typed, result):
        (pal.workspace / "a.txt").write_text("text of a")
        run(pal, [LOOK], "--session", "trip", "--ask", "list_dir", "what is here?")
        with ScriptedServer(["Done."]) as server:
            pal.use(server)
            terminal = Terminal(pal, "run", "--resume", "trip", "--ask", "list_dir")
            try:
                terminal.until("Allow? [y]es, [n]o, [a]lways this tool: ")
                terminal.type(f"{typed}\n")
                assert terminal.end() == 0
            finally:
                terminal.close()
        assert any("a.txt (9 bytes)" in text for role, text in said(server)) is bool(result)

    @posix_only
    def test_kept_call_allowed_by_options_leads_to_no_question(self, pal):
        run(pal, [LOOK], "--session", "trip", "--ask", "list_dir", "what is here?")
        with ScriptedServer(["Done."]) as server:
            pal.use(server)
            terminal = Terminal(pal, "run", "--resume", "trip")
            try:
                assert terminal.end() == 0
            finally:
                terminal.close()
        assert "Allow?" not in terminal.shown


class TestSee:
    def test_list_shows_the_one_used_last_first(self, pal, trip):
        run(pal, ["Hi."], "--session", "other", "hello\n there \x1b[2J")
        lines = pal("sessions", "list").stdout.splitlines()
        assert re.fullmatch(r"just now  hello there \\x1b\[2J +  1 step   other", lines[0])
        assert lines[1:] == ["just now  what is here? (last: thank you)  3 steps  trip"]
        more = pal("sessions", "list", "-v").stdout.splitlines()
        assert more[::2] == lines
        assert re.fullmatch(r"    \d{4}-\d\d-\d\d \d\d:\d\d UTC  \d+\.\d kB  2 messages", more[1])
        coloured = pal("sessions", "list", FORCE_COLOR="1").stdout.splitlines()
        assert coloured[1] == "just now  what is here? (last: thank you)  3 steps  \x1b[2mtrip\x1b[0m"

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [(59, "just now"), (60, "1 min ago"), (3_600, "1 h ago"), (86_400 * 7.5, "7 d ago")],
    )
    def test_list_says_how_long_ago_a_session_was_used(self, monkeypatch, seconds, shown):
        monkeypatch.setenv("PAL_LANG", "en")
        assert age(1e9, 1e9 + seconds) == shown
        assert age(1e9, 1e9 + 8 * 86_400) == "2001-09-09"

    def test_list_marks_unfinished_sessions(self, pal, trip):
        pal("sessions", "fork", trip, "--at", "1", "--as", "other")
        run(pal, [status(404, "gone")], "--session", trip, "more")
        lines = pal("sessions", "list").stdout.splitlines()
        assert [line[10:].rpartition("  ")[0].rstrip() for line in lines] == [
            "(error) what is here? (last: more)  4 steps",
            "(not finished) what is here?        1 step",
        ]

    def test_list_as_json(self, pal, trip):
        found = json.loads(pal("sessions", "list", "--json").stdout)
        (row,) = found["sessions"]
        assert (row["id"], row["steps"], row["messages"], row["task"]) == (trip, 3, 6, "thank you")
        assert (row["title"], row["folder"]) == ("what is here?", str(pal.workspace))
        assert (row["stop_reason"], found["total"], found["schema_version"]) == ("completed", 1, 1)
        assert row["created"] < row["updated"] <= time.time()
        assert row["size_bytes"] > 1_000

    def test_list_of_none_and_of_many(self, pal, store):
        none = pal("sessions", "list")
        assert (none.returncode, none.stdout) == (0, "")
        assert "no sessions found" in none.stderr
        for number in range(3):
            with store.open(f"s{number}") as log:
                log.append("run", {"task": "x"})
        some = pal("sessions", "list", "-n", "2")
        assert len(some.stdout.splitlines()) == 2
        assert "1 more: pal sessions list -n 3" in some.stderr

    def test_list_has_a_row_for_all_versions_of_an_answer(self, pal, store):
        with ScriptedServer(["Nine.", "Ten.", "Eleven.", "Hello."]) as model:
            pal.use(model)
            with serving(pal) as lines:
                token = re.search(r"#token=(\S+)", "".join(lines))[1]
                about = {"base_url": address(lines), "headers": {"Authorization": f"Bearer {token}"}}
                with httpx2.Client(**about, timeout=PATIENCE) as client:

                    def finished(path, **body):
                        run = client.post(path, json=body).json()
                        with client.stream("GET", f"/api/runs/{run['id']}/events") as events:
                            events.read()
                        return run["session"]

                    first = finished("/api/runs", text="sum?")
                    second = finished(f"/api/sessions/{first}/edit", step=0, text="sum?")
                    third = finished(f"/api/sessions/{second}/edit", step=0, text="sum?")
                    other = finished("/api/runs", text="hello")
        rows = json.loads(pal("sessions", "list", "--json").stdout)
        assert [(row["id"], row["versions"]) for row in rows["sessions"]] == [(other, 1), (third, 3)]
        assert rows["total"] == 2
        assert "(3 versions) sum?" in pal("sessions", "list").stdout
        assert "（3 个版本）sum?" in pal("sessions", "list", PAL_LANG="zh").stdout
        every = json.loads(pal("sessions", "list", "--json", "--all").stdout)["sessions"]
        assert {row["id"] for row in every} == {first, second, third, other}
        store.delete(second)
        assert "(2 versions) sum?" in pal("sessions", "list").stdout

    def test_a_new_name_does_not_move_a_session_up(self, pal, store, trip):
        run(pal, ["Hi."], "--session", "later", "hello")
        before = store.list()
        rename(store, trip, "My trip")
        assert [(info.id, info.updated) for info in store.list()] == [
            (info.id, info.updated) for info in before
        ]
        assert "My trip" in pal("sessions", "list").stdout.splitlines()[1]

    def test_show_prints_the_story(self, pal, trip):
        done = pal("sessions", "show", trip)
        lines = done.stdout.splitlines()
        assert lines[0].startswith("Session trip: 3 steps, 6 messages, ")
        assert lines[1:] == [
            "-> call   <- result   .. thinking   -- notice to the model   > you",
            "",
            "# what is here?",
            " 1 I will look.",
            ' 1 -> list_dir {"path": "."}',
            "   <- a.txt (9 bytes)",
            " 2 One file.",
            "   (completed)",
            "",
            "# thank you",
            " 3 You are welcome.",
            "   (completed)",
        ]

    def test_show_shortens_long_and_cleans_hostile_text(self, pal):
        (pal.workspace / "long.txt").write_text("\n".join(f"line {n} {'x' * 300}" for n in range(99)))
        script = [answer(HOSTILE, call("read_file", path="long.txt")), HOSTILE]
        run(pal, script, "--session", "evil", HOSTILE)
        for words in (["show", "evil"], ["list"], ["export", "evil", "--format", "markdown"]):
            done = pal("sessions", *words)
            assert done.returncode == 0
            assert not set(done.stdout + done.stderr) & set("\x1b\x07\x9b\r\u202e\u200b")
        shown = pal("sessions", "show", "evil").stdout
        assert "lines left out" in shown
        assert len(shown.splitlines()) < 80
        assert max(map(len, shown.splitlines()[1:])) <= 80

    def test_show_as_json_has_every_record(self, pal, store, trip):
        shown = json.loads(pal("sessions", "show", trip, "--json").stdout)
        records = store.read(trip).records
        assert [(r["id"], r["data"]) for r in shown["records"]] == [(r.id, r.data) for r in records]

    @pytest.mark.parametrize(
        "words", [["show"], ["fork"], ["delete", "-y"], ["repair"], ["export", "--format=html"]]
    )
    def test_one_that_is_not_there_is_an_error(self, pal, trip, words):
        done = pal("sessions", *words, "nope")
        assert (done.returncode, done.stdout) == (2, "")
        assert "There is no session 'nope'. The newest: trip (" in done.stderr
        assert pal("sessions", *words, "../x").returncode == 2


class TestExport:
    def test_jsonl_is_the_file_as_it_is(self, pal, store, trip):
        done = pal("sessions", "export", trip, "--format", "jsonl")
        assert done.stdout.encode() == (store.folder / "trip.jsonl").read_bytes()

    def test_html_and_markdown_go_to_a_file_or_to_standard_output(self, pal, trip):
        for form, begin in (("html", "<!DOCTYPE html>"), ("markdown", "# what is here?\n")):
            done = pal("sessions", "export", trip, "--format", form)
            kept = pal("sessions", "export", trip, "--format", form, "-o", "out")
            assert done.stdout.startswith(begin)
            assert "You are welcome." in done.stdout
            assert (kept.returncode, kept.stdout) == (0, "")
            assert (pal.workspace / "out").read_text() == done.stdout

    def test_format_is_the_ending_of_the_file_or_a_usual_short_name(self, pal, store, trip):
        for words, begin in (
            (["-o", "out.html"], "<!DOCTYPE html>"),
            (["-o", "out.md"], "# what is here?"),
            (["--format", "json", "-o", "out"], store.folder.joinpath("trip.jsonl").read_text()),
            (["--format", "md", "-o", "out.html"], "# what is here?"),
        ):
            done = pal("sessions", "export", trip, *words)
            assert done.returncode == 0, done.stderr
            assert (pal.workspace / words[-1]).read_text().startswith(begin)

    def test_minus_as_the_file_is_standard_output(self, pal, trip):
        done = pal("sessions", "export", trip, "--format", "md", "-o", "-")
        assert done.stdout.startswith("# what is here?")
        assert not (pal.workspace / "-").exists()

    def test_format_that_nothing_tells_is_asked_for(self, pal, trip):
        for words in ([], ["-o", "-"], ["-o", "out.txt"]):
            done = pal("sessions", "export", trip, *words)
            assert done.returncode == 2
            assert "--format is missing. Use one of markdown, html, jsonl" in done.stderr

    def test_a_file_that_cannot_be_written_is_an_error(self, pal, trip):
        done = pal("sessions", "export", trip, "--format", "html", "-o", "no/where")
        assert done.returncode == 1
        assert "Cannot write to no/where" in done.stderr


class TestChange:
    def test_fork_continues_from_its_step_and_the_original_is_kept(self, pal, store, trip):
        before = (store.folder / "trip.jsonl").read_bytes()
        done = pal("sessions", "fork", trip, "--at", "2", "--as", "other")
        assert (done.returncode, done.stdout) == (0, "other\n")
        assert before.startswith((store.folder / "other.jsonl").read_bytes())
        _, server = run(pal, ["Sure."], "--resume", "other", "count again")
        assert [text for role, text in said(server) if role == "user"] == ["what is here?", "count again"]
        assert (store.folder / "trip.jsonl").read_bytes() == before

    def test_a_fork_in_the_middle_of_a_run_asks_the_model_again(self, pal, trip):
        name = pal("sessions", "fork", trip, "--at", "1").stdout.strip()
        (pal.workspace / "b.txt").write_text("new")
        done, server = run(pal, ["Another answer."], "--resume", name)
        assert done.stdout == "Another answer.\n"
        assert said(server)[1:] == [
            ("user", "what is here?"),
            ("assistant", "I will look."),
            ("tool", "a.txt (9 bytes)"),
        ]

    def test_a_fork_that_cannot_be_is_an_error(self, pal, trip):
        for words, reason in (
            (["--at", "4"], "it has 3"),
            (["--at", "0"], "not a whole number of at least 1"),
            (["--as", trip], "Session 'trip' already exists"),
            (["--as", "x" * 201], "is not a valid session id"),
        ):
            done = pal("sessions", "fork", trip, *words)
            assert done.returncode == 2
            assert reason in done.stderr

    @posix_only
    def test_delete_asks_at_a_terminal_and_needs_yes_elsewhere(self, pal, store, trip):
        refused = pal("sessions", "delete", trip)
        assert refused.returncode == 2
        assert "--yes" in refused.stderr
        for typed, code in (("n\n", 1), ("\x04", 1), ("y\n", 0)):
            assert store.exists(trip)
            terminal = Terminal(pal, "sessions", "delete", trip)
            try:
                terminal.until("Delete trip? [y]es, [n]o: ")
                terminal.type(typed)
                assert terminal.end() == code
            finally:
                terminal.close()
        assert not store.exists(trip)

    def test_delete_takes_several_or_none(self, pal, store, trip):
        pal("sessions", "fork", trip, "--as", "other")
        assert pal("sessions", "delete", "--yes", trip, "nope").returncode == 2
        assert store.exists(trip)
        with store.open("other"):
            assert pal("sessions", "delete", "--yes", "other").returncode == 75
        assert pal("sessions", "delete", "--yes", trip, "other", trip).returncode == 0
        assert store.list() == []

    def test_repair_writes_intact_records_to_a_new_file(self, pal, store, trip):
        whole = pal("sessions", "repair", trip)
        assert (whole.returncode, whole.stdout) == (0, "")
        assert "no damage in trip" in whole.stderr
        path = store.folder / "trip.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        damaged = b"".join([*lines[:3], b"\x00garbage\n", *lines[3:]])
        path.write_bytes(damaged)
        done = pal("sessions", "repair", trip)
        assert done.stdout == f"{store.folder / 'trip.repaired.jsonl'}\n"
        assert "line 4" in done.stderr
        assert path.read_bytes() == damaged
        assert (store.folder / "trip.repaired.jsonl").read_bytes() == b"".join(lines)
        assert "damaged" in pal("sessions", "show", trip).stderr
        assert "(damaged) what is here? (last: thank you)" in pal("sessions", "list").stdout


class TestWaiting:
    CALLS = (call("calculator", expression="6*7"), call("calculator", expression="2+2"))
    ASK = ("--ask", "calculator", "--session", "trip", "count")

    def test_a_question_is_shown_answered_and_followed_from_other_processes(self, pal):
        assert run(pal, [answer("Counting.", *self.CALLS)], *self.ASK)[0].returncode == 4
        waiting = json.loads(pal("sessions", "waiting", "--json").stdout)["sessions"]
        assert [each["id"] for each in waiting] == ["trip"]
        first, second = (each["call_id"] for each in waiting[0]["questions"])
        shown = pal("sessions", "waiting").stdout
        assert "Call calculator?" in shown
        assert 'expression: "6*7"' in shown
        assert f"pal sessions answer trip {second} allow" in shown

        assert "1 more question" in pal("sessions", "answer", "trip", first, "allow").stderr
        done = pal("sessions", "answer", "trip", second, "deny", "--message", "Not that one.")
        assert done.stderr == "pal: recorded; to resume: pal run --resume trip\n"
        assert "no session is waiting" in pal("sessions", "waiting").stderr

        done, server = run(pal, ["Done."], "--ask", "calculator", "--resume", "trip")
        assert done.stdout == "Done.\n"
        results = [m["content"] for m in server.requests[0].messages if m["role"] == "tool"]
        assert results[0] == "42"
        assert "Not that one." in results[1]

    def test_unanswered_question_is_an_error_naming_the_pending_call(self, pal, trip):
        done = pal("sessions", "answer", trip, "call_9", "allow")
        assert done.returncode == 2
        assert "Pending: none" in done.stderr
        assert pal("sessions", "answer", "nowhere", "call_9", "allow").returncode != 0

    def test_a_hostile_call_moves_no_cursor(self, pal):
        asked = answer("Hm.", call("calculator", expression=f"{HOSTILE}{' ' * 200}rm"))
        assert run(pal, [asked], *self.ASK)[0].returncode == 4
        shown = pal("sessions", "waiting").stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "blanks" in shown
