"""What an append and a read cost: `python bench/append.py [directory]`.

Prints microseconds of CPU for a batch of one record of 200 bytes appended as a leader, the same from an idempotent
producer, a read at the log's end, and then, for sizes from 256 bytes to 1 MB, a store into the mapping against a
pwrite into the same preallocated file: where the lines cross is `STORE_BYTES_MAX` in tailrace/storage/segment.py.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from tailrace.clock import SystemClock
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.disk import Disk
from tailrace.storage.log import Log
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_loader import LogLoader

APPENDS = 50_000
BYTES = 32 << 20


def main() -> None:
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    directory = Path(tempfile.mkdtemp(prefix="tailrace-append-", dir=parent))
    try:
        bench_log(directory / "a-0", idempotent=False)
        bench_log(directory / "b-0", idempotent=True)
        bench_crossover(directory)
    finally:
        shutil.rmtree(directory)


def open_log(directory: Path) -> Log:
    directory.mkdir()
    context = LogContext(clock=SystemClock())
    return LogLoader(TopicPartition("bench", 0), directory, LogConfig({}), context, was_clean_stop=True).load()


def bench_log(directory: Path, *, idempotent: bool) -> None:
    log = open_log(directory)
    records = [Record(0, log.context.clock.time_ms(), b"key", bytes(130))]
    batches = [
        write_batch(
            records,
            producer_id=7 if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=sequence if idempotent else -1,
        )
        for sequence in range(APPENDS)
    ]
    name = "idempotent" if idempotent else "plain"
    size = len(batches[0])
    started = time.process_time()
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=0)
    print(f"append, one record, {size} bytes, {name:10} {(time.process_time() - started) / APPENDS * 1e6:6.2f} µs")
    log.update_high_watermark(log.log_end_offset)
    end = log.log_end_offset
    started = time.process_time()
    for _ in range(APPENDS):
        log.read(end - 1, max_bytes=1 << 20, upper_offset=end, min_one_message=True)
    print(f"read of the last batch                   {(time.process_time() - started) / APPENDS * 1e6:6.2f} µs")
    started = time.process_time()
    for offset in range(0, end - 1, 7):
        log.read(offset, max_bytes=1 << 20, upper_offset=end, min_one_message=True)
    count = len(range(0, end - 1, 7))
    print(f"read of 1 MB anywhere                    {(time.process_time() - started) / count * 1e6:6.2f} µs")


def bench_crossover(directory: Path) -> None:
    disk = Disk()
    print("bytes      store µs   pwrite µs")
    for exponent in range(8, 21):
        size = 1 << exponent
        data = bytes(size)
        count = BYTES // size if size >= 4096 else 8192
        costs: list[float] = []
        for way in ("store", "pwrite"):
            file = disk.open(directory / way, create=True)
            file.allocate(0, count * size)
            view = memoryview(file.map(count * size, writable=True))
            started = time.process_time()
            if way == "store":
                for position in range(0, count * size, size):
                    view[position : position + size] = data
            else:
                for position in range(0, count * size, size):
                    file.write_at(position, data)
            costs.append((time.process_time() - started) / count * 1e6)
            file.close()
            (directory / way).unlink()
        print(f"{size:8} {costs[0]:10.2f} {costs[1]:11.2f}")


if __name__ == "__main__":
    main()
