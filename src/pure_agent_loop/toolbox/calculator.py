"""A calculator for arithmetic expressions.

Expressions are parsed, never evaluated as code. Numbers stay exact fractions while possible, so
0.1 + 0.2 is 0.3; sizes are bounded, so 9**9**9 fails at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.tool import tool

MAX_CHARS = 1_000
MAX_BITS = 4_096  # about 1,200 digits
MAX_FACTORIAL = 500
MAX_ROUNDED = 400  # digits

Number = Fraction | float
_SIGNS = str.maketrans("×·⋅∙÷−–（）＋＊／，．０１２３４５６７８９", "****/--()+*/,.0123456789")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_GROUPED = lazy_pattern(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}


class CalculatorError(PureAgentLoopError):
    """An expression cannot be calculated. The message is for the model."""


@tool(
    read_only=True,
    words=TOOLS["calculator"],
    examples=[
        ("How much is 6 times 7?", {"expression": "6 * 7"}),
        ("What is (12 + 5) / 2?", {"expression": "(12 + 5) / 2"}),
    ],
)
def calculator(expression: str) -> str:
    """Calculate the value of an arithmetic expression.

    Knows + - * / // % **, parentheses, pi, e, and functions such as sqrt, abs, round, min, max, log, sin.

    Args:
        expression: For example "(3 + 4) * 2" or "sqrt(2) / 2".
    """
    if len(expression) > MAX_CHARS:
        raise CalculatorError(model_text("expression_too_long", limit=MAX_CHARS))
    try:
        return _format_number(_value(_parse(expression)))
    except ZeroDivisionError:
        raise CalculatorError(model_text("by_zero")) from None
    except (OverflowError, RecursionError):
        raise CalculatorError(model_text("result_too_large")) from None


# -- Parsing ---------------------------------------------------------------------------------------


def _parse(expression: str) -> ast.expr:
    plain = _as_python(expression)
    try:
        return ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, MemoryError):
        raise CalculatorError(model_text("no_expression", expression=expression)) from None


def _as_python(expression: str) -> str:
    """Translate an expression, which may look like ``1,200 × 15% = ?``, to Python."""
    text = expression.strip().rstrip("=?？ ").lstrip("= ").translate(_SIGNS).replace("^", "**")
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda match: f"**{match[0].translate(_SUPERSCRIPTS)}", text)
    text = re.sub(r"(?<=[\d)])\s+[xX]\s+(?=[\d(])", " * ", text).replace("π", "pi").replace("√", "sqrt")
    text = _without_grouping(text)
    # A "%" that ends a term is a percentage; between two numbers it is the remainder operator.
    text = re.sub(r"(\d+(?:\.\d+)?)\s*%(?=\s*(?:$|\)|of\b))", r"(\1/100)", text)
    return re.sub(r"\bof\b", "*", text)


def _without_grouping(text: str) -> str:
    """Remove thousands separators, but not the commas between function arguments."""
    inside_call = []
    calls: list[bool] = []
    for index, character in enumerate(text):
        if character == "(":
            calls.append(bool(re.search(r"[A-Za-z]\w*\s*$", text[:index])))
        elif character == ")" and calls:
            calls.pop()
        inside_call.append(any(calls))
    return _GROUPED.sub(lambda m: m[0] if inside_call[m.start()] else m[0].replace(",", ""), text)


# -- Calculating -----------------------------------------------------------------------------------


def _value(node: ast.expr) -> Number:
    for kind, evaluate in _NODES.items():
        if isinstance(node, kind):
            return _bounded(evaluate(node))
    raise CalculatorError(model_text("not_calculable", source=_quoted_source(node)))


def _constant(node: Any) -> Number:
    if type(node.value) is int:
        return Fraction(node.value)
    if type(node.value) is float and math.isfinite(node.value):
        return Fraction(repr(node.value))
    raise CalculatorError(model_text("unknown_number", source=_quoted_source(node)))


def _name(node: Any) -> Number:
    if node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    raise CalculatorError(
        model_text("unknown_name", name=node.id, known=", ".join([*_CONSTANTS, *_FUNCTIONS]))
    )


def _unary(node: Any) -> Number:
    value = _value(node.operand)
    if isinstance(node.op, ast.USub):
        return -value
    if isinstance(node.op, ast.UAdd):
        return value
    raise CalculatorError(model_text("signs_only"))


def _binary(node: Any) -> Number:
    calculate = _OPERATORS.get(type(node.op))
    if calculate is None:
        raise CalculatorError(model_text("unknown_operator"))
    return _exact(calculate(_value(node.left), _value(node.right)))


def _call(node: Any) -> Number:
    name = getattr(node.func, "id", None)
    if name is None:
        raise CalculatorError(model_text("no_function_call", source=_quoted_source(node)))
    if name not in _FUNCTIONS or node.keywords:
        raise CalculatorError(model_text("unknown_function", name=name, known=", ".join(_FUNCTIONS)))
    arguments = [_value(argument) for argument in node.args]
    try:
        return _exact(_FUNCTIONS[name](*arguments))
    except TypeError:
        raise CalculatorError(model_text("wrong_count", name=name, count=len(arguments))) from None
    except ValueError:
        raise CalculatorError(model_text("no_real_value", source=_quoted_source(node))) from None


def _exact(value: Any) -> Number:
    """Return a whole number as an exact fraction, and any other result unchanged."""
    result: Number = Fraction(value) if isinstance(value, int) else value
    return result


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise OverflowError
    elif not isinstance(value, float):
        raise CalculatorError(model_text("not_real"))
    elif not math.isfinite(value):
        raise OverflowError
    return value


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        # The 1-bit bases 0, 1 and -1 stay small for every exponent.
        if bits > 1 and bits * abs(exponent) > MAX_BITS:
            raise OverflowError
    return _exact(base**exponent)


def _round(value: Number, digits: Number = 0) -> Number:
    """Round half away from zero, as people expect, not to the even neighbour."""
    if digits != int(digits):
        raise ValueError
    unit = Fraction(10) ** max(-MAX_ROUNDED, min(int(digits), MAX_ROUNDED))
    exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    rounded = math.floor(abs(exact) * unit + Fraction(1, 2)) / unit
    return rounded if value > 0 else -rounded


def _factorial(value: Number) -> int:
    if value != int(value) or value < 0:
        raise ValueError
    if value > MAX_FACTORIAL:
        raise OverflowError
    return math.factorial(int(value))


def _log(value: Number, base: Number = math.e) -> float:
    return math.log(value) if base == math.e else math.log(value, base)


def _trigonometric(function: Callable[[Any], float]) -> Callable[[Any], float]:
    """Round the result: pi is inexact, so sin(pi) would be 1.2e-16."""
    return lambda value: round(function(value), 15)


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": _round,
    "floor": math.floor,
    "ceil": math.ceil,
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "pow": _power,
    "exp": math.exp,
    "log": _log,
    "ln": _log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": _trigonometric(math.sin),
    "cos": _trigonometric(math.cos),
    "tan": _trigonometric(math.tan),
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "radians": math.radians,
    "degrees": math.degrees,
    "factorial": _factorial,
}
_NODES: dict[type[ast.expr], Callable[[Any], Number]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Call: _call,
}


# -- Formatting ------------------------------------------------------------------------------------


def _format_number(value: Number) -> str:
    if value == int(value) and (isinstance(value, Fraction) or abs(value) < 1e15):
        return str(int(value))
    return f"{float(value):.15g}"


def _quoted_source(node: ast.expr) -> str:
    text = ast.unparse(node)
    return repr(text if len(text) <= 60 else text[:60] + "...")
