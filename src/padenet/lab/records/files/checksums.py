"""Checksums inside JSON records: a byte that changed on the disk is found by the next reader.

The last field of a record is "crc32": the CRC-32, as eight hex digits, of all bytes of the file
before those digits. In a file of lines it so covers the lines before its own, and a line can be
added without touching them. Records without it, as they were once written, are read unchecked.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

FIELD = "crc32"
BLANK = "0" * 8
# Under whatever name: the name may be what is damaged.
DIGITS = re.compile(rb'"([0-9a-f]{8})"\s*\}\s*\Z')


def sealed(records: Iterable[dict[str, Any]], indent: int | None = None) -> bytes:
    """Records as a file of JSON, one after the other, each with its checksum."""
    content, crc = bytearray(), 0
    for record in records:
        text = json.dumps({**record, FIELD: BLANK}, indent=indent)
        head, tail = (part.encode() for part in text.rsplit(BLANK, 1))
        digits = f"{zlib.crc32(head, crc):08x}".encode()
        line = head + digits + tail + b"\n"
        content += line
        crc = zlib.crc32(line, crc)
    return bytes(content)


def unsealed(lines: Iterable[bytes]) -> Iterator[Any]:
    """What the lines hold, without the checksums, which are compared.

    Raises:
        ValueError: One differs, or is missing after a line that had one. The lines before were
            given.
    """
    crc, wanted = 0, False
    for line in lines:
        found = json.loads(line)
        digits = DIGITS.search(line)
        if digits:
            if int(digits[1], 16) != zlib.crc32(line[: digits.start(1)], crc):
                raise ValueError("its checksum is another, so it was damaged or edited")
            wanted = True
        elif wanted or (isinstance(found, dict) and FIELD in found):
            raise ValueError("its checksum is missing or damaged")
        if isinstance(found, dict):
            found.pop(FIELD, None)
        crc = zlib.crc32(line, crc)
        yield found
