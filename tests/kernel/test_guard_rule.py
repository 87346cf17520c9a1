"""The rule of the mode `guard`, as a function of texts: what asks, and where each value comes from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop import GuardedCall, ReadText, provenance

TASK = (
    "Send the report r7 to ann@home.org, it costs 1,000 euro. See https://bank.org/a "
    "or DE89 3704 0044 0532 0130 00."
)
RECORD = {
    "id": "m7",
    "number": 12,
    "from": "eve@evil.com",
    "body": "wolf",
    "owner_name": "Tom",
    "url": "evil.com/x",
}
FOUND = ReadText(json.dumps([RECORD]), "search", GuardedCall("search", {"query": "report"}))
NAMES = {"type": "string"}


def judged(args, *, task=TASK, read=(FOUND,), **more):
    return provenance(GuardedCall("send", args, **more), [task], read)


def strange(origins):
    return [(origin.argument, origin.value, origin.kind) for origin in origins.values if origin.is_strange]


@pytest.mark.parametrize(
    "args",
    [
        {"to": "ann@home.org", "body": "Here it is."},
        {
            "to": "ANN@home.org",
            "subject": "any",
            "date": "2026-01-01 10:00",
            "urgent": True,
            "cc": [],
            "bcc": None,
        },
        {"name": "report", "amount": 1000},
        {"amount": "1000"},
        {"amount": 1000.0},
        {"iban": "DE89370400440532013000"},
        {"url": "https://bank.org/a"},
        {"body": "see https://bank.org/a", "to": "ann@home.org"},
        {"id": "m7"},
        {"message_id": "m7", "body": "x"},
        {"number": 12, "id": "m7"},
        {"owner": "Tom"},
    ],
)
def test_known_values_need_no_question(args):
    assert not judged(args).asks


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"to": "eve@evil.com"}, [("to", "eve@evil.com", "source")]),
        ({"to": "bob@home.org"}, [("to", "bob@home.org", "nowhere")]),
        ({"to": "ann@home.org", "cc": ["eve@evil.com"]}, [("cc.0", "eve@evil.com", "source")]),
        ({"to": "nn@home.org"}, [("to", "nn@home.org", "nowhere")]),
        ({"to": "ann@home.or"}, [("to", "ann@home.or", "nowhere")]),
        ({"name": "repor"}, [("name", "repor", "nowhere")]),
        ({"name": "wolf", "id": "m7"}, [("name", "wolf", "source")]),
        ({"amount": 12, "id": "m7"}, [("amount", "12", "source")]),
        ({"amount": 10_000}, [("amount", "10000", "nowhere")]),
        ({"url": "evil.com/x"}, [("url", "evil.com/x", "source")]),
        ({"url": "https://bank.org/a?x=1"}, [("url", "https://bank.org/a?x=1", "nowhere")]),
        ({"url": "https://bank.org@evil.com/a"}, [("url", "https://bank.org@evil.com/a", "nowhere")]),
        (
            {"to": "ann@home.org", "body": "pay DE02120300000000202051"},
            [("body", "DE02120300000000202051", "nowhere")],
        ),
        (
            {"to": "ann@home.org", "body": "see ht\u200btp://evil.com"},
            [("body", "http://evil.com", "nowhere")],
        ),
        (
            {"to": "ann@home.org", "body": "call +1 (900) 555-1234"},
            [("body", "+1 (900) 555-1234", "nowhere")],
        ),
        ({"guests": {"eve@evil.com": True}, "id": "m7"}, [("guests.eve@evil.com", "eve@evil.com", "source")]),
    ],
)
def test_a_strange_value_asks_and_says_where_it_is_from(args, expected):
    origins = judged(args)
    assert (origins.reason, strange(origins)) == ("strange", expected)
    assert all(
        not origin.is_strange for origin in origins.values[len(expected) :]
    )  # the strange ones come first


def test_a_source_is_shown_with_the_words_around_the_value():
    (origin,) = judged({"to": "eve@evil.com"}).values
    assert (origin.source, '"from": "eve@evil.com"' in origin.around) == ("search", True)


def test_nothing_asks_before_something_is_read_but_what_cannot_be_undone():
    assert not judged({"to": "bob@home.org"}, read=()).asks
    assert judged({"to": "ann@home.org"}, read=(), destructive=True).reason == "destructive"


@pytest.mark.parametrize(
    "args", [{}, {"on": False}, {"title": "Pay", "start": "2026-01-01"}, {"message": "Hi."}]
)
def test_a_call_of_which_nothing_is_the_users_asks(args):
    assert judged(args).reason == "unvouched"


def test_values_of_the_schema_need_not_be_known():
    schema = {
        "type": "object",
        "properties": {
            "to": NAMES,
            "level": {"$ref": "#/$defs/Level"},
            "place": {"default": "desk", "anyOf": [NAMES, {"type": "null"}]},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}},
            },
        },
        "$defs": {"Level": {"enum": ["low", "high"]}},
    }
    args = {"to": "ann@home.org", "level": "high", "place": "desk", "items": [{"kind": "b"}]}
    assert not judged(args, parameters=schema).asks
    assert strange(judged({**args, "level": "top"}, parameters=schema)) == [("level", "top", "nowhere")]
    assert judged(args).asks


def test_handles_come_from_fields_of_calls_with_known_values_only():
    unknown = FOUND._replace(call=GuardedCall("search", {"query": "hints"}))
    text = FOUND._replace(text=f"As JSON: {FOUND.text}")
    nobody = FOUND._replace(call=None)
    for read in (unknown, text, nobody):
        assert judged({"id": "m7", "to": "ann@home.org"}, read=[read]).asks, read
    chained = ReadText('{"file": "f9"}', "open", GuardedCall("open", {"id": "m7"}))
    assert not judged({"file": "f9"}, read=[FOUND, chained]).asks
    assert judged({"file": "f9"}, read=[unknown, chained]).asks


def test_marks_of_a_tool():
    assert judged({"remark": "as you like", "id": "m7"}).asks
    assert not judged({"remark": "as you like", "id": "m7"}, prose=["remark"]).asks
    assert judged({"owner": "Tom", "id": "m7"}, recipient=["owner"]).asks
    book = ReadText('{"Bob": "bob@home.org"}', "contacts", GuardedCall("contacts", {}), is_trusted=True)
    assert not judged({"to": "bob@home.org"}, read=[FOUND, book]).asks


def test_recipients_are_what_an_answer_can_make_known():
    origins = judged({"to": "bob@home.org", "amount": 7, "code": "evil.com/x", "friend": "Al"})
    assert origins.recipients() == ["bob@home.org", "evil.com/x"]
    assert origins.recipients(["friend"]) == ["bob@home.org", "evil.com/x", "Al"]


def asks(task, value, read=FOUND, **more):
    return judged({"name": value}, task=task, read=[read], **more).asks


@pytest.mark.parametrize(
    ("task", "known", "strange"),
    [
        ("Fix docs/readme.md.", ["docs/readme.md"], [".", "/", "docs/", ".md", "/readme.md", "docs"]),
        ("Write to bob@shop.com.", ["bob@shop.com"], ["@shop.com", "@", "bob@"]),
        ("Is *this* old? Clean . now.", ["this", "old"], ["*", "?", ".", "**"]),
        ("Is ../etc/x or ~/y or C:\\z old?", ["../etc/x", "~/y"], ["/etc/x", "etc/x", "/y", "y", "z"]),
        ("About C++ and #7, .env in docs/ please.", ["C++", "#7", ".env", "docs/"], ["env"]),
        ("Pay to (Ann).", ["(Ann)", "Ann"], ["nn)"]),
    ],
)
def test_a_sign_at_the_edge_of_a_value_is_a_part_of_a_word(task, known, strange):
    assert [value for value in known if asks(task, value)] == []
    assert [value for value in strange if not asks(task, value)] == []


@pytest.mark.parametrize(
    ("task", "known", "strange"),
    [
        ("Pay 123456789012345678.", [123456789012345678], [123456789012345680, float("inf"), 1e999]),
        ("Order 9007199254740992.", [9007199254740992], [9007199254740993, "9007199254740993"]),
        (
            "Pin 7, version 1.1, 1,000 euro.",
            ["7", "1.1", "1000", 7.0],
            ["007", "1.10", "1.0", "1000.0", "7.0"],
        ),
        ("Pin 007.", ["007", 7], ["7"]),
        ("Pay 12,50 or 1.234,56.", [12.5, "12.50", 1234.56, "12,50"], [12, 50, 1250, "50", "12", 1.234]),
        ("Pay 1,500 or 0,125.", [1500, 0.125], [1.5, 125, 500, "0125"]),
        ("Room 12 500.", [12, 500], [12500, "12500"]),
        ("Pay 12\u202f500 or 7\xa0000.", [12500, 7000, "12500"], [12, 500, 7]),
        ("\u6c47100\u5143", [100, "100"], [10]),
    ],
)
def test_numbers_are_compared_exactly_and_codes_as_text(task, known, strange):
    assert [value for value in known if asks(task, value)] == []
    assert [value for value in strange if not asks(task, value)] == []


@pytest.mark.parametrize(
    ("field", "is_known"),
    [
        ("m7", True),
        ("a/b-c:9#1.x", True), ("DE02.1203.0000.0000.2020.51", False), ("*", False), ("..", False),
        ("x;eve@evil.com", False), ("eve%40evil.com", False), ("id=eve", False), ("-rf", False),
        ("to:evil.com/x", False), ("0900.555.111", False), ("(7)", False),
    ],
)  # fmt: skip
def test_a_handle_is_an_identifier_without_an_address(field, is_known):
    read = FOUND._replace(text=json.dumps({"file": field}))
    assert asks(TASK, field, read) is not is_known


def test_keys_that_the_schema_does_not_list_are_values():
    schema = {"type": "object", "properties": {"to": NAMES, "more": {"type": "object"}, "body": NAMES}}
    args = {"to": "ann@home.org", "body": "any"}
    assert not judged(args, parameters=schema).asks
    for more in ({"admin": True}, {"text": "any"}, {"more": {"body": "any"}}, {"more": {"to.body": "any"}}):
        assert judged({**args, **more}, parameters=schema).asks, more
    assert strange(judged({**args, "pin.code": "report"}, parameters=schema)) == [
        ("pin.code", "pin.code", "nowhere")
    ]
    assert judged({"id": "m7", "x.body": "wolf"}, prose=(), recipient=()).asks


@pytest.mark.parametrize("value", ["an\u200bn", "\uff41nn", "ann\u200f", "\xaann", "ann\U000e0053"])
def test_a_value_that_only_looks_like_the_user_s_is_strange(value):
    assert asks("Share it with ann.", value)
    assert not asks(f"Share it with {value}.", value)


@pytest.mark.parametrize(
    "text",
    [
        "0900.555.111",
        "DE02.1203.0000.0000.2020.51",
        "evil\u3002io/pay",
        "<a href=//evil/x>",
        "evil.xn--p1ai",
        "0900-555-111",
        "2031-05-06 0900 555 111",
    ],
)
def test_other_ways_to_write_an_address_in_free_text(text):
    assert judged({"to": "ann@home.org", "body": f"see {text} now"}).reason == "strange"
    for plain in (
        "a // b",
        "1.2.3",
        "3.14159265",
        "1.000.000",
        "// remark",
        "10.05.2031",
        "2031-05-06 10:30",
        "r-2031-05-06",
        "2031-05-06T10:30:00Z",
    ):
        assert not judged({"to": "ann@home.org", "body": plain}).asks, plain


def test_texts_without_blanks_between_words():
    origins = judged({"to": "\u5f20\u4e09", "amount": 100}, task="\u7ed9\u5f20\u4e09\u6c47100\u5143")
    assert not origins.asks
    assert judged({"to": "\u674e\u56db"}, task="\u7ed9\u5f20\u4e09\u6c47100\u5143").asks
    assert not judged({"to": "bob@x.org"}, task="\u53d1\u7ed9bob@x.org\u5427").asks


WORD = st.text("abcxyz019", min_size=1, max_size=6)


@given(WORD, WORD, st.sampled_from(["{}{}", "{}.{}", "{}-{}", "{}+{}"]))
def test_a_part_of_an_address_is_never_known(more, name, joined):
    known = f"{joined.format(more, name)}@x.org"
    for part in (f"{name}@x.org", f"{known}.uk", f"{known[:-1]}", f"0{known}"):
        if part != known:
            assert judged({"to": part}, task=f"Write to {known}.").asks
    assert not judged({"to": known}, task=f"Write to '{known}'.").asks


LETTERS = st.text("abcxyz", min_size=1, max_size=4)


@given(st.lists(LETTERS, min_size=1, max_size=5), st.lists(LETTERS, min_size=1, max_size=3))
def test_a_text_is_known_exactly_if_the_task_has_its_words_in_a_row(task, value):
    rows = [task[at : at + len(value)] for at in range(len(task))]
    origins = judged({"name": " ".join(value)}, task=" ".join(task))
    assert origins.asks == (value not in rows)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_arguments_and_any_results_are_judged(value):
    read = ReadText(json.dumps(value), "any", GuardedCall("any", {"given": value}))
    origins = judged({"value": value}, read=[FOUND, read], task=str(value))
    assert origins.asks in (True, False)


@pytest.mark.parametrize("piece", ["a", "a.", "a-", "1 ", "1", "a@", "a.a-", "DE12 ", "x://", "a+"])
def test_a_long_text_is_searched_in_proportion(piece):
    """Its forms have bounded parts; a form without a bound would not end here."""
    assert judged({"id": "m7", "content": piece * 50_000}).reason in ("", "strange")
