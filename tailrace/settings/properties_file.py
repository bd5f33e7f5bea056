"""The syntax of Java's properties files, as server.properties and meta.properties use it.

    # a comment            ! another one
    key = value            key:value            key value
    key = a long \\
          value            \\t \\n \\f \\r \\u00e9 \\: and \\\\ are escapes

Bytes are Latin-1; of equal keys the last one wins. The `javaproperties` package reads the same (a test holds the two
equal) and is a fifth of a broker's start to import, for its XML and its command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_NAMES = {character: name for name, character in _ESCAPES.items()}


def parse_properties(text: str) -> dict[str, str]:
    """Read a whole file; raises ValueError for `\\u` without four hexadecimal digits."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _end_of_key(line)
        key, rest = line[:end], line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        found[_unescape(key)] = _unescape(rest)
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """Write a file, one line a key, everything beyond printable ASCII escaped."""
    return "".join(f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in values.items())


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for position, character in enumerate(text):
        if character in "\\=:#!" or (character == " " and (is_key or position == 0)):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        elif character in _NAMES:
            out.append("\\" + _NAMES[character])
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    return "".join(out)


def _logical_lines(text: str) -> Iterator[str]:
    """Give the lines that say something, continued ones joined."""
    pending: str | None = None
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        # Counted on the whole line: a continuation leaves none of its own behind.
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = None
        if line:
            yield line
    if pending:
        yield pending


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in "=:" or line[position] in _BLANKS:
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts = text.split("\\")
    out = [parts[0]]
    position = 1
    while position < len(parts):
        part = parts[position]
        position += 1
        if not part:
            # Two backslashes in a row: one of them, and what follows is plain text.
            following = parts[position] if position < len(parts) else ""
            out.append("\\" + following if position < len(parts) else "")
            position += 1
        elif part[0] == "u":
            digits = part[1:5]
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"\\u{digits} is no escape: four hexadecimal digits are expected")
            out.append(chr(int(digits, 16)) + part[5:])
        else:
            out.append(_ESCAPES.get(part[0], part[0]) + part[1:])
    # Characters beyond the basic plane are written as two escapes, as in Java's strings.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
