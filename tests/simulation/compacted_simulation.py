"""The same random life for a compacted log, which is cleaned now and then, and killed or failed while it is.

What has to hold on top: cleaning changes no table made of the committed records, what is left was there before, record
by record, and nothing at or above the last stable offset is touched.
"""

from __future__ import annotations

from pathlib import Path

from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.reader import read_batch
from tailrace.settings.log_config import LogConfig
from tailrace.storage.disk import DiskError
from tailrace.storage.offset_map import BYTES_PER_ENTRY
from tailrace.testing.faulty_disk import ProcessKilled
from tests.simulation.log_model import Aborted, LogModel, ModelBatch
from tests.simulation.log_simulation import FAILING, LogSimulation
from tests.storage.compaction_workshop import clean, committed, latest

KEYS = 40
CLEANED_SHARE = 0.01
Known = tuple[int, int, bytes | None, bytes | None]


class CompactedSimulation(LogSimulation):
    """A log whose topic has cleanup.policy=compact."""

    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, seed)
        retention_ms = self.chance.choice((0, 100, 10_000))
        overrides = {**self.config.overrides, "cleanup.policy": "compact", "delete.retention.ms": str(retention_ms)}
        self.config = LogConfig(overrides)
        self.log.config = self.config
        self.clean_until: int | None = None

    def key(self) -> bytes | None:
        return b"key-%d" % self.chance.randrange(KEYS)

    def value(self) -> bytes | None:
        return None if self.chance.random() < 0.15 else super().value()

    def step(self) -> None:
        if self.chance.random() < CLEANED_SHARE:
            self.counts["compact"] = self.counts.get("compact", 0) + 1
            self.do_compact()
        super().step()

    def do_compact(self) -> None:
        self.clean_until = self.clean_log()
        self.take_over()

    def clean_log(self) -> int:
        log, table = self.log, latest(committed(self.log))
        known = self.clean_until
        if known is not None and not log.log_start_offset <= known <= log.log_end_offset:
            known = None
        memory = self.chance.choice((8, 20, 1000)) * BYTES_PER_ENTRY
        end = clean(log, checkpoint=known, change_plan=lambda plan: setattr(plan.limits, "map_bytes", memory))
        assert end <= max(log.last_stable_offset, known or log.log_start_offset)
        assert latest(committed(log)) == table
        return end

    def take_over(self) -> None:
        """Let the model go on from what the log holds now, after seeing that nothing in it is new."""
        log, model = self.log, self.model
        old = {batch.base_offset: batch for batch in model.batches}
        first = log.segments[0].base_offset
        data = b"".join(bytes(segment.view[: segment.size]) for segment in log.segments)
        left = LogModel.of(data, log_start_offset=0, log_end_offset=0).batches
        untouched = [batch.data for batch in model.batches if batch.base_offset >= log.last_stable_offset]
        assert [batch.data for batch in left if batch.base_offset >= log.last_stable_offset] == untouched
        for batch in left:
            before = old[batch.base_offset]
            assert contents(batch) <= contents(before)
            assert identity(batch) == identity(before)
        model.batches = [batch for batch in model.batches if batch.last_offset < first] + left
        self.settle()

    def before_truncation(self, log: object, offset: int) -> None:
        super().before_truncation(log, offset)
        if self.clean_until is not None:
            self.clean_until = min(self.clean_until, offset)  # As the checkpoint of what is clean is lowered.

    def reload(self, *, was_clean_stop: bool = False, log_start_offset: int | None = None) -> None:
        """Start again. What a loss of power gives back of the deleted was perhaps never cleaned.

        Neither Kafka nor we look for that: the names would have to be unsynced for longer than delete.retention.ms.
        """
        start = self.model.log_start_offset
        super().reload(was_clean_stop=was_clean_stop, log_start_offset=log_start_offset)
        if self.log.log_start_offset < start:
            self.clean_until = None

    def begin_again(self) -> None:
        self.clean_until = None
        super().begin_again()

    # ------------------------------------------------------------------ disturbed

    def disturbed(self, disturb: object) -> None:
        if self.chance.random() < 0.5:
            super().disturbed(disturb)
        else:
            self.disturbed_cleaning()

    def disturbed_cleaning(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)  # As the start afterwards does.
        table, start, stable = latest(committed(self.log)), self.model.log_start_offset, self.log.last_stable_offset
        calls = self.chance.randrange(400)
        if self.chance.random() < 0.5:
            self.disk.kill_after(calls)
        else:
            self.disk.fail(self.chance.choice((*FAILING, "read")), nth=calls // 10 + 1)
        try:
            self.clean_until = self.clean_log()
        except (ProcessKilled, DiskError):
            pass  # What was disturbed is told by what is there afterwards.
        except ApiError:
            assert self.log.is_offline
        self.disk.heal()
        self.reload(log_start_offset=max(start, self.checkpointed_log_start()))
        # A start may forget a transaction that was open since below the log start offset: then more is stable.
        assert self.log.last_stable_offset != stable or latest(committed(self.log)) == table
        self.take_over()
        self.check_all()

    # ------------------------------------------------------------------ comparing

    def settle(self) -> None:
        super().settle()
        last, known = self.model.last_batches(), self.log.producer_state.active_producers
        # Of a batch that lost records nobody has the bytes any more to send them again. And where the end was cut, the
        # last batch that is left may have gone earlier, when it was not the last: a snapshot knows of it still.
        self.last_sent = {
            producer: sent
            for producer, sent in self.last_sent.items()
            if is_as_sent(last[producer]) and not (producer in known and known[producer].last_offset > sent[2])
        }

    def check_aborted(self, offset: int, upper: int) -> None:
        """Of an aborted transaction without records the index may know or not."""
        start = self.model.log_start_offset
        found = {one[:3] for one in self.log.collect_aborted_transactions(offset, upper)}
        by_end = {(producer, end) for producer, _, end in found}
        for aborted in self.model.aborted_between(offset, upper):
            if aborted.first_offset >= start and self.has_records(aborted, upper):
                assert (aborted.producer_id, aborted.last_offset) in by_end

    def has_records(self, aborted: Aborted, upper: int) -> bool:
        for slot in range(self.model.slot(aborted.first_offset), self.model.slot(aborted.last_offset)):
            header = self.model.batches[slot].header
            if header.producer_id == aborted.producer_id and header.records_count and header.base_offset < upper:
                return True
        return False

    def check_undecided(self, first_offset: int | None) -> None:
        """Where a marker was cut off, the records before it may be gone already: then only the log knows of them."""
        found = self.log.producer_state.first_undecided_offset
        assert first_offset is None or (found is not None and found <= first_offset)

    def check_epochs(self) -> None:
        """An epoch whose records are gone may be known still. As in every log, the first ones may have been lost."""
        known = self.log.leader_epochs.entries
        found = {entry.epoch: entry.start_offset for entry in known[1:]}
        wanted = self.model.epochs()
        assert not wanted or wanted[-1][0] in {entry.epoch for entry in known}
        for epoch, start in wanted:
            assert epoch not in found or found[epoch] <= start


def contents(batch: ModelBatch) -> set[Known]:
    return {(one.offset, one.timestamp, one.key, one.value) for one in read_batch(batch.data, 0, batch.header)}


def identity(batch: ModelBatch) -> tuple[int, ...]:
    header = batch.header
    return (
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.partition_leader_epoch,
        header.attributes & 0x38,
    )


def is_as_sent(batch: ModelBatch) -> bool:
    header = batch.header
    return header.records_count == header.last_offset_delta + 1 and not header.has_delete_horizon
