"""Make `src/pure_agent_loop/llm/prices.json` of a release of genai-prices.

    pip download --no-deps genai-prices
    .venv/bin/python scripts/update_prices.py genai_prices-*.whl

The release has its data as Python code, which is read here and not executed. A `prices/data.json` of the
project's repository is taken too.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

from pure_agent_loop.llm.prices import SHIPPED, PriceList, reduced


def value_of(node: ast.expr) -> Any:
    """Return the JSON form of a value written as code."""
    if isinstance(node, ast.List):
        return [value_of(item) for item in node.elts]
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "Decimal":
        return float(ast.literal_eval(node.args[0]))
    if name in ("date", "time"):
        numbers = [ast.literal_eval(argument) for argument in node.args]
        return "-".join(f"{n:02}" for n in numbers) if name == "date" else "{:02}:{:02}".format(*numbers)
    skipped = ("extractors", "price_variants", "tzinfo")
    fields = {keyword.arg or "": keyword.value for keyword in node.keywords if keyword.arg not in skipped}
    return {key.rstrip("_"): value_of(value) for key, value in fields.items()}


def providers_of(wheel: Path) -> Any:
    """Return the providers in the release."""
    with zipfile.ZipFile(wheel) as archive:
        code = ast.parse(archive.read("genai_prices/data.py"))
    (value,) = (node.value for node in code.body if isinstance(node, ast.AnnAssign) and node.value)
    return value_of(value)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--date", default=datetime.datetime.now(datetime.timezone.utc).date().isoformat())
    options = parser.parse_args()
    release = re.match(r"genai_prices-([\d.]+)-", options.file.name)
    is_wheel = options.file.suffix == ".whl"
    providers = providers_of(options.file) if is_wheel else json.loads(options.file.read_text("utf-8"))
    data = reduced(providers, f"genai-prices {release[1] if release else ''}".strip(), options.date)
    head = {name: value for name, value in data.items() if name != "providers"}
    lines = [
        json.dumps(provider, separators=(",", ":"), ensure_ascii=False) for provider in data["providers"]
    ]
    text = json.dumps(head, ensure_ascii=False)[:-1] + ', "providers": [\n' + ",\n".join(lines) + "\n]}\n"
    SHIPPED.write_text(text, encoding="utf-8")
    count = sum(1 for _ in PriceList(data).entries())
    sys.stdout.write(f"{SHIPPED}: {count} models, {len(text.encode()) // 1000} kB\n")


if __name__ == "__main__":
    main()
