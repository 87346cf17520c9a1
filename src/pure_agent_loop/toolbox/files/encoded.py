"""Text of files as it was written: encoding and line ends are kept when a part is changed."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = {codecs.BOM_UTF8: "utf-8", UTF16[0]: "utf-16-le", UTF16[1]: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The text of a file, and how to write it back.

    Args:
        text: The text with its line ends. Bytes that are no UTF-8 are lone surrogates in it.
        encoding: A codec.
        mark: The byte order mark before it.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> EncodedText | None:
        """Read the content of a file; None if it is no text."""
        mark = next((each for each in _MARKS if data.startswith(each)), b"")
        encoding = _MARKS.get(mark, "utf-8")
        if is_binary(data):
            return None
        try:
            text = data[len(mark) :].decode(encoding, _errors(encoding))
        except UnicodeDecodeError:
            return None
        return cls(text, encoding, mark)

    def bytes_of(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.mark + text.encode(self.encoding, _errors(self.encoding))


def is_binary(data: bytes) -> bool:
    """Whether the content, or beginning, of a file is no text."""
    is_utf16 = data.startswith(UTF16) and not data.startswith(
        codecs.BOM_UTF32_LE
    )  # it begins in the same way
    return b"\0" in data and not is_utf16


def _errors(encoding: str) -> str:
    """Whatever is in a file must come out as it was; in UTF-16 that holds for all whole units."""
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"
