"""A client's half of a fetch session: what a broker knows already need not be said again (KIP-227).

Pure. The first fetch of a session names every partition, the next ones only what changed, and what is not wanted any
more. The broker answers only partitions for which there is something to say. When an answer is lost, or the broker has
forgotten the session, the next fetch names everything again and closes the session that was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """What is to be fetched of a partition."""

    topic_id: bytes
    fetch_offset: int
    leader_epoch: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class SessionFetch:
    """What one request says."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    has_ids: bool
    """Whether every topic has an id: else they are named, in version 12 or before."""

    @property
    def is_full(self) -> bool:
        """Whether it names every partition."""
        return self.epoch == FIRST_EPOCH


class FetchSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self.partitions: dict[TopicPartition, Wanted] = {}
        """What the broker knows, once it has answered."""
        self._has_ids = True
        self._names: dict[bytes, str] = {}

    def build(self, wanted: Mapping[TopicPartition, Wanted]) -> SessionFetch:
        """Make the next request, and take it for granted that the broker gets it."""
        has_ids = all(entry.topic_id != ZERO_UUID for entry in wanted.values())
        if has_ids != self._has_ids and self.epoch != FIRST_EPOCH:
            self.epoch = FIRST_EPOCH
        self._has_ids = has_ids
        self._names = {entry.topic_id: key.topic for key, entry in wanted.items()}
        known = {} if self.epoch == FIRST_EPOCH else self.partitions
        changed = {key: entry for key, entry in wanted.items() if known.get(key) != entry}
        forgotten = [
            (key, entry.topic_id)
            for key, entry in known.items()
            if key not in wanted or wanted[key].topic_id != entry.topic_id
        ]
        self.partitions = dict(wanted)
        return SessionFetch(self.session_id, self.epoch, _topics(changed), _forgotten(forgotten), has_ids)

    def topic_of(self, name: str, topic_id: bytes) -> str:
        """Give the name of a topic that an answer names or gives the id of."""
        return name or self._names.get(topic_id, "")

    def answered(self, response: FetchResponse) -> bool:
        """Take an answer; say whether its partitions are worth reading."""
        error = response.error_code
        if error:
            if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = NO_SESSION
            self.epoch = FIRST_EPOCH
            return False
        if response.session_id == NO_SESSION:
            # The broker keeps no session, or has closed this one: everything is said again next time.
            self.session_id, self.epoch = NO_SESSION, FIRST_EPOCH
        else:
            self.session_id = response.session_id
            self.epoch = 1 if self.epoch >= _EPOCH_MAX else self.epoch + 1
        return True

    def failed(self) -> None:
        """Take notice that no answer came: it is not known what the broker knows."""
        self.epoch = FIRST_EPOCH


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], list[FetchPartition]] = defaultdict(list)
    for key, entry in wanted.items():
        topics[key.topic, entry.topic_id].append(
            FetchPartition(
                partition=key.partition,
                current_leader_epoch=entry.leader_epoch,
                fetch_offset=entry.fetch_offset,
                partition_max_bytes=entry.bytes_max,
            )
        )
    return [
        FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]


def _forgotten(partitions: Iterable[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = defaultdict(list)
    for key, topic_id in partitions:
        topics[key.topic, topic_id].append(key.partition)
    return [
        ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
        for (name, topic_id), numbers in topics.items()
    ]
