"""Build the documentation site: `make site`, or `python scripts/build_site.py [FOLDER]`.

FOLDER, `build/site` if none is given, gets a folder for this version beside those of other versions,
`versions.json` for the site's version menu, and an `index.html` that leads to the newest. Each page stands
beside its HTML as Markdown, with the interfaces written out, and `llms.txt` lists the pages. A dead link, or
a page that loads something from another host, fails the build.
"""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import griffe
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts import reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = ROOT / "build" / "pages"  # site_dir of mkdocs.yml
DIRECTIVE = re.compile(r"^::: ([\w.]+)\n(?:    .*\n)*", re.M)
# A missing address may be at any depth.
BASE = (
    "<script>const folder = /^.*?\\/{0}\\/|/.exec(location.pathname)[0];"
    'document.write(`<base href="${{folder || "./"}}">`)</script>'
)
# What the page's programs read: the places of the site, of its search, and of what a reader has chosen.
PLACES = (
    '<script>{const at = document.getElementById("__config"), given = JSON.parse(at.textContent);'
    'for (const name of ["base", "search"]) given[name] = (folder || "./") + given[name].slice(1);'
    "at.textContent = JSON.stringify(given)}</script>"
)
REDIRECT = (
    '<!doctype html><meta charset="utf-8"><title>{0}</title>'
    '<meta http-equiv="refresh" content="0; url={0}/index.html">'
)


class Page(HTMLParser):
    """Names of a page that links can lead to, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what an element names, links to and loads."""
        given = dict(attrs)
        self.names.update(name for name in (given.get("id"), given.get("name")) if name)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif (
            address := given.get("src")
            or given.get("srcset")
            or (given.get("href") if tag == "link" else None)
        ):
            self.loads.append(address)


def problems(site: Path) -> Iterator[str]:
    """Yield each dead link of a site, and each thing loaded from another host or missing."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in page.loads:
            if re.match(r"(https?:)?//", address) or not target_of(path, address):
                yield f"{where} loads {address}: on another host, or missing"
        for link in page.links:
            target, name = target_of(path, link), unquote(urldefrag(link).fragment)
            if target is None or (name and target in pages and name not in pages[target].names):
                yield f"{where} links to {link}, which does not exist"


def target_of(page: Path, link: str) -> Path | None:
    """Return the file that a link leads to, the page itself for other hosts, or None if there is none."""
    address = unquote(urldefrag(link).url)
    if not address or re.match(r"\w+:", link):
        return page
    target = (page.parent / address).resolve()
    target = target / "index.html" if target.is_dir() else target
    return target if target.exists() else None


def written_out(text: str, package: griffe.Object | griffe.Alias) -> str:
    """Return the Markdown of a page with a signature and a docstring in place of each directive."""

    def interface(found: re.Match[str]) -> str:
        name = found[1]
        each = package[name.partition(".")[2]]
        each = each.final_target if isinstance(each, griffe.Alias) else each
        assert not each.is_module, f"{name} is a module; name the interface in it"
        documented = [(name, each)]
        if each.is_class:
            documented += [(f"{name}.{key}", member) for key, member in each.members.items() if key[0] != "_"]
        parts = []
        for title, one in documented:
            docstring = one.docstring.value if one.docstring else ""
            parts.append(f"## `{title}`\n\n```python\n{declaration(one)}\n```\n\n{docstring}\n")
        return "\n".join(parts)

    return DIRECTIVE.sub(interface, text)


def declaration(each: Any) -> str:
    """Return a function's or class's signature, or an attribute's type and value."""
    if each.is_function:
        return str(each.signature())
    if each.is_class:
        given = [
            f"{one.name}: {one.annotation}" + (f" = {one.default}" if one.default else "")
            for one in each.parameters
        ]
        return f"class {each.name}({', '.join(given[1:])})"
    return f"{each.name}" + (f": {each.annotation}" if each.annotation else f" = {each.value}")


def pages_of(nav: list[Any], section: str = "") -> Iterator[tuple[str, str]]:
    """Yield the section and the path of each page."""
    for each in nav:
        for title, content in each.items() if isinstance(each, dict) else [("", each)]:
            if isinstance(content, list):
                yield from pages_of(content, section or title)
            else:
                yield section or title, content


def write_texts(site: Path, config: dict[str, Any]) -> None:
    """Write `llms.txt`, and each page as Markdown beside its HTML."""
    package = griffe.load("pure_agent_loop", search_paths=[str(ROOT / "src")])
    index = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    section = ""
    for part, name in pages_of(config["nav"]):
        text = "\n".join(reference.written((DOCS / name).read_text(encoding="utf-8").splitlines())) + "\n"
        (site / name).write_text(written_out(text, package), encoding="utf-8")
        title, _, line = text.partition("\n")
        if part != section:
            section = part
            index += ["", f"## {part}", ""]
        index.append(f"- [{title.strip('# ')}]({name}): {line.strip().partition(chr(10))[0].strip('*')}")
    (site / "llms.txt").write_text("\n".join(index) + "\n", encoding="utf-8")


def sort_search(site: Path, config: dict[str, Any]) -> None:
    """Put the search index in reading order, names of interfaces last: ties are shown in this order."""
    order = {name.removesuffix("md"): place for place, (_, name) in enumerate(pages_of(config["nav"]))}
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    for item in index["items"]:
        page, _, name = item["location"].partition("#")
        item["place"] = (
            name.startswith("pure_agent_loop."),
            order.get(page.removesuffix("html"), len(order)),
        )
    index["items"].sort(key=lambda item: item.pop("place"))
    text = json.dumps(index, ensure_ascii=False)
    (site / "search.json").write_text(text, encoding="utf-8")
    (site / "search.js").write_text(f"var __index = {text}", encoding="utf-8")


def write_sitemap(site: Path) -> None:
    """Write the list of pages by which the version menu finds the same page in another version.

    The menu takes the first address for the site's root, and puts the real one in its place.
    """
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    urls = "".join(f"<url><loc>http://localhost/{name}</loc></url>" for name in ["", *pages])
    (site / "sitemap.xml").write_text(f"<urlset>{urls}</urlset>", encoding="utf-8")


def mend_missing(site: Path) -> None:
    """Let the page for missing addresses find this version's folder, wherever that is, as other pages do."""
    page = site / "404.html"
    text = re.sub(r'((?:href|src|srcset)=")/(?!/)', r"\1./", page.read_text(encoding="utf-8"))
    text = text.replace("<head>", f"<head>{BASE.format(site.name)}", 1)
    text = text.replace('new URL("/",location)', 'new URL(folder||".",location)', 1)
    text = re.sub(r'(<script id="__config".*?</script>)', lambda found: found[1] + PLACES, text, count=1)
    page.write_text(text, encoding="utf-8")


def write_versions(folder: Path) -> None:
    """Write the list of the versions in a folder, newest first, and a page that leads to the newest."""
    folders = [path.name for path in folder.iterdir() if (path / "index.html").exists()]
    newest = sorted(folders, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
    versions = [{"version": name, "title": name, "aliases": []} for name in newest]
    (folder / "versions.json").write_text(json.dumps(versions), encoding="utf-8")
    (folder / "index.html").write_text(REDIRECT.format(newest[0]), encoding="utf-8")


def build(folder: Path) -> Path:
    """Build the site of this version into a folder, and return its place.

    Raises:
        SystemExit: The generator warned, or a page has a problem.
    """
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    made = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=False
    )
    if made.returncode:
        raise SystemExit(made.returncode)
    version = runpy.run_path(str(ROOT / "src/pure_agent_loop/_version.py"))["__version__"]
    site = folder.resolve() / version
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(BUILT, site)
    write_texts(site, config)
    sort_search(site, config)
    write_sitemap(site)
    mend_missing(site)
    if found := list(problems(site)):
        raise SystemExit("\n".join(found))
    write_versions(folder)
    return site


if __name__ == "__main__":
    place = build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    sys.stdout.write(f"{place}: {len(list(place.rglob('*.html')))} pages, {size / 1e6:.1f} MB\n")
