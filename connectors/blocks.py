"""Text in blocks that end where a line does, as soon as they are there."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.errors import DataError

from .source import Source, show_path

BLOCK_BYTES = 4 << 20
LINE_BYTES = 64 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def cut_blocks(source: Source, *, quoted: bool = False) -> Iterator[bytes]:
    """Blocks that are not blank; with `quoted`, a line end within double quotes ends no line."""
    parts: list[bytes] = []
    held = quotes = 0
    is_start = True
    while data := source.read(BLOCK_BYTES):
        if is_start:
            data = data.removeprefix(BYTE_ORDER_MARK)
            is_start = False
        cut = _last_end(data, quotes % 2) if quoted else data.rfind(b"\n") + 1
        if cut:
            block = b"".join((*parts, data[:cut]))
            parts, held, quotes = [], 0, 0
            if block.strip():
                yield block
        if cut < len(data):
            parts.append(data[cut:])
            held += len(data) - cut
            quotes += data.count(b'"', cut) if quoted else 0
        if held > LINE_BYTES:
            longest = f"{LINE_BYTES >> 20} MB"
            raise DataError(
                f"Expected rows of at most {longest}, found a longer one or a quote that never closes",
                source=show_path(source.path),
            )
    block = b"".join(parts)
    if block.strip():
        yield block


def _last_end(data: bytes, is_open: int) -> int:
    """The place after the last line end outside quotes, 0 if none; `is_open`: data starts within quotes."""
    end = data.rfind(b"\n") + 1
    inside = (is_open + data.count(b'"', 0, end)) % 2
    while end and inside:
        quote = data.rfind(b'"', 0, end)
        earlier = data.rfind(b"\n", 0, max(quote, 0)) + 1
        inside = (inside + data.count(b'"', earlier, end)) % 2
        end = earlier
    return end
