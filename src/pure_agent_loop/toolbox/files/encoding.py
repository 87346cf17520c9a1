"""File text with its encoding and line ends, which a partial change preserves."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARKS = {codecs.BOM_UTF8: "utf-8", UTF16[0]: "utf-16-le", UTF16[1]: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The text of a file and its encoding.

    Args:
        text: The text with its line ends. Bytes that are not UTF-8 become lone surrogates.
        mark: The byte order mark.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def of(cls, data: bytes) -> EncodedText | None:
        """Decode the content of a file; return None if it is not text."""
        mark = next((bom for bom in _MARKS if data.startswith(bom)), b"")
        encoding = _MARKS.get(mark, "utf-8")
        if is_binary(data):
            return None
        try:
            text = data[len(mark) :].decode(encoding, _errors(encoding))
        except UnicodeDecodeError:
            return None
        return cls(text, encoding, mark)

    def bytes_of(self, text: str) -> bytes:
        """Encode a new text for the file in the same way."""
        return self.mark + text.encode(self.encoding, _errors(self.encoding))


def is_binary(data: bytes) -> bool:
    """Return True if a file's content, or the beginning of it, is binary."""
    # The UTF-32 mark begins like the UTF-16 mark.
    is_utf16 = data.startswith(UTF16) and not data.startswith(codecs.BOM_UTF32_LE)
    return b"\0" in data and not is_utf16


def _errors(encoding: str) -> str:
    """Return the error handler that preserves undecodable bytes (in UTF-16, only lone surrogates)."""
    return "surrogateescape" if encoding == "utf-8" else "surrogatepass"
