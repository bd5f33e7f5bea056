"""What the files of a partition say, as lines, and what is wrong with them.

`Dump` goes through files and directories, writes a line for each batch, record or entry, and collects problems: CRCs
that do not match, batches that do not parse, offsets that go back, bytes behind the last batch that are not the zeros
of preallocation, and index entries that do not fit the batches of their segment (`log_checks`). Files are opened for
reading only, so this may run beside a broker; what it appends meanwhile is not seen.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from tailrace.cli.log_checks import (
    BatchPlace,
    check_offset_index,
    check_time_index,
    read_offset_index,
    read_time_index,
    read_transaction_index,
)
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import (
    LENGTH_END,
    BatchHeader,
    crc_matches,
    is_partial,
    magic_at,
    read_batch_header,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX
from tailrace.protocol.records.control import read_control_type, read_end_txn_marker
from tailrace.protocol.records.legacy import message_codec, read_message
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import Record
from tailrace.storage.errors import CorruptFile
from tailrace.storage.producer_snapshot import parse_snapshot

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_TEXT_NAMES = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
_TEXT_BYTES_MAX = 16 * 1024 * 1024


class DumpFailed(Exception):
    """A file that is none of a log's, or cannot be read."""


class Dump:
    """Writes lines and remembers problems."""

    def __init__(self, *, write: Callable[[str], object], with_records: bool, with_values: bool) -> None:
        self._write = write
        self._with_records = with_records
        self._with_values = with_values
        self.problems: list[str] = []
        self.files_count = 0
        self.batches_count = 0
        self.records_count = 0

    def dump(self, path: Path) -> None:
        """Show a file, or every file of a log in a directory and those below it."""
        if not path.is_dir():
            self._dump_file(path)
            return
        known = [entry for entry in sorted(path.rglob("*")) if entry.is_file() and _is_known(entry)]
        if not known:
            raise DumpFailed(f"no file of a log in {path}")
        for entry in known:
            self._dump_file(entry)

    def _dump_file(self, path: Path) -> None:
        if not _is_known(path):
            raise DumpFailed(f"{path} is no file of a log: its name ends in none of {', '.join(_SUFFIXES)}")
        self.files_count += 1
        self._line(f"{path}")
        try:
            if path.name in _TEXT_NAMES:
                for line in path.read_bytes()[:_TEXT_BYTES_MAX].decode(errors="replace").splitlines():
                    self._line(f"  {line}")
            elif path.suffix == ".log":
                self._dump_batches(path)
            elif path.suffix == ".snapshot":
                self._dump_snapshot(path)
            else:
                self._dump_index(path)
        except BrokenPipeError:
            raise  # it is our output that is gone, not the file
        except OSError as error:
            raise DumpFailed(f"cannot read {path}: {error.strerror}") from error

    def _dump_batches(self, path: Path) -> None:
        base_offset = int(path.stem) if path.stem.isdecimal() else 0
        with _mapped(path) as buffer:
            next_offset = base_offset
            for place in self._walk(path, buffer):
                if place.base_offset < next_offset:
                    self._problem(
                        path, f"position {place.position}: offset {place.base_offset} after {next_offset - 1}"
                    )
                next_offset = place.last_offset + 1

    def _walk(self, path: Path, buffer: Buffer) -> Iterator[BatchPlace]:
        """Go through the batches of a `.log`, showing each, up to its end or to what is no batch."""
        position, end = 0, len(buffer)
        while position < end:
            if _is_zero(buffer, position):
                self._line(f"  {end - position} bytes preallocated from position {position}")
                return
            try:
                if is_partial(buffer, position):
                    raise MalformedFrame(f"the batch at position {position} is cut off")
                is_batch = magic_at(buffer, position) >= 2
                place = self._batch(path, buffer, position) if is_batch else self._message(buffer, position)
            except (MalformedFrame, ApiError) as error:
                self._problem(path, f"position {position}: {error}; {end - position} bytes from there were not read")
                return
            yield place
            position += place.size

    def _batch(self, path: Path, buffer: Buffer, position: int) -> BatchPlace:
        """Show one batch of magic 2, and its records where they are wanted."""
        header = read_batch_header(buffer, position)
        self.batches_count += 1
        is_valid = crc_matches(buffer, position, header)
        self._line(_describe_batch(header, position, is_valid=is_valid))
        if not is_valid:
            self._problem(path, f"position {position}: the CRC of the batch at offset {header.base_offset} is wrong")
        elif self._with_records:
            try:
                for record in read_batch(buffer, position, header, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX):
                    self._record(record, header)
            except ApiError as error:
                self._problem(path, f"position {position}: {error}")
        return BatchPlace(position, header.size, header.base_offset, header.last_offset, header.max_timestamp)

    def _message(self, buffer: Buffer, position: int) -> BatchPlace:
        """Show one message of magic 0 or 1, which may wrap others."""
        records = read_message(buffer, position, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
        self.batches_count += 1
        size = LENGTH_END + int.from_bytes(buffer[position + 8 : position + 12], "big")
        magic, codec = magic_at(buffer, position), message_codec(buffer, position).label
        first, last = records[0].offset, records[-1].offset
        self._line(f"  offsets={first}-{last} position={position} size={size} magic={magic} compression={codec}")
        for record in records if self._with_records else ():
            self._record(record, None)
        return BatchPlace(position, size, first, last, max(record.timestamp for record in records))

    def _record(self, record: Record, header: BatchHeader | None) -> None:
        self.records_count += 1
        sizes = f"key={_size(record.key)} value={_size(record.value)} headers={len(record.headers)}"
        line = f"    offset={record.offset} timestamp={record.timestamp} {sizes}"
        if header is not None and header.is_control:
            marker = read_end_txn_marker(record)
            line += f" control={read_control_type(record.key).name.lower()}"
            line += "" if marker is None else f" coordinator_epoch={marker.coordinator_epoch}"
        elif header is not None and header.base_sequence >= 0:
            line += f" sequence={(header.base_sequence + record.offset - header.base_offset) & 0x7FFFFFFF}"
        self._line(line)
        if self._with_values:
            self._line(f"      key: {_text(record.key)}")
            self._line(f"      value: {_text(record.value)}")
            for name, value in record.headers:
                self._line(f"      header {name!r}: {_text(value)}")

    def _dump_snapshot(self, path: Path) -> None:
        try:
            entries = parse_snapshot(path, path.read_bytes())
        except CorruptFile as error:
            self._problem(path, str(error))
            return
        for entry in entries:
            open_transaction = entry.current_transaction_first_offset
            self._line(
                f"  producer_id={entry.producer_id} epoch={entry.producer_epoch} last_sequence={entry.last_sequence} "
                f"last_offset={entry.last_offset} timestamp={entry.last_timestamp} "
                f"coordinator_epoch={entry.coordinator_epoch} "
                f"open_transaction={'none' if open_transaction is None else open_transaction}"
            )

    def _dump_index(self, path: Path) -> None:
        """Show an index, and check it against the batches of its segment."""
        base_offset = int(path.stem) if path.stem.isdecimal() else 0
        data = path.read_bytes()
        if path.suffix == ".txnindex":
            aborted, problems = read_transaction_index(data)
            for transaction in aborted:
                self._line(
                    f"  producer_id={transaction.producer_id} first_offset={transaction.first_offset} "
                    f"last_offset={transaction.last_offset} last_stable_offset={transaction.last_stable_offset}"
                )
        else:
            places = self._places(path)
            if path.suffix == ".index":
                entries = read_offset_index(data, base_offset)
                lines = [f"  offset={offset} position={position}" for offset, position in entries]
                problems = check_offset_index(entries, places)
            else:
                times = read_time_index(data, base_offset)
                lines = [f"  timestamp={timestamp} offset={offset}" for timestamp, offset in times]
                problems = check_time_index(times, places)
            for line in lines:
                self._line(line)
        for problem in problems:
            self._problem(path, problem)

    def _places(self, path: Path) -> list[BatchPlace] | None:
        """Give the batches of an index's segment; None where its `.log` is not beside it."""
        log = path.with_suffix(".log")
        if not log.is_file():
            self._problem(path, f"there is no {log.name} beside it to check it against")
            return None
        silent = Dump(write=lambda line: None, with_records=False, with_values=False)
        with _mapped(log) as buffer:
            return list(silent._walk(log, buffer))

    def _line(self, line: str) -> None:
        self._write(line + "\n")

    def _problem(self, path: Path, problem: str) -> None:
        self.problems.append(f"{path}: {problem}")


def _describe_batch(header: BatchHeader, position: int, *, is_valid: bool) -> str:
    """Give a line with everything that the header says."""
    flags = [
        name
        for name, is_set in (
            ("transactional", header.is_transactional),
            ("control", header.is_control),
            ("delete-horizon", header.has_delete_horizon),
        )
        if is_set
    ]
    producer = ""
    if header.has_producer_id:
        producer = f" producer_id={header.producer_id} producer_epoch={header.producer_epoch}"
    if header.base_sequence >= 0:
        producer += f" sequences={header.base_sequence}-{header.last_sequence}"
    return (
        f"  offsets={header.base_offset}-{header.last_offset} count={header.records_count} position={position} "
        f"size={header.size} leader_epoch={header.partition_leader_epoch} compression={header.compression.label} "
        f"{header.timestamp_type.label}={header.max_timestamp}{producer} crc={header.crc:#010x}"
        f"{'' if is_valid else ' WRONG'}{' ' if flags else ''}{' '.join(flags)}"
    )


def _is_known(path: Path) -> bool:
    return path.suffix in _SUFFIXES or path.name in _TEXT_NAMES


@contextmanager
def _mapped(path: Path) -> Generator[Buffer]:
    """Map a file for reading; an empty one cannot be mapped."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            view = memoryview(mapping)
            try:
                yield view
            finally:
                view.release()


def _is_zero(buffer: Buffer, position: int) -> bool:
    """Whether there is nothing but zeros from `position` on, looking at a piece at a time."""
    if buffer[position]:
        return False
    step = 1024 * 1024
    return not any(any(buffer[start : start + step]) for start in range(position, len(buffer), step))


def _size(data: bytes | None) -> str:
    return "null" if data is None else str(len(data))


def _text(data: bytes | None) -> str:
    """Show bytes as text where they are UTF-8, else in hex."""
    if data is None:
        return "null"
    try:
        return repr(data.decode())
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
