"""Performs events, one a line, on a producer state manager: for transcripts, and for comparing with Apache Kafka.

`kafka/ProducerStateOracle.java` does the same with Kafka's own classes and has to give the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tailrace.protocol.errors import ApiError
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import Disk
from tailrace.storage.producer_state import SEQUENCE_MAX, ProducerAppendInfo
from tailrace.storage.producer_state_manager import ProducerStateManager


def perform(events: Iterable[str], root: Path) -> Iterator[list[str]]:
    """Give the lines that answer each event: the answer, and the state after it."""
    script: ProducerStateScript | None = None
    for run, event in enumerate(events):
        word, *fields = event.split()
        if word == "begin":
            script = ProducerStateScript(root / f"run-{run}", int(fields[0]))
            yield ["begun"]
            continue
        assert script is not None, "a transcript begins with: begin <producer.id.expiration.ms>"
        values = dict(field.split("=", 1) for field in fields)
        try:
            answer = script.perform(word, values)
        except ApiError as error:
            answer = f"error {error.code.name}"
        yield [answer, script.state()]


class ProducerStateScript:
    def __init__(self, directory: Path, expiration_ms: int) -> None:
        directory.mkdir(parents=True)
        self.manager = ProducerStateManager(
            Disk(), directory, log_name="log-0", producer_id_expiration_ms=expiration_ms
        )
        self.log_end = 0

    def perform(self, event: str, values: dict[str, str]) -> str:
        if event in ("batch", "marker"):
            return self._append(event, values)
        numbers = {key: int(value) for key, value in values.items()}
        if event == "high-watermark":
            self.manager.high_watermark_moved(numbers["offset"])
        elif event == "log-start":
            self.manager.log_start_offset_moved(numbers["offset"])
        elif event == "expire":
            self.manager.remove_expired_producers(numbers["now"])
        elif event == "snapshot":
            self.manager.take_snapshot(sync=False)
        elif event == "reload":
            self.manager.truncate_and_reload(
                log_start_offset=numbers["start"], log_end_offset=numbers["end"], now_ms=numbers["now"]
            )
            self.log_end = self.manager.map_end_offset
        elif event == "start-anew":
            self.manager.truncate_fully_and_start_at(numbers["offset"])
            self.log_end = numbers["offset"]
        else:
            raise AssertionError(f"no such event: {event}")
        return "done"

    def _append(self, event: str, values: dict[str, str]) -> str:
        origin = AppendOrigin[values["origin"].upper()]
        first, last = self.log_end, self.log_end
        if event == "batch":
            last += int(values["count"]) - 1
            last_sequence = (int(values["sequence"]) + last - first) & SEQUENCE_MAX
            if origin is AppendOrigin.CLIENT and (found := self._find_duplicate(values, last_sequence)):
                return found
        info = self.manager.prepare_update(int(values["producer"]), origin)
        if event == "batch":
            info.append_data_batch(
                epoch=int(values["epoch"]),
                first_sequence=int(values["sequence"]),
                last_sequence=last_sequence,
                first_offset=first,
                last_offset=last,
                last_timestamp=int(values["time"]),
                is_transactional=values["transactional"] == "yes",
            )
            self.manager.update(info)
            ended = ""
        else:
            ended = self._end_transaction(info, first, values)
        self.manager.map_end_offset = last + 1
        self.log_end = last + 1
        return f"appended {first}..{last}{ended}"

    def _find_duplicate(self, values: dict[str, str], last_sequence: int) -> str | None:
        found = self.manager.find_duplicate(
            producer_id=int(values["producer"]),
            epoch=int(values["epoch"]),
            first_sequence=int(values["sequence"]),
            last_sequence=last_sequence,
        )
        return f"duplicate {found.first_offset}..{found.last_offset}" if found else None

    def _end_transaction(self, info: ProducerAppendInfo, offset: int, values: dict[str, str]) -> str:
        completed = info.append_end_marker(
            epoch=int(values["epoch"]),
            coordinator_epoch=int(values["coordinator"]),
            is_aborted=values["type"] == "abort",
            offset=offset,
            timestamp=int(values["time"]),
        )
        self.manager.update(info)
        if completed is None:
            return ""
        stable = self.manager.last_stable_offset(completed)
        self.manager.complete_transaction(completed)
        how = "aborted" if completed.is_aborted else "committed"
        return f" ends {completed.first_offset}..{completed.last_offset} {how} stable {stable}"

    def state(self) -> str:
        manager = self.manager
        producers: list[str] = []
        for producer_id, entry in sorted(manager.active_producers.items()):
            batches = ",".join(
                f"{batch.first_sequence}..{batch.last_sequence}@{batch.first_offset}..{batch.last_offset}"
                for batch in entry.batches
            )
            producers.append(
                f"{producer_id} epoch {entry.producer_epoch} coordinator {entry.coordinator_epoch} "
                f"time {entry.last_timestamp} transaction {_text(entry.current_transaction_first_offset)} [{batches}]"
            )
        snapshots = manager.snapshot_offsets
        oldest = snapshots[0] if snapshots else None
        return (
            f"  end {manager.map_end_offset} undecided {_text(manager.first_undecided_offset)} "
            f"unstable {_text(manager.first_unstable_offset)} "
            f"snapshots {_text(oldest)}..{_text(manager.latest_snapshot_offset)} | {'; '.join(producers) or 'nobody'}"
        )


def _text(value: int | None) -> str:
    return "-" if value is None else str(value)
