"""A log under random operations, crashes and failures of the disk, held against `LogModel` after every step.

Everything random comes from one seed, so a failure is replayed by it. What has to hold:

- kill -9 loses nothing that an append has returned, and nothing that was there before an operation it interrupts;
- a loss of power loses nothing below the recovery point;
- what is read is what was appended, byte for byte, in order, and never a byte more.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import DiskError
from tailrace.storage.log import Log
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_loader import LogLoader
from tailrace.testing.faulty_disk import FaultyDisk, ProcessKilled
from tailrace.testing.virtual_clock import VirtualClock
from tests.simulation.log_model import LogModel

PARTITION = TopicPartition("simulated", 0)
TRANSACTIONAL_FROM = 10
"""Producers below write without transactions, those from here on only within them."""
FAILING = ("write", "allocate", "sync", "rename", "truncate", "open", "map", "unlink")


class LogSimulation:
    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.root = root
        self.directory = root / str(PARTITION)
        self.directory.mkdir()
        self.disk = FaultyDisk(root)
        self.config = LogConfig(
            {
                "internal.segment.bytes": str(self.chance.choice((7000, 20000))),
                "segment.index.bytes": str(self.chance.choice((48, 400, 4096))),
                "index.interval.bytes": str(self.chance.choice((1, 200, 1000))),
                "retention.ms": "-1",
            }
        )
        self.model = LogModel()
        self.checkpointed_recovery_point = 0
        self.sequences: dict[int, int] = {}
        self.leader_epoch = 0
        self.last_sent: dict[int, tuple[bytes, int, int]] = {}
        self.log = self.load()
        self.counts: dict[str, int] = {}

    # ------------------------------------------------------------------ steps

    def step(self) -> None:
        """Perform one random operation and compare."""
        name = self.chance.choices(
            ("append", "read", "follow", "mark", "times", "roll", "truncate", "prefix", "anew", "flush", "stop", "kill",
             "tear", "power", "shuffle", "interrupt", "fault"),
            (500, 300, 20, 40, 10, 12, 8, 10, 0.3, 20, 2, 3, 2, 1, 0.5, 6, 3),
        )[0]  # fmt: skip
        self.counts[name] = self.counts.get(name, 0) + 1
        self.clock.advance(self.chance.randrange(50))
        getattr(self, f"do_{name}")()
        assert self.log.log_end_offset == self.model.log_end_offset
        assert self.log.log_start_offset == self.model.log_start_offset

    def do_append(self) -> None:
        producer = self.chance.choice((-1, -1, -1, 1, 2, 3, TRANSACTIONAL_FROM, TRANSACTIONAL_FROM + 1))
        if producer in self.last_sent and self.chance.random() < 0.1:
            self.repeat(producer)
            return
        if self.chance.random() < 0.01:
            self.leader_epoch += 1
        data = self.batch(producer)
        result = self.log.append_as_leader(data, leader_epoch=self.leader_epoch)
        assert (result.first_offset, result.is_duplicate) == (self.model.log_end_offset, False)
        self.note_append(producer, data, result.first_offset, result.last_offset)

    def note_append(self, producer: int, data: bytearray, first_offset: int, last_offset: int) -> None:
        self.model.append(bytes(data))
        if self.chance.random() < 0.9:
            self.log.update_high_watermark(self.log.log_end_offset)
        if producer >= 0:
            self.sequences[producer] = self.sequences.get(producer, 0) + last_offset - first_offset + 1
            self.last_sent[producer] = (bytes(data), first_offset, last_offset)

    def repeat(self, producer: int) -> None:
        data, first_offset, last_offset = self.last_sent[producer]
        again = bytearray(data)
        again[:8] = bytes(8)  # A client leaves the offset to the broker.
        result = self.log.append_as_leader(again, leader_epoch=self.leader_epoch)
        assert (result.is_duplicate, result.first_offset, result.last_offset) == (True, first_offset, last_offset)

    def batch(self, producer: int, base_offset: int = 0) -> bytearray:
        now = self.clock.time_ms()
        records = [
            Record(base_offset + slot, now + self.chance.randrange(-500, 500), self.key(), self.value())
            for slot in range(self.chance.choice((1, 1, 1, 2, 3, 7)))
        ]
        return write_batch(
            records,
            base_offset=base_offset,
            compression=self.chance.choice((Compression.NONE, Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
            leader_epoch=self.leader_epoch,
            is_transactional=producer >= TRANSACTIONAL_FROM,
        )

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self.chance.randbytes(self.chance.choice((0, 3, 20, 20, 20, 100, 100, 700)))

    def do_follow(self) -> None:
        """Append as a follower, now and then with a gap as compaction leaves it."""
        base = self.model.log_end_offset + self.chance.choice((0, 0, 0, 1, 50))
        data = self.batch(-1, base)
        result = self.log.append_as_follower(data)
        assert result.first_offset == base
        self.model.append(bytes(data))
        self.log.update_high_watermark(self.log.log_end_offset)

    def do_mark(self) -> None:
        """End a transaction, or write a marker that ends none."""
        kind = self.chance.choice((ControlType.COMMIT, ControlType.ABORT))
        producer = TRANSACTIONAL_FROM + self.chance.randrange(2)
        data = write_end_txn_marker(
            EndTxnMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp=self.clock.time_ms()
        )
        self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=AppendOrigin.COORDINATOR)
        self.model.append(bytes(data))
        self.log.update_high_watermark(self.log.log_end_offset)

    def do_read(self) -> None:
        log, model = self.log, self.model
        offset = self.chance.randint(model.log_start_offset, model.log_end_offset)
        upper = self.chance.choice((log.high_watermark, log.last_stable_offset, model.log_end_offset))
        max_bytes = self.chance.choice((1, 100, 1000, 100_000))
        at_least_one = self.chance.random() < 0.7
        result = log.read(offset, max_bytes=max_bytes, upper_offset=upper, min_one_message=at_least_one)
        found, expected = bytes(result.records), model.bytes_from(offset, upper)
        assert expected.startswith(found), f"read at {offset} below {upper}"
        if expected and offset < upper:
            first_size = model.batches[model.slot(offset)].header.size
            assert len(found) >= (first_size if at_least_one else min(max_bytes, first_size))
        if upper <= log.last_stable_offset and offset < upper:
            self.check_aborted(offset, upper)

    def check_aborted(self, offset: int, upper: int) -> None:
        """Of a transaction that began below the log start offset, a start may have lost the beginning."""
        start = self.model.log_start_offset
        wanted = self.model.aborted_between(offset, upper)
        old = {aborted.last_offset for aborted in wanted if aborted.first_offset < start}
        found = self.log.collect_aborted_transactions(offset, upper)
        assert [
            (aborted.producer_id, aborted.first_offset, aborted.last_offset)
            for aborted in found
            if aborted.last_offset not in old
        ] == [
            (aborted.producer_id, aborted.first_offset, aborted.last_offset)
            for aborted in wanted
            if aborted.first_offset >= start
        ]

    def do_times(self) -> None:
        timestamp = self.clock.time_ms() - self.chance.randrange(20_000)
        records = [record for record in self.records() if record.timestamp >= timestamp]
        found = self.log.offset_for_timestamp(timestamp)
        expected = (records[0].timestamp, records[0].offset) if records else None
        assert ((found.timestamp, found.offset) if found else None) == expected

    def records(self) -> list[Record]:
        model = self.model
        data = model.bytes_from(model.log_start_offset, model.log_end_offset)
        return [record for record in read_records(data) if record.offset >= model.log_start_offset]

    def do_roll(self) -> None:
        if self.log.active.size:
            self.log.roll()

    def do_truncate(self) -> None:
        back = self.chance.choice((0, 1, 5, 40))
        offset = max(self.model.log_start_offset, self.model.log_end_offset - back)
        if offset > self.model.log_start_offset:
            first, start = self.log.segments[0].base_offset, self.model.log_start_offset
            self.log.truncate_to(offset)
            self.model.truncate_to(offset, first_base_offset=first)
            if self.log.active.size == 0:
                # A gap lay between the last batch and this segment, left by a follower or by compaction: the log may
                # end at either side of it, and does not begin behind its end.
                assert self.model.log_end_offset <= self.log.log_end_offset <= offset
                self.model.log_end_offset = self.log.log_end_offset
                self.model.log_start_offset = min(start, self.log.log_end_offset)
            self.settle()

    def do_prefix(self) -> None:
        offset = self.chance.randint(self.model.log_start_offset, self.log.high_watermark)
        offset = min([offset, *self.model.open_transactions.values()])
        self.log.advance_log_start_offset(offset)
        self.model.log_start_offset = max(self.model.log_start_offset, offset)
        if self.chance.random() < 0.5:
            self.log.delete_old_segments()
        self.settle()

    def do_anew(self) -> None:
        offset = self.model.log_end_offset + self.chance.randrange(100)
        self.log.truncate_fully_and_start_at(offset)
        self.model = LogModel(offset, offset)
        self.settle()

    def do_flush(self) -> None:
        self.log.flusher.flush_now()
        assert self.log.recovery_point == self.model.log_end_offset
        if self.chance.random() < 0.7:
            self.checkpointed_recovery_point = self.log.recovery_point

    # ------------------------------------------------------------------ ends

    def do_stop(self) -> None:
        """Stop in order and start again."""
        self.log.close()
        self.checkpointed_recovery_point = self.log.recovery_point
        self.reload(was_clean_stop=True)
        self.check_all()

    def do_kill(self) -> None:
        self.reload()
        self.check_all()

    def do_tear(self) -> None:
        """End in the middle of a store: some bytes of a batch lie behind the last one."""
        data = self.batch(-1, self.model.log_end_offset)
        # Zeros that are missing are there all the same, in the space allocated ahead.
        cut = self.chance.randrange(1, len(bytes(data).rstrip(b"\0")))
        with self.log.active.log_path.open("r+b") as file:
            file.seek(self.log.active.size)
            file.write(data[:cut])
        self.reload()
        self.check_all()

    def do_power(self) -> None:
        durable = self.checkpointed_recovery_point
        kept = [batch.data for batch in self.model.batches if batch.last_offset < durable]
        start = self.checkpointed_log_start()
        self.log.take_out_of_use()
        self.disk.lose_power()
        self.reload(log_start_offset=start)
        self.adopt(kept, may_have_more=True)

    def do_shuffle(self) -> None:
        """Lose power when pages and names have reached the disk in any order, so that a good batch may follow a hole.

        Such a log goes on from the hole and keeps every good batch behind it in files beside. What it knows of
        producers and epochs may come from before a truncation that was lost, so it is not used any further.
        """
        durable, start = self.checkpointed_recovery_point, self.checkpointed_log_start()
        first = max(self.log.segments[0].base_offset, start)
        kept = [batch.data for batch in self.model.batches if first <= batch.base_offset <= batch.last_offset < durable]
        self.log.take_out_of_use()
        self.disk.lose_power(self.chance)
        there = b"".join(path.read_bytes() for path in sorted(self.directory.glob("*.log")))
        if not any(path.name.endswith(".swap") for path in self.directory.iterdir()):
            kept += [batch.data for batch in self.model.batches if batch.base_offset >= start and batch.data in there]
        self.log = self.load(log_start_offset=start)
        data = b"".join(path.read_bytes() for path in sorted(self.directory.glob("*.log*")))
        assert all(batch in data for batch in kept)
        if self.log.failure is None:
            assert self.log.log_end_offset >= durable
            self.read_through()
        else:
            # A closed file that is too short for its last batch, rather than empty at its end, is not taken for a hole.
            assert "no whole batch follows" in self.log.failure
        self.begin_again()

    def read_through(self) -> None:
        """Read everything: each batch is checked against its checksum on the way."""
        log = self.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            result = log.read(offset, max_bytes=1 << 20, upper_offset=log.log_end_offset, min_one_message=True)
            if not result.records:
                break
            last = LogModel.of(bytes(result.records), log_start_offset=0, log_end_offset=0).batches[-1]
            assert last.last_offset >= offset
            offset = last.last_offset + 1

    def begin_again(self) -> None:
        """Put an empty disk in the place of the one with the damage."""
        self.log.take_out_of_use()
        shutil.rmtree(self.directory)
        self.directory.mkdir()
        self.disk = FaultyDisk(self.root)
        self.checkpointed_recovery_point = 0
        self.model = LogModel()
        self.log = self.load()
        self.settle()

    def do_interrupt(self) -> None:
        """Kill the process somewhere in the middle of an operation."""
        self.disturbed(lambda: self.disk.kill_after(self.chance.randrange(12)))

    def do_fault(self) -> None:
        """Let one call to the disk fail during an operation; then start again on a disk that works."""
        self.disturbed(lambda: self.disk.fail(self.chance.choice(FAILING), nth=self.chance.randint(1, 4)))

    def disturbed(self, disturb: object) -> None:
        before, start = list(self.model.batches), self.model.log_start_offset
        point = self.checkpointed_recovery_point
        name = self.chance.choice(("append", "roll", "truncate", "prefix", "flush", "mark", "follow", "anew", "stop"))
        assert callable(disturb)
        disturb()
        try:
            getattr(self, f"do_{name}")()
        except (ProcessKilled, DiskError):
            pass  # What was disturbed is told by what is there afterwards.
        except ApiError:
            assert self.log.is_offline, f"{name} failed and the log serves on"
        else:
            self.disk.heal()
            return
        self.disk.heal()
        self.after_disturbance(name, [batch.data for batch in before], start, point)

    def after_disturbance(self, name: str, before: list[bytes], start: int, point: int) -> None:
        start = max(start, self.checkpointed_log_start())
        self.checkpointed_recovery_point = min(point, self.checkpointed_recovery_point)
        self.reload(log_start_offset=start)
        if name in ("truncate", "anew"):
            before = [data for data in before if LogModel.of(data, log_start_offset=0, log_end_offset=0).batches[0]
                      .last_offset < self.checkpointed_recovery_point]  # fmt: skip
            self.adopt(before, may_have_more=True)
        else:
            self.adopt(before, may_have_more=name in ("append", "mark", "follow", "prefix"))

    # ------------------------------------------------------------------ starting

    def load(self, *, was_clean_stop: bool = False, log_start_offset: int = 0) -> Log:
        context = LogContext(clock=self.clock, disk=self.disk, random=self.chance)
        context.before_truncation = self.before_truncation
        context.delete_later = lambda paths, _delay: [self.disk.unlink(path) for path in paths]
        return LogLoader(
            PARTITION,
            self.directory,
            self.config,
            context,
            was_clean_stop=was_clean_stop,
            recovery_point=self.checkpointed_recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=2**62,
        ).load()

    def reload(self, *, was_clean_stop: bool = False, log_start_offset: int | None = None) -> None:
        if log_start_offset is None:
            log_start_offset = self.checkpointed_log_start()
        self.log.take_out_of_use()
        self.log = self.load(was_clean_stop=was_clean_stop, log_start_offset=log_start_offset)
        assert self.log.failure is None, self.log.failure
        self.log.update_high_watermark(self.log.log_end_offset)

    def before_truncation(self, log: object, offset: int) -> None:
        assert log is self.log
        self.checkpointed_recovery_point = min(self.checkpointed_recovery_point, offset)

    def checkpointed_log_start(self) -> int:
        """Give what the checkpoint would say: only what the first segment's name does not."""
        log = self.log
        return log.log_start_offset if log.segments and log.log_start_offset > log.segments[0].base_offset else 0

    def adopt(self, kept: list[bytes], *, may_have_more: bool) -> None:
        """Take what the log holds now for the truth, after seeing that what had to be kept is there."""
        log = self.log
        first = log.segments[0].base_offset
        data = b"".join(batch.data for batch in self.model.batches if batch.last_offset < first)
        data += b"".join(bytes(segment.view[: segment.size]) for segment in log.segments)
        model = LogModel.of(data, log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
        found = [batch.data for batch in model.batches if batch.last_offset >= log.log_start_offset]
        wanted = [each for each in kept if last_offset(each) >= log.log_start_offset]
        assert found[: len(wanted)] == wanted
        assert may_have_more or len(found) == len(wanted)
        self.model = model
        self.settle()
        self.check_all()

    def settle(self) -> None:
        """Let producers go on from what the log knows of them."""
        known = self.log.producer_state.active_producers
        self.sequences = {producer: entry.last_sequence + 1 for producer, entry in known.items()}
        last = self.model.last_batches()
        start = self.model.log_start_offset
        self.last_sent = {
            producer: (batch.data, batch.base_offset, batch.last_offset)
            for producer, batch in last.items()
            if batch.base_offset >= start
        }

    # ------------------------------------------------------------------ comparing

    def check_all(self) -> None:
        """Compare everything, as after a start."""
        self.settle()
        log, model = self.log, self.model
        for segment in log.segments:
            segment.offset_index.sanity_check(log_bytes=segment.size, every_entry=True)
            segment.time_index.sanity_check(every_entry=True)
        assert log.log_end_offset == model.log_end_offset
        self.check_epochs()
        known = log.producer_state.active_producers
        for producer, (_, _, last) in self.last_sent.items():
            assert known[producer].last_offset == last
        opened = [first for first in model.open_transactions.values() if first >= model.log_start_offset]
        if len(opened) == len(model.open_transactions):
            self.check_undecided(min(opened) if opened else None)
        if model.log_end_offset > model.log_start_offset:
            self.check_aborted(model.log_start_offset, log.last_stable_offset)

    def check_undecided(self, first_offset: int | None) -> None:
        assert self.log.producer_state.first_undecided_offset == first_offset

    def check_epochs(self) -> None:
        """The first entry is moved along with the log start offset, and does not come back with lost truncations."""
        found, wanted = self.log.leader_epochs.entries, self.model.epochs()
        for slot in range(1, min(len(found), len(wanted)) + 1):
            assert found[-slot].epoch == wanted[-slot][0]
            if slot < min(len(found), len(wanted)):
                assert found[-slot].start_offset == wanted[-slot][1]
        assert bool(found) >= bool(wanted)


def last_offset(data: bytes) -> int:
    return LogModel.of(data, log_start_offset=0, log_end_offset=0).batches[0].last_offset
