"""The files of the page: what they weigh, where they come from, and that they load nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import re

from pure_agent_loop.server import page_files

PAGE = page_files.FOLDER
VENDOR = PAGE / "vendor"
OURS = [each for each in PAGE.glob("*") if each.suffix in (".js", ".css", ".html", ".svg")]
LOADED = """performance.getEntriesByType("resource")
    .filter((each) => each.name.includes("/assets/")).reduce((sum, each) => sum + each.encodedBodySize, 0)"""
MAX_BYTES, MAX_LINES = 147_500, 300


def table():
    rows = re.findall(r"^\| `(.+?)` \|.*\| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.M)
    return dict(rows)


def test_every_library_matches_its_checksum():
    files = {each.relative_to(VENDOR).as_posix(): each for each in VENDOR.rglob("*.js")}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == table()
    assert len(list((VENDOR / "licences").glob("*.txt"))) >= 7


def test_imports_are_files_of_the_page():
    for path in PAGE.rglob("*.js"):
        for name in re.findall(r"""(?:^|[;}\s])(?:import|from)\s*\(?["']([^"']+)["']""", path.read_text()):
            assert name.startswith("."), (path, name)
            assert (path.parent / name).is_file(), (path, name)


def test_own_modules_are_small_and_documented():
    for path in OURS:
        lines = path.read_text().splitlines()
        assert len(lines) <= MAX_LINES, path
        if path.suffix == ".js":
            assert lines[0].startswith("// "), path


def test_all_of_it_compressed_is_small(serve):
    files = [each for each in PAGE.rglob("*") if each.suffix in (".js", ".css", ".html", ".svg")]
    small = {each.relative_to(PAGE).as_posix(): len(gzip.compress(each.read_bytes(), 9)) for each in files}
    with_formulas = sum(small.pop(name) for name in ("math.js", "vendor/temml.js"))
    assert sum(small.values()) <= MAX_BYTES
    assert with_formulas <= 60_000
    with serve(["unused"]).client("") as client:
        answer = client.get("/assets/vendor/marked.js", headers={"Accept-Encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.content == (VENDOR / "marked.js").read_bytes()
        again = {"Accept-Encoding": "gzip", "If-None-Match": answer.headers["etag"]}
        assert client.get("/assets/vendor/marked.js", headers=again).status_code == 304
        plain = client.get("/assets/vendor/marked.js", headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.headers["etag"] != answer.headers["etag"]


def test_a_first_visit_loads_little(serve, visit):
    guest = visit(serve(["Hello."]))
    guest.say("Hello")
    guest.wait(".end")
    loaded = guest.page.evaluate(LOADED)
    print(f"a first visit loads {loaded} bytes")
    assert loaded <= 95_000


def test_nothing_inline_and_nothing_from_elsewhere():
    index = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    for path in OURS:
        if path.suffix != ".svg":
            assert not re.search(r"https?://(?!\$)", path.read_text().replace("https?:", "")), path
