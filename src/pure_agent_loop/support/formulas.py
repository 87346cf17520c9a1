r"""Formulas in TeX as MathML, which browsers show without a script.

row     ::= (atom scripts)*
scripts ::= ("^" atom | "_" atom | "'")*
atom    ::= letter | number | sign | "{" row "}" | "\left" sign row "\right" sign | command atom*
"""

from __future__ import annotations

import html
import re

MAX_DEPTH = 30
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)
_SMALL = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho varsigma sigma"
)
_GREEK = {name: chr(0x3B1 + at) for at, name in enumerate(f"{_SMALL} tau upsilon phi chi psi omega".split())}


_OTHER_LETTERS = (
    "varepsilon ε varphi φ vartheta ϑ hbar ℏ ell ℓ partial ∂ infty ∞ emptyset ∅ nabla ∇ dots … ldots … "
    "cdots ⋯ prime ′"
)
_OTHERS = _OTHER_LETTERS.split()
_LETTERS = {
    **_GREEK,
    **{name.capitalize(): chr(ord(letter) - 32) for name, letter in _GREEK.items() if name != "varsigma"},
    **dict(zip(_OTHERS[::2], _OTHERS[1::2], strict=True)),
}
_NAMES_AND_SIGNS = (
    "cdot ⋅ times × div ÷ pm ± mp ∓ ast ∗ circ ∘ oplus ⊕ le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ equiv ≡ "
    "sim ∼ propto ∝ ll ≪ gg ≫ in ∈ notin ∉ subset ⊂ subseteq ⊆ cup ∪ cap ∩ to → rightarrow → leftarrow ← "
    "Rightarrow ⇒ implies ⇒ iff ⇔ mapsto ↦ forall ∀ exists ∃ neg ¬ land ∧ lor ∨ mid ∣ langle ⟨ rangle ⟩ "
    "lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ lvert | rvert | int ∫ oint ∮ { { } } | ‖ % % $ $ # # & & _ _ "
    "sum ∑ prod ∏ bigcup ⋃ bigcap ⋂"
)
_NAMED_SIGNS = _NAMES_AND_SIGNS.split()
_SIGNS = dict(zip(_NAMED_SIGNS[::2], _NAMED_SIGNS[1::2], strict=True))
_NAMED = {"sin", "cos", "tan", "log", "ln", "exp", "det", "dim", "gcd", "arcsin", "arccos", "arctan", "Pr"}
_LARGE = {"sum", "prod", "bigcup", "bigcap"}
_LIMITS = {"lim", "min", "max", "sup", "inf", "argmin", "argmax"}
_SPACES = {",": ".17em", ":": ".22em", ";": ".28em", " ": ".33em", "quad": "1em", "qquad": "2em", "!": "0"}
_ACCENTS = {"hat": "^", "bar": "¯", "overline": "¯", "vec": "→", "tilde": "~", "dot": "˙"}
_FONTS = {"mathrm", "text", "textrm", "textbf", "operatorname", "mathbf", "mathit", "mathsf", "mathtt"}


def to_mathml(tex: str, *, is_display: bool = False) -> str | None:
    """Return a formula as MathML; None if any part of it is unknown.

    Args:
        tex: The formula, without dollars or brackets around it.
        is_display: True for a formula on its own line.
    """
    try:
        whole = _Formula(tex, is_display=is_display).whole()
    except (ValueError, LookupError):
        return None
    # Brackets stretch by default in MathML; in TeX, only those with \left and \right do.
    shown = f'<math display="{"block" if is_display else "inline"}">{whole}</math>'
    return re.sub("<mo>(?=[][(){}|‖∣⟨⟩⌊⌋⌈⌉])", '<mo stretchy="false">', shown)


class _Formula:
    """A parser for one formula. Unknown syntax raises `ValueError` or `LookupError`."""

    def __init__(self, tex: str, *, is_display: bool) -> None:
        self._tokens = _TOKEN.findall(re.sub(r"\^(\\prime(?![A-Za-z])|\{\\prime\})", "'", tex))
        self._at = self._depth = 0
        self._is_display = is_display

    def whole(self) -> str:
        row = self._row("")
        if self._at < len(self._tokens) or not row:
            raise ValueError
        return row

    def _peek(self) -> str:
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._peek()
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _row(self, end: str) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError
        parts = []
        while self._peek() not in ("", end):
            parts.append(self._scripted())
        self._depth -= 1
        return f"<mrow>{''.join(parts)}</mrow>" if parts else ""

    def _scripted(self) -> str:
        name = self._peek().removeprefix("\\")
        base, below, above = self._atom(), "", ""
        while (sign := self._peek()) and sign in "^_'":
            self._at += 1
            if sign == "'":  # fonts draw a raised prime, so only a tall base needs a superscript
                base = (
                    f'<msup>{base}<mpadded voffset="-.35em"><mo>′</mo></mpadded></msup>'
                    if name in ("left", "frac", "dfrac", "tfrac", "sqrt")
                    else f"<mrow>{base}<mo>′</mo></mrow>"
                )
            elif below if sign == "_" else above:
                raise ValueError  # two subscripts or two superscripts
            elif sign == "_":
                below = self._argument()
            else:
                above = self._argument()
        if not below and not above:
            return base
        is_under = self._is_display and name in _LARGE | _LIMITS
        kind = ("munder", "mover") if is_under else ("msub", "msup")
        tag = kind[not below] if not below or not above else "munderover" if is_under else "msubsup"
        return f"<{tag}>{base}{below}{above}</{tag}>"

    def _argument(self) -> str:
        """Return an argument: an atom or, from a number without braces, only the first digit."""
        if self._peek()[:1].isdecimal():
            number = self._tokens[self._at]
            self._tokens[self._at : self._at + 1] = [number[0], *([number[1:]] if number[1:] else [])]
        return self._atom()

    def _atom(self) -> str:
        part = self._next()
        if part == "{":
            row = self._row("}")
            self._expect("}")
            return row or "<mrow></mrow>"
        if part.startswith("\\"):
            return self._command(part[1:])
        if part in "}^_&'~%":
            raise ValueError
        tag = "mn" if part[0].isdecimal() else "mi" if part.isalpha() else "mo"
        return f"<{tag}>{html.escape('−' if part == '-' else part)}</{tag}>"

    def _expect(self, part: str) -> None:
        if self._next() != part:
            raise ValueError

    def _command(self, name: str) -> str:
        if name in ("frac", "dfrac", "tfrac"):
            return f"<mfrac>{self._argument()}{self._argument()}</mfrac>"
        if name in ("sqrt", "left", *_FONTS):
            return {"sqrt": self._root, "left": self._fenced}.get(name, lambda: self._text(name))()
        if name in _ACCENTS:
            return f'<mover accent="true">{self._argument()}<mo>{_ACCENTS[name]}</mo></mover>'
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"></mspace>'
        if name in _NAMED or name in _LIMITS:
            return f"<mi>{name}</mi>"
        return f"<mi>{_LETTERS[name]}</mi>" if name in _LETTERS else f"<mo>{html.escape(_SIGNS[name])}</mo>"

    def _root(self) -> str:
        if self._peek() != "[":
            return f"<msqrt>{self._argument()}</msqrt>"
        self._expect("[")
        index = self._row("]")
        self._expect("]")
        return f"<mroot>{self._argument()}{index}</mroot>"

    def _fenced(self) -> str:
        opening, row = self._sign(), self._row("\\right")
        self._expect("\\right")
        return f"<mrow>{opening}{row}{self._sign()}</mrow>"

    def _sign(self) -> str:
        part = self._next()
        sign = _SIGNS[part[1:]] if part.startswith("\\") else part
        if sign.isalnum():
            raise ValueError
        return f'<mo stretchy="true">{html.escape("" if sign == "." else sign)}</mo>'

    def _text(self, name: str) -> str:
        self._expect("{")
        end = self._tokens.index("}", self._at)
        text, self._at = "".join(self._tokens[self._at : end]), end + 1
        if "\\" in text or "{" in text:
            raise ValueError
        tag, look = ("mtext", "") if name.startswith("text") else ("mi", ' mathvariant="normal"')
        return f"<{tag}{look}>{html.escape(text)}</{tag}>"
