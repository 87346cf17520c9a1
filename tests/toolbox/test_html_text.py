"""What a model reads of a web page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.toolbox.web.html_text import clean_page, html_to_text

CASES = {
    "headings": ("<h1>One</h1>text<h3>Three <b>bold</b></h3>", "# One\n\ntext\n\n### Three bold"),
    "paragraphs": ("<p>a  b\n c<p>d<br>e</p>f", "a b c\n\nd\ne\n\nf"),
    "link": ('<a href="/x?a=1&amp;b=2">go <i>on</i></a>!', "[go on](http://h.example/x?a=1&b=2)!"),
    "links that are none": (
        '<a href="javascript:x()">a</a> <a href="#top">b</a> <a name=c>c</a> <a href="data:x">d</a>',
        "a b c d",
    ),
    "a block in a link": ("<a href=/a><div>x</div><div>y</div></a>z", "[x y](http://h.example/a) z"),
    "lists": ("<ul><li>a<li>b<ol start=7><li>c<li>d</ol></ul>e", "- a\n- b\n  7. c\n  8. d\n\ne"),
    "table": (
        "<table><tr><th>A<th>B<tr><td><p>1</p><td>2 <br>3</table>x",
        "A | B\n1 | 2 3\n\nx",
    ),
    "code": ("<pre>a &lt;\n  b</pre>use <code>x  y</code>", "```\na <\n  b\n```\n\nuse `x y`"),
    "title": ("<title>A &amp; B\n C</title><p>x", "Title: A & B C\n\nx"),
    "scripts": (
        "a<script>if (x</p>)</script><style>p{}</style><noscript>n</noscript><svg><text>t</text></svg>b",
        "ab",
    ),
    "comments": ("a<!-- <p>x --><!-->b<!doctype x><?php ?>c", "abc"),
    "hidden": (
        'a<i hidden>x<i>y</i></i><b style="a:b; DISPLAY : none">q</b><p style=visibility:hidden>r<p>b',
        "a\n\nb",
    ),
    "hidden without a content": ("<input hidden>c<br hidden>d", "c\nd"),
    "entities": (
        "&lt;p&gt; &#65;&#x42; &nbsp;&unknown; & &#99999999999999999999; &#0;",
        "<p> AB &unknown; & \ufffd \ufffd",
    ),
    "less than": ("1 < 2 </ 3> <4", "1 < 2 <4"),
    "invisible characters": ("a\u202eb\u200bc\U000e0041d\x1b[31me\x00", "abcd[31me"),
    "image": ('<img src=x alt="a  cat">', "[image: a cat]"),
    "never closed": ("a<b", "a"),
    "a quote never closed": ('a<b x="y>z', "a"),
    "a script never closed": ("a<script>b</scrip>c", "a"),
    "a > in a value": ("<a title='x>y' href=/z>w</a>", "[w](http://h.example/z)"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_page_as_text(name):
    source, text = CASES[name]
    assert html_to_text(source, "http://h.example/p/") == text


def test_a_link_cannot_break_out_of_its_brackets():
    assert html_to_text('<a href="http://x.example/a b)c">t</a>') == "[t](http://x.example/a%20b%29c)"


def test_short_links_on_a_page_with_a_long_address():
    base = f"http://h.example/{'a/' * 900}"
    text = html_to_text("<a href=b>x" * 20_000 + "<a href=//h.example>end</a>", base)
    assert len(text) < 2_100_000
    assert text.startswith(f"[x]({base}b)[x](")
    assert text.endswith("xxxend")
    assert html_to_text("<a href=b>x</a>", base * 2) == "x"


@pytest.mark.parametrize(
    "piece", ["<div>", "<ul><li>x", "<b><i>", "<table><tr><td>", "<a href=x>", "<pre>", "<div hidden>"]
)
def test_deep_nesting_does_not_recurse(piece):
    text = html_to_text(piece * 20_000 + "end")
    assert len(text) < 40 * 20_000
    assert ("end" in text) == ("hidden" not in piece)


@given(st.text(max_size=300), st.text(max_size=40))
def test_no_text_raises(text, base):
    assert len(html_to_text(text, f"http://h.example/{base}")) <= 200 + 60 * (len(text) + len(base) + 1)


PIECES = st.sampled_from(
    [
        *(
            f"<{end}{name}>"
            for name in [
                "p",
                "div",
                "a",
                "ul",
                "ol",
                "li",
                "table",
                "tr",
                "td",
                "th",
                "pre",
                "code",
                "h1",
                "title",
                "script",
                "span",
            ]
            for end in ("", "/")
        ),
        *[
            "<a",
            "href=x>",
            "<a",
            "href='http://['",
            "<p",
            "hidden>",
            "</",
            "<!--",
            "-->",
            '"',
            "'",
            "=",
            ">",
            "&",
            "&amp;",
            "&#x",
            "&#1",
            "\n",
            "\x00",
            "x",
        ],
        "<div hidden>",
        "<ol start=99999999999>",
        "word",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=80))
def test_no_broken_page_raises(pieces):
    source = "".join(pieces)
    assert len(html_to_text(source, "http://h.example/")) <= 100 + 60 * len(source)


@given(st.text(max_size=200))
def test_clean_text_stays_clean(text):
    once = clean_page(text)
    assert clean_page(once) == once
    assert not {"\x1b", "\r", "\u202e"} & set(once)
