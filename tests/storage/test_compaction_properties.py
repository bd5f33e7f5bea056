"""Random keyed writes, deletions and transactions: whatever is cleaned, a table made of the topic stays the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tailrace.protocol.records.compression import Compression
from tailrace.storage.log import Log
from tailrace.storage.offset_map import BYTES_PER_ENTRY
from tailrace.testing.virtual_clock import VirtualClock
from tests.storage.compaction_workshop import clean, committed, headers, latest, put, records
from tests.storage.log_workshop import config, context, end_transaction, forget, open_log

HOUR_MS = 3_600_000
PLAIN, IDEMPOTENT, TRANSACTIONAL = range(3)


class Writers:
    """Writers of one log, and the table that its committed records make, as plain dicts."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.settings = config(
            cleanup_policy="compact",
            segment_bytes=self.chance.choice((500, 2000, 20000)),
            index_interval_bytes=self.chance.choice((1, 300)),
            delete_retention_ms=self.chance.choice((0, HOUR_MS)),
        )
        self.directory = directory
        self.log = self.opened(is_clean=True)
        self.checkpoint = 0
        self.written: list[tuple[int, str, str | None]] = []
        """Offset, key and value of everything that is committed."""
        self.pending: dict[int, list[tuple[int, str, str | None]]] = {}
        self.sequences: dict[int, int] = {}
        self.count = 0

    def opened(self, *, is_clean: bool) -> Log:
        log = open_log(
            self.directory,
            settings=self.settings,
            surroundings=context(self.clock),
            was_clean_stop=is_clean,
            high_watermark=2**62,
        )
        assert log.failure is None
        return log

    def step(self) -> None:
        name = self.chance.choices(("write", "end", "clean", "restart", "wait", "roll"), (60, 15, 6, 2, 3, 5))[0]
        getattr(self, name)()

    def write(self) -> None:
        chance = self.chance
        pairs: list[tuple[str, str | None]] = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            self.count += 1
            value = None if chance.random() < 0.25 else f"{self.count}".ljust(chance.choice((1, 40)), "x")
            pairs.append((f"key{chance.randrange(12)}", value))
        kind = chance.randrange(3)
        codec = chance.choice((Compression.NONE, Compression.NONE, Compression.LZ4, Compression.ZSTD))
        written = [(self.log.log_end_offset + slot, key, value) for slot, (key, value) in enumerate(pairs)]
        if kind == PLAIN:
            put(self.log, *pairs, compression=codec)
        else:
            producer = 10 * kind + chance.randrange(3)
            sequence = self.sequences.get(producer, 0)
            is_transactional = kind == TRANSACTIONAL
            put(
                self.log, *pairs, compression=codec, producer=(producer, 0, sequence), is_transactional=is_transactional
            )
            self.sequences[producer] = sequence + len(pairs)
            if is_transactional:
                self.pending.setdefault(producer, []).extend(written)
                return
        self.written += written

    def end(self) -> None:
        """End the oldest transaction."""
        for producer in list(self.pending)[:1]:
            commit = self.chance.random() < 0.6
            end_transaction(self.log, producer, commit=commit)
            self.log.update_high_watermark(self.log.log_end_offset)
            written = self.pending.pop(producer)
            if commit:
                self.written += written

    def table(self) -> dict[bytes, bytes]:
        """Give what a consumer of committed records has in its table now."""
        table: dict[bytes, bytes] = {}
        for offset, key, value in sorted(self.written):
            if offset >= self.log.last_stable_offset:
                break
            table.pop(key.encode(), None)
            if value is not None:
                table[key.encode()] = value.encode()
        return table

    def clean(self) -> None:
        stable = self.log.last_stable_offset
        kept = {(one.offset, one.key, one.value, one.timestamp) for one in records(self.log)}
        memory = self.chance.choice((6, 9, 1000)) * BYTES_PER_ENTRY
        end = clean(
            self.log,
            checkpoint=self.checkpoint,
            change_plan=lambda plan: setattr(plan.limits, "map_bytes", memory),
        )
        assert self.checkpoint <= end <= max(stable, self.checkpoint)
        self.checkpoint = end
        assert latest(committed(self.log)) == self.table()
        assert {(one.offset, one.key, one.value, one.timestamp) for one in records(self.log)} <= kept

    def restart(self) -> None:
        before = records(self.log)
        is_clean = self.chance.random() < 0.5
        if is_clean:
            self.log.close()
        else:
            forget(self.log)
        end = self.log.log_end_offset
        self.log = self.opened(is_clean=is_clean)
        assert self.log.log_end_offset == end
        assert records(self.log) == before
        known = self.log.producer_state.active_producers
        assert {producer: known[producer].last_sequence + 1 for producer in self.sequences} == self.sequences

    def wait(self) -> None:
        self.clock.advance(HOUR_MS)

    def roll(self) -> None:
        if self.log.active.size:
            self.log.roll()


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1000, 1150))])
def test_table_of_a_topic_is_the_same_after_cleaning(tmp_path: Path, seed: int) -> None:
    writers = Writers(tmp_path / "flights-0", seed)
    for _ in range(200):
        writers.step()
    while writers.pending:
        writers.end()
    writers.roll()
    clean(writers.log)  # With room for all keys, everything is cleaned at once.
    assert latest(committed(writers.log)) == writers.table()
    offsets = [one.offset for one in committed(writers.log)]
    assert offsets == sorted(offsets)
    keys = [one.key for one in committed(writers.log)]
    assert len(keys) == len(set(keys)), "a key is left twice"
    ends = [header.last_offset for header in headers(writers.log)]
    assert ends == sorted(ends)
    writers.log.close()
