"""Images come with a task: checked before anything, the same bytes in every place that keeps a history."""

from __future__ import annotations

import base64
import io
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from tests.assistant.images import ALL, jpeg, png
from tests.helpers import add, check_result

from pure_agent_loop import Agent, ConfigError, ImageError, LLMError
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.media import MAX_BYTES, image_part, inspect_image, media_parts
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.sessions.export import to_markdown
from pure_agent_loop.sessions.replay import replay_session
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, call

PART = image_part(png(), name="x")
SAID = [{"type": "text", "text": "What is it?"}, PART]


@pytest.mark.parametrize("kind", sorted(ALL))
def test_kind_and_size_are_read_and_truncated_files_are_rejected(kind):
    data = ALL[kind](300, 200)
    assert inspect_image(data, name="x") == (kind.split()[0], 300, 200)
    part = image_part(data, name="x")
    head, _, text = part["image_url"]["url"].partition(",")
    assert head == f"data:image/{kind.split()[0]};base64"
    assert base64.b64decode(text) == data
    for cut in range(1, len(data)):
        with pytest.raises(ImageError):
            image_part(data[:cut], name="x")
    with pytest.raises(ImageError, match="8001 x 1"):
        inspect_image(ALL[kind](8001, 1), name="x")


def test_invalid_or_oversized_image_is_rejected_by_name():
    for data, match in [
        (b"", "photo.png is no"),
        (b"<svg/>", "Convert"),
        (png() + b"\0" * MAX_BYTES, "bytes"),
    ]:
        with pytest.raises(ImageError, match=match):
            inspect_image(data, name="photo.png")


def picture(kind: str, width: int, height: int, mode: str = "RGB", **options) -> bytes:
    file = io.BytesIO()
    noise = Pillow.frombytes(mode, (width, height), Random(7).randbytes(width * height * len(mode)))
    noise.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode", "width", "height"),
    [
        ("png", "RGB", 16_000, 20),
        ("png", "RGBA", 1_200, 1_400),  # 6.7 MB
        ("gif", "L", 10, 9_000),
        ("webp", "RGB", 8_100, 30),
        ("jpeg", "RGB", 8_100, 30),
        ("jpeg", "CMYK", 8_100, 30),
    ],
)
def test_oversized_image_is_scaled_in_proportion_and_reported(kind, mode, width, height):
    data = picture(kind, width, height, mode)
    part, said = media_parts([data])
    head, _, text = part["image_url"]["url"].partition(",")
    sent = base64.b64decode(text)
    info = inspect_image(sent, name="x")  # within all limits
    assert head == f"data:image/{info.kind};base64"
    assert info.kind == ("jpeg" if kind == "jpeg" else "png")
    assert abs(info.width * height - info.height * width) <= max(width, height)  # less than a pixel
    assert said["text"] == f"[made smaller for the server: it was {width} x {height}, {len(data):,} bytes]"
    if mode == "RGBA":
        assert Pillow.open(io.BytesIO(sent)).mode == "RGBA"


def test_a_photo_that_lies_on_its_side_stays_upright():
    exif = Pillow.Exif()
    exif[0x0112] = 6
    part, said = media_parts([picture("jpeg", 9_000, 90, exif=exif)])
    info = inspect_image(base64.b64decode(part["image_url"]["url"].partition(",")[2]), name="x")
    assert (info.width, info.height) == (80, 8_000)
    assert "90 x 9000" in said["text"]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_by_its_header_and_a_picture_that_is_none_by_its_reason():
    file = io.BytesIO()
    Pillow.new("1", (10_000, 9_000)).save(file, "png")  # few bytes, which Pillow would decode
    for data, why in [(file.getvalue(), "10000 x 9000"), (jpeg(8_001, 1), "8001 x 1")]:
        with pytest.raises(ImageError, match=why):
            media_parts([data])


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImageError, match=r"8001 x 1.*\[images\] of pure-agent-loop"):
        image_part(png(8_001, 1), name="x")


@given(data=st.binary(max_size=60), start=st.sampled_from([b"", *(make()[:12] for make in ALL.values())]))
def test_any_bytes_are_an_image_or_an_image_error(data, start):
    try:
        assert inspect_image(start + data, name="x")[1] > 0
    except ImageError:
        return


def test_each_form_of_media_becomes_the_same_part(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png())
    url = PART["image_url"]["url"]
    assert media_parts([path, str(path), png(), url, PART]) == [PART] * 5
    asked = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    assert media_parts([asked]) == [asked]
    text = {"type": "text", "text": "what a text file becomes"}
    assert media_parts([text]) == [text]
    assert media_parts(None) == []


@pytest.mark.parametrize(
    ("item", "error"),
    [
        ("https://example.org/a.png", ImageError),
        ({"type": "image_url", "image_url": {"url": "http://example.org/a.png"}}, ImageError),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, ImageError),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, ImageError),
        ("data:image/png;base64,%%%", ImageError),
        ("data:image/png,AAAA", ImageError),
        ("none.png", ImageError),
        ("nul\0.png", ImageError),
        ({"type": "text", "text": 3}, ConfigError),
        ({"type": "text"}, ConfigError),
        (3, ConfigError),
    ],
)
def test_unsendable_media_is_rejected_before_any_effect(tmp_path, item, error):
    llm = ScriptedLLM(["never"], strict=False)
    agent = Agent(llm=llm, sessions=JsonlStore(tmp_path / "s"))
    for options in ({}, {"session_id": "s"}):
        with pytest.raises(error):
            agent.run("go", media=[item], **options)
    assert llm.requests == []
    assert agent._sessions.list() == []
    for media in ("a.png", png(), PART):
        with pytest.raises(ConfigError, match="media must be a list"):
            agent.run("go", media=media)
    with pytest.raises(ConfigError, match="media needs a task"):
        agent.run(None, media=[png()], state=check_result(Agent(llm=ScriptedLLM(["a"])).run("go")).state)


def test_an_image_reaches_a_real_server_and_explain_shows_it():
    with ScriptedServer(["A red dot."]) as server:
        agent = Agent("m", "k", server.base_url)
        explained = agent.explain("What is it?", media=[png()])
        assert explained.request["messages"][1]["content"] == SAID
        result = check_result(agent.run("What is it?", media=[png()]))
        assert result.content == "A red dot."
        assert server.requests[0].body["messages"][1]["content"] == SAID


def test_streams_and_states_take_media_too():
    llm = ScriptedLLM(["one", "two"])
    agent = Agent(llm=llm)
    list(agent.run_stream("What is it?", media=[png()]))
    result = Agent(llm=ScriptedLLM(["a"])).run("go")
    agent.run("What is it?", media=[png()], state=result.state)
    assert [request.messages[-1]["content"] for request in llm.requests] == [SAID, SAID]


def test_an_image_stays_in_its_session_through_resume_replay_and_export(tmp_path):
    store = JsonlStore(tmp_path)
    llm = ScriptedLLM(["A dot.", call("add", a=1, b=2), "Another."])
    agent = Agent(llm=llm, tools=[add], sessions=store)
    agent.run("What is it?", media=[png()], session_id="s")
    agent.run("And this?", media=[jpeg()], session_id="s")
    assert llm.requests[2].messages[1]["content"] == SAID
    records = store.read("s").records
    assert replay_session(records).difference is None
    assert replay_session(records, agent=agent).difference is None
    assert "What is it?" in to_markdown(records)
    assert "base64" not in to_markdown(records)


def test_a_run_that_was_cut_off_before_its_first_step_still_has_its_image(tmp_path):
    store = JsonlStore(tmp_path)
    for number, history in enumerate((None, "before")):
        session = f"s{number}"
        if history:
            Agent(llm=ScriptedLLM(["ok"]), sessions=store).run(history, session_id=session)
        run = Agent(llm=ScriptedLLM([]), sessions=store).prepare(
            "What is it?", media=[png()], session_id=session
        )
        run._kit.journal.close()  # as when the process ends here
        llm = ScriptedLLM(["A dot."])
        assert Agent(llm=llm, sessions=store).run(None, session_id=session).content == "A dot."
        assert llm.requests[0].messages[-1]["content"] == SAID


def test_an_image_counts_the_same_however_long_its_bytes_are():
    small = estimate_message({"role": "user", "content": [image_part(png(), name="x")]})
    large = estimate_message({"role": "user", "content": [image_part(png() + b"\0" * 100_000, name="x")]})
    assert 500 < small == large < 2_000


def test_a_history_with_images_is_shortened_and_stays_valid():
    def script(messages, tools, options):
        if len(messages) > 12 and "summar" not in str(messages[0]).lower():
            raise LLMError("too long", kind="context_overflow")
        return "ok"

    history = []
    for number in range(20):
        history += [{"role": "user", "content": [{"type": "text", "text": f"q{number}"}, PART]}]
        history += [{"role": "assistant", "content": f"a{number} " + "word " * 50}]
    result = Agent(llm=ScriptedLLM(script), context_window=6_000).run("go", history, media=[png()])
    assert result.content == "ok"
    assert len(result.messages) < len(history)
    assert result.messages[-2]["content"][-1] == PART


def test_a_conversation_takes_images_too():
    with ScriptedLLM(["A dot.", "Still a dot."]) as llm:
        conversation = Agent(llm=llm).conversation()
        conversation.send_sync("What is it?", media=[png()])
        conversation.send_sync("Sure?")
    assert [message["content"] for message in conversation.messages if message["role"] == "user"] == [
        [{"type": "text", "text": "What is it?"}, image_part(png(), name="x")],
        "Sure?",
    ]
