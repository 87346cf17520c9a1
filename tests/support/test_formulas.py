r"""Formulas as MathML: what is known is shown, and what is not is left to the caller."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.support.formulas import MAX_DEPTH, to_mathml

ELEMENTS = {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub"} | {
    "msup", "msubsup", "munder", "mover", "munderover", "mpadded",
}  # fmt: skip


def plain(tex, **about):
    """The elements as a line: `msup(mi x, mn 2)`."""

    def line(element):
        inner = ", ".join(map(line, element)) if len(element) else ""
        return f"{element.tag}({inner})" if inner else f"{element.tag} {element.text or ''}".strip()

    (row,) = ET.fromstring(to_mathml(tex, **about))
    return ", ".join(map(line, row))


@pytest.mark.parametrize(
    ("tex", "shown"),
    [
        ("x^2 - y_1", "msup(mi x, mn 2), mo −, msub(mi y, mn 1)"),
        ("x_i^{n+1}", "msubsup(mi x, mi i, mrow(mi n, mo +, mn 1))"),
        ("x^12", "msup(mi x, mn 1), mn 2"),
        ("f'(3.14)", "mrow(mi f, mo ′), mo (, mn 3.14, mo )"),
        (r"f^\prime g^{\prime}", "mrow(mi f, mo ′), mrow(mi g, mo ′)"),
        ("f_n''", "msub(mrow(mrow(mi f, mo ′), mo ′), mi n)"),
        (r"\left( x \right)'", "msup(mrow(mo (, mrow(mi x), mo )), mpadded(mo ′))"),
        (r"\frac12", "mfrac(mn 1, mn 2)"),
        (r"\frac{a}{\sqrt b}", "mfrac(mrow(mi a), mrow(msqrt(mi b)))"),
        (r"\sqrt[3]{x}", "mroot(mrow(mi x), mrow(mn 3))"),
        (r"\alpha\Omega \le \infty", "mi α, mi Ω, mo ≤, mi ∞"),
        (r"\left( x \right]", "mrow(mo (, mrow(mi x), mo ])"),
        (r"\text{if } x \in A", "mtext if, mi x, mo ∈, mi A"),
        (r"\sin x\,\mathrm{d}x", "mi sin, mi x, mspace, mi d, mi x"),
        (r"\vec{v}", "mover(mrow(mi v), mo →)"),
    ],
)
def test_a_formula_is_elements(tex, shown):
    assert plain(tex) == shown


def test_only_the_brackets_of_left_and_right_stretch():
    shown = to_mathml(r"p(x) = \left[ |x| \right]")
    assert re.findall(r'<mo stretchy="(\w+)">(.)', shown) == [
        ("false", "("), ("false", ")"), ("true", "["), ("false", "|"), ("false", "|"), ("true", "]"),
    ]  # fmt: skip


def test_limits_stand_below_a_sum_on_its_own_line():
    tex = r"\sum_{i}^{n} i"
    assert plain(tex, is_display=True).startswith("munderover(mo ∑")
    assert plain(tex).startswith("msubsup(mo ∑")


UNKNOWN = ["", " ", "x^", "x_1_2", "}", "{x", "a & b", "a % b", r"\foo", r"\right)", r"\begin{x}y\end{x}"]
UNFINISHED = [
    r"\left( x",
    r"\text{a {b} c}",
    r"\left\alpha x\right)",
    "{" * (MAX_DEPTH + 1) + "}" * (MAX_DEPTH + 1),
]


@pytest.mark.parametrize("tex", [*UNKNOWN, *UNFINISHED])
def test_formula_with_an_unknown_command_is_not_converted(tex):
    assert to_mathml(tex) is None


@given(st.text(alphabet=st.sampled_from("ab1 ^_{}'<>&\"\\$") | st.characters(), max_size=40))
def test_any_formula_gives_only_known_elements(tex):
    shown = to_mathml(tex)
    if shown is not None:
        assert set(re.findall(r"<(\w+)", shown)) <= ELEMENTS
        assert "<script" not in shown
