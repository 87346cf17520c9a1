"""Pictures are judged by their content."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pure_agent_loop.images import MAX_BYTES, ImageError, ImageInfo, image_part, inspect_image
from pure_agent_loop.toolbox import PictureTools, Workspace


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0"


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0\0\x10JFIF\0" + b"\0" * 9
    tables = b"\xff\xff\xdb\0\x05abc" + b"\xff\xc4\0\x04ab"
    return b"\xff\xd8" + app + tables + b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\x03"


def webp(chunk: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + chunk + b"\0\0\0\0" + body


def extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


def lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height))


MAKERS = {png: "PNG", gif: "GIF", jpeg: "JPEG", extended: "WebP", lossless: "WebP", lossy: "WebP"}


@pytest.mark.parametrize("make", MAKERS)
class TestKinds:
    def test_format_and_dimensions(self, make) -> None:
        assert inspect_image(make(640, 48)) == ImageInfo(MAKERS[make], 640, 48)

    def test_a_part_of_a_message(self, make) -> None:
        part = image_part(make(3, 2))
        head, _, text = part["image_url"]["url"].partition(",")
        assert part["type"] == "image_url"
        assert head == f"data:image/{MAKERS[make].lower()};base64"
        assert base64.b64decode(text) == make(3, 2)

    def test_cut_short(self, make) -> None:
        whole = make(640, 48)
        for length in range(len(whole)):
            with suppress(ImageError):
                assert inspect_image(whole[:length]) == inspect_image(whole)

    @pytest.mark.parametrize(("width", "height"), [(8_001, 1), (1, 8_001)])
    def test_too_many_pixels(self, make, width: int, height: int) -> None:
        with pytest.raises(ImageError, match=f"has {width} x {height} pixels; each side"):
            inspect_image(make(width, height))


def test_no_pixels() -> None:
    with pytest.raises(ImageError, match="has 0 x 5 pixels"):
        inspect_image(png(0, 5))


def test_too_many_bytes() -> None:
    with pytest.raises(ImageError, match="larger than 5,000,000 bytes"):
        image_part(png(1, 1) + b"\0" * MAX_BYTES)


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"BM12", b"RIFF\0\0\0\0WAVEfmt ", b"\xff\xd8"])
def test_what_is_none(data: bytes) -> None:
    with pytest.raises(ImageError, match="'x' is not a PNG, JPEG, GIF or WebP picture"):
        image_part(data, name="x")


@pytest.mark.parametrize(
    "data",
    [b"\xff\xd8\xff\xda\0\0", b"\xff\xd8\xff\xe0\0\0\0", b"\xff\xd8\xff\xe0\0\x03x12345", b"GIF88a\1\0\1\0",
     b"\x89PNG\r\n\x1a\n\0\0\0\x0dIDAT12345678", webp(b"VP8L", b"\0" * 9), webp(b"ALPH", b"\0" * 30)],
)  # fmt: skip
def test_a_damaged_header(data: bytes) -> None:
    with pytest.raises(ImageError, match="header is damaged"):
        inspect_image(data)


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF1234WEBP"]), st.binary(max_size=80)
)
def test_any_content_is_a_picture_or_a_typed_error(start: bytes, rest: bytes) -> None:
    try:
        image = inspect_image(start + rest)
    except ImageError:
        return
    assert 0 < image.width <= 8_000
    assert 0 < image.height <= 8_000


def test_the_tool(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(jpeg(20, 10))
    (tool,) = PictureTools(Workspace(tmp_path)).tools()
    assert tool.read_only
    assert tool("a.txt") == f"'a.txt': JPEG, 20 x 10 pixels, {len(jpeg(20, 10))} bytes."
    (tmp_path / "b.png").write_text("no picture")
    with pytest.raises(ImageError, match=r"'b\.png' is not"):
        tool("b.png")
