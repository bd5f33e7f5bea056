"""Times, durations and scopes as people write them."""

from __future__ import annotations

import click
import pytest

from tailrace.cli.offset_targets import TopicScope, duration_ms, timestamp_ms, topic_scope


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("P1D", 86_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt90m", 5_400_000),
        ("-PT1S", -1000),
        ("PT0.0019S", 1),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1Y", "PT1.S", "P1M"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="no duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-14T22:13:20.500",
        "2023-11-14T22:13:20.500Z",
        "2023-11-14T23:13:20.500+01:00",
        "2023-11-14T23:13:20.500+0100",
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str) -> None:
    assert timestamp_ms(text) == 1_700_000_000_500


def test_scopes_are_read() -> None:
    assert topic_scope("t") == TopicScope("t")
    assert topic_scope("t:2,0,2") == TopicScope("t", (2, 0))
    for text in ("t:", "t:a", "t:-1", ":1", "t:1,", "t:4294967296"):
        with pytest.raises(click.BadParameter):
            topic_scope(text)
