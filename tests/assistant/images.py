"""Small real images, written by hand."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 1) -> bytes:
    def piece(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(min(height, 4)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = piece(b"IHDR", head) + piece(b"IDAT", zlib.compress(rows)) + piece(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def jpeg(width: int = 2, height: int = 1) -> bytes:
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8\xff\xe0\0\4ab" + frame + b"\xff\xda\0\2" + b"data" + b"\xff\xd9"


def gif(width: int = 2, height: int = 1) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0" + b";"


def webp(width: int = 2, height: int = 1) -> bytes:
    body = b"WEBPVP8 " + struct.pack("<I", 10) + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_lossless(width: int = 2, height: int = 1) -> bytes:
    body = b"WEBPVP8L" + struct.pack("<IBI", 5, 0x2F, width - 1 | (height - 1) << 14) + b"\0"
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_extended(width: int = 2, height: int = 1) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<II", 10, 0) + sides
    return b"RIFF" + struct.pack("<I", len(body)) + body


ALL = {
    "png": png,
    "jpeg": jpeg,
    "gif": gif,
    "webp": webp,
    "webp lossless": webp_lossless,
    "webp extended": webp_extended,
}
