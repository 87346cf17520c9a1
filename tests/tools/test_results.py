"""Results beyond text: each becomes what the server takes, or says truthfully what it is."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.assistant.images import png
from tests.helpers import check_events, of_type
from tests.sessions.cuts import copied

from pure_agent_loop import (
    Agent,
    CancelToken,
    ConfigError,
    EventType,
    File,
    Hooks,
    Image,
    ImageError,
    OpenAIClient,
    Profile,
    QueryState,
    ToolCall,
    tool,
)
from pure_agent_loop.compaction.rungs import prune, trim
from pure_agent_loop.llm.messages import to_wire
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.media import media_parts
from pure_agent_loop.prompts import ENGLISH
from pure_agent_loop.schema import outcome
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, call, check_history, status

PDF = b"%PDF-1.7\n%%EOF"
WAV = b"RIFF\x04\0\0\0WAVE"


def gives(value, name="look"):
    @tool(name=name)
    def look() -> object:
        """Look."""
        return value() if callable(value) else value

    return look


class Text(str):
    """As those of template engines and parsers are: what is put to it, or asked of it, comes out changed."""

    __slots__ = ()

    def __add__(self, other):
        return Text(f"{self}&lt;")

    def __radd__(self, other):
        return Text(f"&gt;{self}")

    def __len__(self):
        return 0

    def __str__(self):
        raise RuntimeError("ask for it in another way")

    def isascii(self):
        return True


def run_with(value, **settings):
    """A run with one call, and the second request."""
    with ScriptedLLM([call("look"), "Seen."], tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[gives(value)], **settings).run("Look.")
    assert check_history(result.messages) == []
    check_events(result.events)
    return result, llm.requests[1].messages


def test_result_of_a_str_subclass_is_text(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "s3cret-of-mine")
    with ScriptedLLM([call("look"), "Seen."], tools_may_fail=True) as llm:
        result = Agent(llm=llm, tools=[gives(Text("it is s3cret-of-mine \ud800"))]).run("Look.")
    assert result.stop_reason == "completed"
    (found,) = [each["content"] for each in result.messages if each["role"] == "tool"]
    assert (type(found), found) == (str, "it is [secret:MY_TOKEN removed] \ufffd")


def texts_of(value, **settings):
    _, messages = run_with(value, **settings)
    return messages[3]["content"], messages[4:]


def test_image_follows_in_a_separate_message():
    picture = Image(data=png(20, 10))
    result, messages = run_with(picture)
    assert messages[3]["content"] == f"[image/png, 20 x 10, {len(png(20, 10)):,} bytes]"
    text, image = messages[4]["content"]
    assert (messages[4]["role"], text["text"]) == ("user", "Media returned by look:")
    assert image["image_url"]["url"].endswith(base64.b64encode(png(20, 10)).decode())
    (seen,) = of_type(result.events, EventType.OBSERVATION)
    assert seen.value is picture is seen.data["value"]
    assert "value" not in seen.to_dict()["data"]
    assert "value" not in seen.public(tools=True)["data"]


def test_files_are_parts_and_texts_are_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2")
    (tmp_path / "a.pdf").write_bytes(PDF)
    text, (message,) = texts_of(
        [
            "Three files:",
            File(path=tmp_path / "a.csv", media_type="text/csv"),
            File(path=tmp_path / "a.pdf"),
            File(data=WAV, media_type="audio/wav"),
        ]
    )
    assert text == "Three files:\na,b\n1,2\n[a.pdf, application/pdf, 14 bytes]\n[audio/wav, 12 bytes]"
    _, pdf, sound = message["content"]
    assert pdf["file"]["filename"] == "a.pdf"
    assert sound["input_audio"] == {"data": base64.b64encode(WAV).decode(), "format": "wav"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: Image(data=png(9_000, 1)), "9000 x 1"),
        (lambda: Image(data=png() + b"\0" * 5_000_000), "at most 5,000,000"),
        (lambda: Image(path="/nowhere/a.png"), "cannot be read"),
        (lambda: File(data=b"PK\3\4", media_type="application/zip"), "is not a PNG"),
    ],
)
def test_unsent_medium_is_explained(value, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)  # which would make it smaller
    text, more = texts_of(value)
    assert text.startswith("[not shown: ")
    assert words in text
    assert more == []


def test_images_of_one_result_are_limited():
    text, (message,) = texts_of([Image(data=png())] * 25)
    assert len(message["content"]) == 21
    assert text.count("[not shown: ") == 5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Image(),
        lambda: Image(data=b"x", url="https://x"),
        lambda: Image(data="a.png"),
        lambda: Image(url="http://x"),
        lambda: File(data=b"x"),
        lambda: File(path=3),
        lambda: File(path="x", media_type=3),
        lambda: Profile("p", takes=["video"]),
    ],
)
def test_wrong_media_are_refused_where_they_are_made(wrong):
    with pytest.raises(ConfigError):
        wrong()


class Frame:
    """What pandas, polars and their kin have in common."""

    shape = property(lambda self: (len(self._rows), len(self._columns)))
    columns = property(lambda self: self._columns)

    def __init__(self, rows, columns):
        self._rows, self._columns = rows, columns

    def head(self, count):
        return type(self)(self._rows[:count], self._columns)

    def rows(self):
        return self._rows


class Indexed(Frame):
    def itertuples(self, index, name):
        assert index is True
        assert name is None
        return iter([(f"r{number}", *row) for number, row in enumerate(self._rows)])


class Array:
    shape = property(lambda self: (len(self._items),))
    size = property(lambda self: len(self._items))
    dtype = property(lambda self: "int64")

    def __init__(self, items):
        self._items = items

    def tolist(self):
        return self._items

    def ravel(self):
        return self

    def __getitem__(self, part):
        return Array(self._items[part])


def test_tables_can_be_read_and_are_bounded():
    assert texts_of(Frame([(1, "a|b")], ["n", "s"]))[0] == "| n | s |\n| --- | --- |\n| 1 | a\\|b |"
    assert texts_of(Indexed([(1, 2)], ["a", "b"]))[0].endswith("| r0 | 1 | 2 |")
    text, _ = texts_of(Frame([tuple(range(30))] * 2_000, [f"c{n}" for n in range(30)]))
    assert text.endswith("(50 of 2,000 rows, 20 of 30 columns are shown)")
    assert len(text.splitlines()) == 53


def test_arrays_are_numbers():
    assert texts_of(Array([1, 2]))[0] == "[1, 2]"
    assert texts_of({"sum": Array([1, 2])})[0] == '{"sum": [1, 2]}'
    assert texts_of(Array(list(range(5_000))))[0].endswith(
        "(the first 1,000 of 5,000 values; shape (5000,), int64)"
    )


def progress_of(result):
    return [(event.tool, event.text) for event in of_type(result.events, EventType.PROGRESS)]


def test_pieces_are_reported_and_joined():
    thread = []

    def pieces():
        thread.append(threading.current_thread().name)
        yield "one "
        yield "two"

    result, messages = run_with(pieces)
    assert messages[3]["content"] == "one two"
    assert progress_of(result) == [("look", "one "), ("look", "two")]
    assert thread == ["pal-tool"]


def test_an_async_iterator_of_values_and_images():
    async def pieces():
        yield {"done": 1}
        yield Image(data=png())

    result, messages = run_with(pieces)
    assert messages[3]["content"] == f'{{"done": 1}}\n[image/png, 2 x 1, {len(png())} bytes]'
    assert [text for _, text in progress_of(result)] == ['{"done": 1}', f"Image({len(png())} bytes)"]
    assert len(messages[4]["content"]) == 2


def test_an_iterator_that_fails_is_a_tool_that_fails():
    def pieces():
        yield "one"
        raise OSError("no more")

    assert "no more" in texts_of(pieces)[0]


def test_an_iterator_without_end_is_stopped(tmp_path):
    def pieces():
        while True:
            yield "x" * 100_000

    text, _ = texts_of(pieces, results_folder=tmp_path, max_result_chars=1_000)
    assert text.endswith("[stopped after 1,000,000 characters: the tool kept producing output]")


def test_an_iterator_that_is_left_is_closed():
    closed = threading.Event()
    token = CancelToken()

    def pieces():
        try:
            yield "one"
            token.cancel()
            yield "two"
            yield "three"
        finally:
            closed.set()

    with ScriptedLLM([call("look")]) as llm:
        result = Agent(llm=llm, tools=[gives(pieces)]).run("Look.", cancel_token=token)
    assert result.stop_reason == "cancelled"
    assert closed.wait(10)


def test_pieces_of_concurrent_calls_are_reported():
    @tool
    def count(start: int) -> Iterator[str]:
        """Count."""
        return (f"{start + number} " for number in range(150))

    calls = [call("count", start=start) for start in (0, 500, 1000)]
    with ScriptedLLM([calls, "Done."]) as llm:
        events = list(Agent(llm=llm, tools=[count]).run_stream("Count."))
    assert sum(event.type is EventType.PROGRESS for event in events) == 450
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    check_events(events)


@pytest.mark.parametrize("mode", ["text", "json"])
def test_images_come_where_tools_are_put_as_text_too(mode):
    said = {
        "text": "Thought: look\nAction: look\nAction Input: {}",
        "json": '{"tool": "look", "arguments": {}}',
    }
    with ScriptedServer(lambda messages, *_: "Seen." if len(messages) > 2 else said[mode]) as server:
        Agent("m", "k", server.base_url, tools=[gives(Image(data=png()))], tool_mode=mode).run("Look.")
        sent = json.dumps([request.body["messages"] for request in server.requests])
    assert "image_url" in sent


def test_a_hook_that_changes_a_result_takes_the_rest_away():
    hooks = Hooks(after_tool=[lambda name, args, text, context: "kept back"])
    result, messages = run_with(lambda: iter(["secret", Image(data=png())]), hooks=hooks)
    assert [m["content"] for m in messages[3:]] == ["kept back"]
    assert progress_of(result) == []
    assert of_type(result.events, EventType.OBSERVATION)[0].value is None


def test_secrets_in_results_are_not_sent():
    secret = "hunter2-hunter2"
    redactor = Redactor([secret], env={})
    value = [
        File(data=b"%PDF-1.7 " + secret.encode(), media_type="application/pdf"),
        Image(url=f"https://x/?k={secret}"),
    ]
    result, messages = run_with(value, redact=redactor)
    assert secret not in json.dumps(messages)
    assert messages[-1]["role"] == "tool"
    assert messages[-1]["content"].endswith("[not shown: it holds a secret]")
    assert of_type(result.events, EventType.OBSERVATION)[0].value is None
    pieces, _ = run_with(lambda: iter(["hunter2-", "hunter2"]), redact=redactor)
    assert secret not in "".join(text for _, text in progress_of(pieces))


def test_profile_decides_which_media_are_sent():
    with ScriptedServer([call("look"), "Seen."]) as server:
        client = OpenAIClient("m", "k", server.base_url, profile=Profile("p", takes=["file"]))
        value = [Image(data=png()), File(data=PDF, media_type="application/pdf")]
        Agent(llm=client, tools=[gives(value)]).run("Look.")
        message = server.requests[1].body["messages"][4]
    assert [part["type"] for part in message["content"]] == ["text", "text", "file"]
    assert "it was left out here" in message["content"][1]["text"]


@pytest.mark.parametrize(
    "words",
    [
        "Failed to deserialize: messages[4]: unknown variant `image_url`, expected `text`",
        "image input is not supported - hint: you may need to provide the mmproj",
        "m is not a multimodal model",
        "Invalid content type. image_url is only supported by certain models.",
    ],
)
def test_a_refusal_of_images_is_learned(words):
    def refusing(messages, tools, options):
        if messages[-1]["content"] == "Look.":
            return call("look")
        held = "image_url" in json.dumps(messages)
        return status(400, words) if held else answer("Seen.")

    with ScriptedServer(refusing) as server:
        agent = Agent("m", "k", server.base_url, tools=[gives(Image(data=png()))])
        result = agent.run("Look.")
        last = server.requests[-1].body["messages"][4]["content"]
    assert result.content == "Seen."
    assert "[image/png, " in last
    assert "image content from tools is described in words" in " ".join(
        event.message for event in of_type(result.events, EventType.NOTICE)
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, "image_url is not supported"),
        (400, "messages[0].content must be a string"),
        (400, "Bad Request"),
        (404, "No endpoints found that support image input"),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
    ],
)
def test_an_image_that_is_refused_fails_its_task_and_no_other_one(code, words):
    def refusing(messages, *_):
        return status(code, words) if "image_url" in json.dumps(messages) else answer("I cannot see it.")

    with ScriptedServer(refusing) as server:
        conversation = Agent("m", "k", server.base_url).conversation()
        results = [conversation.send_sync("What is it?", media=[png()])]
        results += [conversation.send_sync(each) for each in ("Well?", "And now?")]
        sent = [each.body["messages"] for each in server.requests]
        kept = conversation.messages
    assert [each.stop_reason for each in results] == ["error", "completed", "completed"]
    assert words in results[0].error
    said = [[each.message for each in of_type(result.events, EventType.NOTICE)] for result in results]
    assert [sum("left out" in each for each in notices) for notices in said] == [0, 1, 0]
    assert ["image_url" in json.dumps(each) for each in (sent[0], *sent[-2:])] == [True, False, False]
    assert "left out: this model does not accept it" in sent[-1][1]["content"]
    assert "image_url" in json.dumps(kept)  # another model may take it


def test_an_image_that_was_not_the_reason_is_not_left_out():
    answers = ["Seen.", status(400, "no"), status(400, "no"), "Yes."]
    with ScriptedServer(answers) as server:
        conversation = Agent("m", "k", server.base_url).conversation()
        results = [conversation.send_sync("What is it?", media=[png()])]
        results += [conversation.send_sync(each) for each in ("Well?", "And now?")]
        sent = [json.dumps(each.body) for each in server.requests]
    assert [each.stop_reason for each in results] == ["completed", "error", "completed"]
    assert ["image_url" in each for each in sent] == [True, True, False, True]


def test_an_image_that_was_refused_is_sent_when_it_is_asked_about_again():
    def refusing(messages, *_):
        return status(400, "no images") if "image_url" in json.dumps(messages) else answer("No.")

    with ScriptedServer(refusing) as server:
        conversation = Agent("m", "k", server.base_url).conversation()
        first = [conversation.send_sync("What is it?", media=[png()]), conversation.send_sync("Well?")]
        again = conversation.send_sync("And now?", media=[png()])
    assert [each.stop_reason for each in (*first, again)] == ["error", "completed", "error"]


def test_media_take_pdf_and_sound(tmp_path):
    (tmp_path / "a.pdf").write_bytes(PDF)
    made = media_parts(
        [tmp_path / "a.pdf", WAV, Image(data=png()), File(data=PDF, media_type="application/pdf")]
    )
    assert [part["type"] for part in made] == ["file", "input_audio", "image_url", "file"]
    assert media_parts(made) == made
    with pytest.raises(ConfigError):
        media_parts(Image(data=png()))
    with pytest.raises(ImageError):
        media_parts([{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}])
    with pytest.raises(ConfigError):
        media_parts([{"type": "file", "file": {"file_id": "f"}}])


def test_a_session_keeps_the_parts(tmp_path):
    store = JsonlStore(tmp_path)
    with ScriptedLLM([call("look"), "Seen.", "Still there."]) as llm:
        agent = Agent(llm=llm, tools=[gives(Image(data=png()))], sessions=store)
        first = agent.run("Look.", session_id="s")
        agent.run("And now?", session_id="s")
    assert llm.requests[2].messages[1:5] == first.messages[:4]
    report = replay_session(store.read("s").records)
    assert (report.runs, report.difference) == (2, None)


def test_a_run_that_was_cut_off_has_the_parts_again(tmp_path):
    store = JsonlStore(tmp_path)
    ran = []

    def picture():
        ran.append(1)
        return Image(data=png())

    with ScriptedLLM([call("look"), ValueError("down")]) as llm:
        agent = Agent(llm=llm, tools=[gives(picture)], sessions=store)
        agent.run("Look.", session_id="s")
    records = store.read("s").records
    last = next(n for n, record in enumerate(records) if record.type == "outcome")
    again = JsonlStore(tmp_path / "again")
    copied(records[: last + 1], again)
    with ScriptedLLM(["Seen."]) as llm:
        result = Agent(llm=llm, tools=[gives(picture)], sessions=again).run(None, session_id="s")
    assert (result.content, ran) == ("Seen.", [1])
    assert llm.requests[0].messages[4]["content"][1]["type"] == "image_url"


def test_state_with_open_calls_survives_serialization():
    state = QueryState()
    calls = [ToolCall("1", "look", {}), ToolCall("2", "look", {})]
    state.add_response(LLMResponse(None, calls), TokenUsage.zero())
    state.add_result("2", "text", [{"type": "image_url", "image_url": {"url": "https://x"}}])
    again = QueryState.from_dict(json.loads(json.dumps(state.to_dict())))
    assert again == state
    again.add_result("1", "text")
    assert [m["role"] for m in again.messages] == ["assistant", "tool", "tool", "user"]


def history(rounds):
    state = QueryState()
    state.add_user("Look at them all.")
    for number in range(rounds):
        state.add_response(LLMResponse(None, [ToolCall(f"c{number}", "look", {})]), TokenUsage.zero())
        state.add_result(f"c{number}", "x" * 900, media_parts([png()]))
    return state.messages


def test_old_images_go_into_words_and_rounds_stay_whole():
    messages = history(5)
    pruned = prune(messages, 1_500, lambda text: None, ENGLISH)
    kept = [m for m in pruned if isinstance(m["content"], list)]
    assert len(kept) == 1
    assert kept[0] is messages[-1]
    trimmed = trim(messages, 2_500, ENGLISH)
    assert check_history(to_wire(trimmed)) == []
    assert trimmed[-1] == messages[-1]
    for number, message in enumerate(trimmed):  # no picture without its call
        if isinstance(message["content"], list):
            assert trimmed[number - 1]["role"] == "tool"


def test_a_tool_outside_of_a_run_gives_its_pieces_too():
    async def main():
        return await gives(lambda: iter(["a", "b"])).execute({})

    assert asyncio.run(main()) == "ab"
    assert outcome.MAX_PIECE_CHARS == 1_000_000
