"""Documents and forks of sessions: what models and tools wrote stays text, records stay what they were."""

from __future__ import annotations

import html
import json
import re
import sys
import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pure_agent_loop import Agent, tool
from pure_agent_loop.errors import ConfigError, LLMError, SessionNotFoundError
from pure_agent_loop.sessions import JsonlStore, Record, SqliteStore
from pure_agent_loop.sessions.export import to_html, to_markdown
from pure_agent_loop.sessions.fork import fork_session
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.sessions.story import read_story
from pure_agent_loop.support import prose
from pure_agent_loop.support.prose import prose_to_html, prose_to_markdown
from pure_agent_loop.testing import ScriptedLLM, answer, call

MARKUP = '</pre><script>alert(1)</script><img src=x onerror="x()">&amp;'
CODES = "\x1b]0;owned\x07\x1b[31mred\x1b[2J\x9b1m\r\u202e\u200b\x00"
FENCES = "```\n# not ours\n````\n~~~"
HOSTILE = f"{MARKUP}\n{CODES}\n{FENCES}\n\ud800"

FRAGMENTS = [
    *(
        "<script>alert(1)</script>",
        "<img src=x onerror=y>",
        "<",
        "<!--",
        "-->",
        "<![CDATA[",
        "<details>",
        "<https://x.y>",
    ),
    *("![", "!", "[", "]", "](", ")", "](javascript:x)", "[a]: javascript:x", '](https://x.y "t")', "(", ":"),
    *("```", "````", "~~~", "`", "``", "```html\n", "\\", "\\\\", "\n", "\n\n", "\n    ", "\n  ", "\t", " "),
    *(
        "> ",
        ">",
        "- ",
        "1. ",
        "* ",
        "# ",
        "---",
        "===",
        "|",
        "|-|-|",
        "*",
        "**",
        "_",
        "~~",
        "[ ] ",
        "&lt;",
        "&",
        '"',
    ),
    *(
        "![a](https://x.y/i.png)",
        "[a](javascript:x)",
        "\n\n[a]: javascript:x\n\n[a]",
        "\n```\n",
        "\n~~~\n",
        "[a](\nx)",
    ),
    *(
        "[a](<javascript:x>)",
        "[a](https://x.y)",
        "![a][b]\n\n[b]: https://x.y/i.png",
        "<img src='x'>",
        "\n- ```\n",
    ),
    *("a", "<b>", "\x00", "\x1b[31m", "\u202e", "0", "<a href=javascript:x>", "<style>", "</summary>", "\r"),
]


@tool
def echo(text: str) -> str:
    """Say it back.

    Args:
        text: What.
    """
    return text


EMPTY = ("br", "hr", "meta", "img")


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.stack: list[str] = []
        self.text = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name == "href"]
        self.stack += [] if tag in EMPTY else [tag]

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


def browsed(markdown):
    """What a browser makes of it where HTML in Markdown counts."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda _: True
    return Page(parser.render(markdown))


ELEMENTS = {"p", "pre", "code", "strong", "em", "s", "del", "br", "hr", "ul", "ol", "li", "blockquote"}
ELEMENTS |= {"h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"}


HEAD = {"html", "head", "meta", "title", "style", "body", "section", "details", "summary"}


def check_markdown(markdown):
    page = browsed(markdown)
    assert page.tags <= ELEMENTS | {"details", "summary", "a"}
    assert page.attributes <= {"href", "title", "class", "start", "style", "open"}
    assert all(re.match("https?://|mailto:", link, re.IGNORECASE) for link in page.links)
    return page


def session_of(folder, script, *tasks, session_id="s", kind=JsonlStore):
    store = kind(folder / "kept")
    agent = Agent(llm=ScriptedLLM(script), tools=[echo], sessions=store)
    for task in tasks:
        assert agent.run(task, session_id=session_id).stop_reason == "completed"
    return store


@pytest.fixture
def hostile(tmp_path):
    script = [
        answer(HOSTILE, call("echo", text=HOSTILE), call(HOSTILE, a=1), reasoning=HOSTILE),
        HOSTILE,
    ]
    return session_of(tmp_path, script, HOSTILE).read("s").records


class TestHtml:
    def test_conversation_text_is_escaped(self, hostile):
        page = Page(to_html(hostile, HOSTILE))
        assert page.tags <= HEAD | {"p", "pre", "h1", "h2", "h3"}
        assert page.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class"}
        assert page.text.count("<script>alert(1)</script>") >= 6

    def test_no_control_character_is_left(self, hostile):
        for text in (to_html(hostile, HOSTILE), to_markdown(hostile, HOSTILE)):
            assert not set(text) & set("\x1b\x07\x9b\r\u202e\u200b\x00\ud800")
            assert text.encode("utf-8")

    def test_it_loads_nothing_and_says_so(self, hostile):
        text = to_html(hostile)
        assert "default-src 'none'" in text
        assert "http://" not in text
        assert "https://" not in text

    def test_a_huge_result_is_kept_whole_and_soon(self, tmp_path):
        huge = "<b>\x1b[2J" * 400_000
        store = session_of(tmp_path, [call("echo", text="x"), "Done."], "go")
        records = store.read("s").records
        grown = [_with_result(record, huge) for record in records]
        begun = time.monotonic()
        text, marked = to_html(grown), to_markdown(grown)
        assert time.monotonic() - begun < 20
        assert html.unescape(text).count("<b>\\x1b[2J") == 400_000
        assert marked.count("<b>\\x1b[2J") == 400_000


def _with_result(record, text):
    if record.type != "messages":
        return record
    messages = [{**m, "content": text} if m["role"] == "tool" else m for m in record.data["messages"]]
    return Record(record.id, record.parent, record.time, record.type, {"messages": messages})


PLACE = "PLACE"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A session with a word wherever a model, a tool or a person chooses a text."""
    edit = call("edit_file", path=f"a/{PLACE}", old_text=f"{PLACE}\nold", new_text=f"{PLACE}\nnew")
    write = call("write_file", path=PLACE, content=PLACE)
    calls = [call("echo", text=PLACE), edit, write, call("shell", command=PLACE), call(PLACE, a=PLACE)]
    script = [answer(PLACE, *calls, reasoning=PLACE), PLACE]
    return session_of(tmp_path_factory.mktemp("places"), script, PLACE).read("s").records


def placed(value, text):
    """The value with the text in the places, also in those of JSON."""
    if isinstance(value, dict):
        return {placed(name, text): placed(each, text) for name, each in value.items()}
    if isinstance(value, list):
        return [placed(each, text) for each in value]
    if not isinstance(value, str) or PLACE not in value:
        return value
    return json.dumps(placed(json.loads(value), text)) if value[0] == "{" else value.replace(PLACE, text)


class TestPlaces:
    @settings(max_examples=150, deadline=None)
    @given(text=st.lists(st.sampled_from([*FRAGMENTS, HOSTILE]), max_size=6).map("".join))
    def test_user_content_is_always_escaped(self, places, text):
        records = [Record(r.id, r.parent, r.time, r.type, placed(r.data, text)) for r in places]
        page = Page(to_html(records))
        assert page.tags <= ELEMENTS | HEAD | {"ins"}
        assert page.attributes <= {
            "lang",
            "charset",
            "http-equiv",
            "content",
            "name",
            "class",
            "start",
            "dir",
            "open",
        }
        assert page.stack == []
        check_markdown(to_markdown(records))

    def test_the_places_are_shown(self, places):
        assert min(to_html(places).count(PLACE), to_markdown(places).count(PLACE)) >= 15


class TestMarkdown:
    def test_conversation_text_is_escaped(self, hostile):
        check_markdown(to_markdown(hostile, HOSTILE))

    def test_it_reads_as_it_happened(self, tmp_path):
        store = session_of(tmp_path, [answer("I ask.", call("echo", text="hi")), "It said hi."], "say hi")
        text = to_markdown(store.read("s").records, "Session s")
        headings = [line for line in text.splitlines() if line.startswith(("#", "*"))]
        assert headings == [
            "# Session s",
            "## Task",
            "### Step 1: Answer",
            "### Step 2: Answer",
        ]
        assert "### Step 2: Answer\n\nIt said hi.\n" in text
        body = "```text\nhi\n```\n\n```text\nhi\n```"
        assert f"<details><summary>Step 1: echo hi (completed)</summary>\n\n{body}\n\n</details>" in text
        assert "## Task\n\n> say hi\n" in text

    def test_result_follows_its_call_and_an_edit_is_a_diff(self, tmp_path):
        calls = [
            call("echo", text="one"),
            call("edit_file", path="a.py", old_text="a\nb\n", new_text="a\nc\n"),
        ]
        store = session_of(tmp_path, [answer("", *calls), "Done."], "Fix it.")
        text, page = to_markdown(store.read("s").records), to_html(store.read("s").records)
        assert text.startswith("# Fix it.\n")
        for document in (text, page):
            assert document.index("Step 1: echo one (completed)") < document.index(
                "Step 1: edit_file a.py (failed)"
            )
            assert document.count("<summary>") == 2
        assert "```diff\n--- a.py\n+++ a.py\n a\n-b\n+c\n```" in text
        assert "<del>-b</del>\n<ins>+c</ins></pre>" in page
        assert "<h1>Fix it.</h1>" in page

    def test_a_heading_with_the_path_needs_no_more_and_a_plan_is_a_list(self, tmp_path):
        items = [{"task": "Look", "status": "done"}, {"task": "Fix <b>", "status": "in_progress"}]
        calls = [call("read_file", path="a.py"), call("todo_write", items=[*items, {"task": "Test"}])]
        store = session_of(tmp_path, [answer("", *calls), "Done."], "Fix it.")
        text, page = to_markdown(store.read("s").records), to_html(store.read("s").records)
        assert "<details><summary>Step 1: read_file a.py (failed)</summary>\n\n```text\nTool" in text
        assert "☑ Look\n▸ Fix <b>\n☐ Test\n" in text
        assert "☑ Look\n▸ Fix &lt;b&gt;\n☐ Test</pre>" in page

    def test_a_run_that_failed_says_why_and_one_that_did_not_is_silent(self, tmp_path):
        store = JsonlStore(tmp_path / "kept")
        failure = LLMError("Key <b> is unknown.", kind="auth")
        agent = Agent(llm=ScriptedLLM([failure, "Now."]), sessions=store)
        agent.run("one", session_id="s")
        agent.run(None, session_id="s")
        text = to_markdown(store.read("s").records)
        assert "*The run ended: error: Key \\<b\\> is unknown.*" in text
        assert text.count("The run ended") == 1


PROSE = """\
# Sum of `a < b`
Some **bold** and *soft* ~~old~~ text,
see [the page](https://example.org/a_b) and ![a sign](https://example.org/x.png).

1. First
   ```python
   if a < b:
       print("x")
   ```
2. Second
   - [x] done
   - open

| name | value |
|------|-------|
| a | `x` |

> quoted
---
"""


class TestProse:
    def test_a_formula_is_mathml_or_code_and_money_is_none(self):
        shown = prose_to_html("It costs $5 and $6. Here $a_1 *b*$, $$\\sum_i *x*$$, \\(\\begin{x}*y*\\).")
        assert "costs $5 and $6. Here" in shown
        a1 = "<msub><mi>a</mi><mn>1</mn></msub>"
        starred = "<mo>*</mo><mi>{}</mi><mo>*</mo></mrow></math>"
        assert f'<math display="inline"><mrow>{a1}{starred.format("b")}' in shown
        assert '<math display="block"><mrow><munder><mo>\u2211</mo><mi>i</mi></munder>' in shown
        assert "<code>\\(\\begin{x}*y*\\)</code>" in shown
        assert "<em>" not in shown

    def test_a_task_has_a_box_and_no_bullet(self):
        shown = prose_to_html("- [x] done\n- [ ] open\n- plain")
        assert shown.count('<li class="box">') == 2
        assert "<li>plain</li>" in shown

    def test_html_has_the_elements_of_markdown(self):
        shown = prose_to_html(PROSE)
        for part in (
            "<h3>Sum of <code>a &lt; b</code></h3>",
            "<p>Some <strong>bold</strong> and <em>soft</em> <s>old</s> text,\nsee the page",
            "the page (https://example.org/a_b) and a sign (https://example.org/x.png).</p>",
            "<ol>\n<li>First<pre>if a &lt; b:\n    print(&quot;x&quot;)</pre>\n</li>\n<li>Second",
            '<ul>\n<li class="box">\u2611 done</li>\n<li>open</li>\n</ul>\n</li>\n</ol>',
            "<tr>\n<th>name</th>\n<th>value</th>\n</tr>",
            "<tr>\n<td>a</td>\n<td><code>x</code></td>\n</tr>",
            "<blockquote>\n<p>quoted</p>\n</blockquote>\n<hr>",
        ):
            assert part in shown

    def test_html_without_the_extra_is_preformatted(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "markdown_it", None)
        prose._parser.cache_clear()
        assert prose_to_html("**a** <b>") == "<pre>**a** &lt;b&gt;</pre>"

    def test_very_long_html_is_preformatted(self):
        shown = prose_to_html("*a* " * 50_000)
        assert shown.startswith("<pre>*a* ")
        assert "<em>" not in shown

    def test_markdown_renders_as_it_did(self):
        page = check_markdown(prose_to_markdown(PROSE))
        assert {"h4", "strong", "em", "s", "ol", "ul", "pre", "code", "table", "blockquote"} <= page.tags
        assert page.links == ["https://example.org/a_b", "https://example.org/x.png"]
        assert 'if a < b:\n    print("x")' in page.text
        assert "Sum of a < b" in page.text

    @pytest.mark.parametrize("piece", [*FRAGMENTS, *(a + b for a in FRAGMENTS[:9] for b in FRAGMENTS[9:13])])
    def test_a_long_hostile_answer_is_read_in_linear_time(self, piece):
        text = piece * (200_000 // len(piece))  # minutes, if the time were quadratic
        assert Page(prose_to_html(text)).tags <= ELEMENTS
        assert Page(prose_to_markdown(text)).tags <= {"code"}

    @example("~~~ `\nopen")
    @example("\\`<b>`")
    @example("~~a *b~~ c*")
    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join))
    def test_hostile_prose_is_escaped(self, text):
        page = Page(prose_to_html(text))
        assert page.tags <= ELEMENTS
        assert page.attributes <= {"start", "class"}
        assert page.stack == []
        check_markdown(prose_to_markdown(text))
        beside = check_markdown(
            f"before\n\n{prose_to_markdown(text)}\n\n## Ours\n\n<details>\n\nx\n\n</details>"
        )
        assert {"h2", "details"} <= beside.tags  # no fence is left open


class TestStory:
    def test_no_records_or_strange_ones_are_a_story_too(self):
        strange = [
            Record(f"{n:08d}", None, 1e300, word, data)
            for n, (word, data) in enumerate(
                (word, data)
                for word in ("run", "messages", "boundary", "state", "answer", "outcome", "intent", "other")
                for data in (
                    {},
                    {"messages": 3, "task": [], "answers": True, "key": 1},
                    {"messages": [1, {}, {"role": "assistant", "tool_calls": [1, {"function": 2}]}]},
                    {"messages": [{"role": "tool", "content": [1]}, {"role": "user", "content": [{}]}]},
                    {"key": "1:tool:x", "value": [], "task": "t", "answers": -1},
                    {"key": ":", "value": {"tool_calls": [None], "content": 4, "text": {}}},
                )
            )
        ]
        for records in ([], strange):
            assert to_html(records).endswith("</html>\n")
            assert to_markdown(records)

    def test_work_before_a_crash_is_exported(self, tmp_path):
        store = session_of(tmp_path, [answer("I ask.", call("echo", text="hi")), "Done."], "say hi")
        records = store.read("s").records
        cut = next(n for n, record in enumerate(records) if record.type == "outcome")
        story = read_story(records[: cut + 1])
        assert [(e.kind, e.text) for e in story.entries] == [
            ("task", "say hi"),
            ("answer", "I ask."),
            ("call", '{"text": "hi"}'),
            ("result", "hi"),
        ]
        assert story.stop_reason == ""

    def test_failed_call_is_marked_and_a_repeated_task_is_not_a_message(self, tmp_path):
        script = [call("nothing", a=1), "No.", "Again no."]
        story = read_story(session_of(tmp_path, script, "go", "go").read("s").records)
        kinds = [entry.kind for entry in story.entries]
        assert kinds == ["task", "call", "result", "answer", "end", "task", "answer", "end"]
        assert (story.steps, story.messages, story.task) == (3, 6, "go")


@pytest.mark.parametrize("kind", [JsonlStore, SqliteStore])
class TestFork:
    SCRIPT = (answer("I ask.", call("echo", text="hi")), "First.", "Second.")

    def test_all_of_it_is_copied_as_it_is(self, tmp_path, kind):
        store = session_of(tmp_path, self.SCRIPT, "one", "two", kind=kind)
        before = store.read("s")
        name = fork_session(store, "s")
        assert store.read(name) == before == store.read("s")
        assert before.problems == []

    @pytest.mark.parametrize(("at", "last"), [(1, "outcome"), (2, "state"), (3, "state")])
    def test_up_to_a_step(self, tmp_path, kind, at, last):
        store = session_of(tmp_path, self.SCRIPT, "one", "two", kind=kind)
        all_of_it = store.read("s").records
        assert fork_session(store, "s", at, "new") == "new"
        copied = store.read("new").records
        assert copied == all_of_it[: len(copied)]
        assert copied[-1].type == last
        assert read_story(copied).steps == at
        assert (len(copied) == len(all_of_it)) is (at == 3)

    def test_each_step_can_be_gone_on_from_with_and_without_a_task(self, tmp_path, kind):
        store = session_of(tmp_path, self.SCRIPT, "one", "two", kind=kind)
        first = [("user", "one"), ("assistant", "I ask."), ("tool", "hi")]
        second = [*first, ("assistant", "First.")]
        third = [*second, ("user", "two"), ("assistant", "Second.")]
        for at, history in ((1, first), (2, second), (3, third)):
            for task in ("more", None):
                if task is None and at != 1:
                    continue  # that task is done
                name = fork_session(store, "s", at)
                llm = ScriptedLLM(["Other."])
                result = Agent(llm=llm, tools=[echo], sessions=store).run(task, session_id=name)
                assert result.content == "Other."
                asked = [(m["role"], m["content"]) for m in llm.requests[0].messages[1:]]
                assert asked == [*history, *([("user", task)] if task else [])]
                assert store.read(name).problems == []

    def test_task_after_a_crash_is_not_part_of_the_previous_step(self, tmp_path, kind):
        store = session_of(tmp_path, self.SCRIPT[:2], "one", kind=kind)
        fork_session(store, "s", 1, "crashed")
        agent = Agent(llm=ScriptedLLM(["Second."]), tools=[echo], sessions=store)
        agent.run("two", session_id="crashed")
        fork_session(store, "crashed", 1, "again")
        records = store.read("again").records
        assert [record.data["task"] for record in records if record.type == "run"] == ["one"]
        assert records[-1].type == "outcome"

    def test_a_step_that_failed_ends_where_its_run_ended(self, tmp_path, kind):
        store = kind(tmp_path / "kept")
        failure = LLMError("gone", kind="bad_request")
        agent = Agent(llm=ScriptedLLM([failure, "Now."]), tools=[echo], sessions=store)
        assert agent.run("one", session_id="s").stop_reason == "error"
        assert agent.run(None, session_id="s").content == "Now."
        fork_session(store, "s", 1, "new")
        assert read_story(store.read("new").records).stop_reason == "error"
        assert [r.type for r in store.read("new").records].count("run") == 1

    def test_one_that_cannot_be_leaves_nothing(self, tmp_path, kind):
        store = session_of(tmp_path, self.SCRIPT, "one", "two", kind=kind)
        for at in (0, -1, 4):
            with pytest.raises(ConfigError, match="it has 3"):
                fork_session(store, "s", at)
        with pytest.raises(ConfigError, match="already"):
            fork_session(store, "s", 1, "s")
        with pytest.raises(ConfigError, match="session_id"):
            fork_session(store, "s", 1, "a\0b")
        with pytest.raises(SessionNotFoundError):
            fork_session(store, "other")
        assert [info.id for info in store.list()] == ["s"]

    def test_a_session_in_use_can_be_forked(self, tmp_path, kind):
        store = session_of(tmp_path, self.SCRIPT, "one", "two", kind=kind)
        with store.open("s"):
            name = fork_session(store, "s")
        with store.open(name) as log:
            newest = log.records[-1].id
            assert log.append("run", {"task": "x"}).id > newest


def test_a_store_of_another_kind_gets_copies(tmp_path):
    class Foreign:
        """A log that is none of ours."""

        def __init__(self, log):
            self._log = log

        def __getattr__(self, name):
            return getattr(self._log, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self._log.close()

    class Theirs(JsonlStore):
        def open(self, session_id, *, create=True):
            return Foreign(super().open(session_id, create=create))

    store = session_of(tmp_path, TestFork.SCRIPT, "one", "two")
    theirs = Theirs(store.folder)
    name = fork_session(theirs, "s", 2)
    copied = store.read(name).records
    assert [(r.type, r.data) for r in copied] == [
        (r.type, r.data) for r in store.read("s").records[: len(copied)]
    ]


class TestParts:
    def changes(self, store):
        return [each for record in store.read("s").records for each in record.data.get("parts", ())]

    @pytest.mark.parametrize("kind", [JsonlStore, SqliteStore])
    def test_every_change_of_a_part_is_recorded_with_its_time(self, tmp_path, kind):
        store = session_of(tmp_path, [answer("I ask.", call("echo", text="hi")), "Hi."], "say hi", kind=kind)
        found = [(each["id"], each["state"]) for each in self.changes(store)]
        three = ("pending", "running", "completed")
        assert found == [(name, each) for name in ("msg_1.1", "msg_1.call_1", "msg_2.1") for each in three]
        times = [each["time"] for each in self.changes(store)]
        assert times == sorted(times)
        assert {each.get("tool") for each in self.changes(store)} == {"echo", None}

    def test_a_replay_sees_a_call_that_went_another_way(self, tmp_path):
        store = session_of(tmp_path, [answer("I ask.", call("echo", text="hi")), "Hi."], "say hi")
        records = store.read("s").records
        assert replay_session(records).difference is None
        for record in records:
            for each in record.data.get("parts", ()):
                if each.get("tool") and each["state"] == "completed":
                    each["state"] = "error"
        assert replay_session(records).difference.what == "parts"

    def test_non_changes_are_skipped(self, tmp_path):
        store = session_of(tmp_path, [answer("I ask.", call("echo", text="hi")), "Hi."], "say hi")
        records = [*store.read("s").records]
        odd = [7, None, {"parts": 7}, {"parts": [7, {"call_id": 1}, {"call_id": "call_1", "time": "x"}]}]
        for each in odd:
            data = each if isinstance(each, dict) else {"parts": [each]}
            made = [r if r.type != "parts" else Record(r.id, r.parent, r.time, r.type, data) for r in records]
            assert "Step 1: echo hi" in to_markdown(made)
            difference = replay_session(made).difference
            assert difference is None or difference.what == "parts"
