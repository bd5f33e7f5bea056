"""With which sequence number a producer may begin in a partition."""

from __future__ import annotations

import pytest

from tailrace.broker.transactions.first_sequences import KEPT_MAX, FirstSequences
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition

PLACE = TopicPartition("t", 0)
PRODUCER = ProducerIdAndEpoch(7, 0)


def may_begin(sequences: FirstSequences, sequence: int, *, is_known_to_log: bool = False) -> bool:
    try:
        sequences.check(PLACE, PRODUCER.producer_id, sequence, is_known_to_log=is_known_to_log)
    except ApiError as error:
        if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise
        return False
    return True


def test_the_lowest_number_that_was_tried_begins() -> None:
    sequences = FirstSequences()
    for sequence in (5, 3, 8):
        sequences.tried(PLACE, PRODUCER, sequence, must_be_zero=False)
    assert [may_begin(sequences, sequence) for sequence in (8, 5, 3)] == [False, False, True]
    sequences.appended(PLACE, PRODUCER.producer_id)
    assert may_begin(sequences, 8)
    assert len(sequences) == 0


@pytest.mark.parametrize(("is_known", "begins"), [(False, False), (True, True)])
def test_a_producer_of_transactions_v2_begins_with_0_where_it_is_unknown(is_known: bool, begins: bool) -> None:
    sequences = FirstSequences()
    sequences.tried(PLACE, PRODUCER, 5, must_be_zero=True)
    assert may_begin(sequences, 5, is_known_to_log=is_known) is begins
    assert may_begin(sequences, 0, is_known_to_log=is_known)


def test_a_later_epoch_begins_anew_and_an_earlier_one_changes_nothing() -> None:
    sequences = FirstSequences()
    sequences.tried(PLACE, ProducerIdAndEpoch(7, 1), 4, must_be_zero=False)
    sequences.tried(PLACE, ProducerIdAndEpoch(7, 0), 1, must_be_zero=False)
    assert may_begin(sequences, 4)
    sequences.tried(PLACE, ProducerIdAndEpoch(7, 2), 9, must_be_zero=False)
    assert may_begin(sequences, 9)


def test_what_never_came_to_an_append_is_bounded() -> None:
    sequences = FirstSequences()
    for number in range(KEPT_MAX + 5):
        sequences.tried(TopicPartition("t", number), PRODUCER, 0, must_be_zero=False)
    assert len(sequences) == KEPT_MAX
