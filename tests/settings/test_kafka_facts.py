"""The declarations say what Apache Kafka 4.1 says: every name, type, default, range, importance and update mode.

`golden/settings/kafka-4.1.tsv` is what `KafkaSettings.java` prints; the slow test asks Kafka again.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.definition import Setting
from tailrace.settings.log_config import LogConfig
from tailrace.settings.value_range import Between, BetweenOr, EachOneOf, NotEmpty, OneOf
from tailrace.testing.apache_kafka import classpath, unavailable

GOLDEN = Path(__file__).parent.parent / "golden" / "settings" / "kafka-4.1.tsv"

SPECIAL_RANGES = {
    "controller.quorum.voters": "non-empty list",
    "controller.quorum.bootstrap.servers": "non-empty list",
    "authorizer.class.name": "non-null string",
}


def golden_lines(kind: str) -> list[list[str]]:
    lines = [line.split("\t") for line in GOLDEN.read_text().splitlines()]
    return [line[1:] for line in lines if line[0] == kind]


def kafka_range(setting: Setting[Any]) -> str:
    """Write a range as Kafka's declarations print it."""
    valid = setting.valid
    if setting.key in SPECIAL_RANGES:
        return SPECIAL_RANGES[setting.key]
    if setting.key.endswith("throttled.replicas"):
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    match valid:
        case None:
            return ""
        case BetweenOr():
            return f"[{valid.least},...,{valid.most}] or {valid.special}"
        case Between():
            return f"[{valid.least},...]" if valid.most is None else f"[{valid.least},...,{valid.most}]"
        case OneOf(any_case=True):
            return f"(case insensitive) [{', '.join(valid.words)}]"
        case OneOf() | EachOneOf():
            return f"[{', '.join(valid.words)}]"
        case NotEmpty():
            return "non-empty string"
    raise AssertionError(valid)


def declared(setting: Setting[Any], kind: str) -> list[str]:
    default = "<required>" if setting.required else setting.default_text
    return [
        setting.key,
        setting.value_type.name,
        "<none>" if default is None else default,
        kafka_range(setting),
        setting.importance.name,
        str(setting.internal).lower(),
        setting.update_mode.value if kind == "broker" else "",
    ]


def test_every_broker_setting_is_declared_as_kafka_declares_it() -> None:
    ours = [
        declared(setting, "broker")
        for setting in BrokerConfig.settings.values()
        if not setting.key.startswith("tailrace.") and not setting.is_dynamic_only
    ]
    assert sorted(ours) == sorted(golden_lines("broker"))


def test_every_topic_setting_is_declared_as_kafka_declares_it() -> None:
    ours = [declared(setting, "topic") for setting in LogConfig.settings.values()]
    assert sorted(ours) == sorted(golden_lines("topic"))


def test_topic_settings_have_kafkas_broker_synonyms() -> None:
    ours = [[setting.key, ",".join(setting.synonyms)] for setting in LogConfig.settings.values() if setting.synonyms]
    assert sorted(ours) == sorted(golden_lines("synonyms"))


@pytest.mark.parametrize("table", [BrokerConfig, LogConfig])
def test_every_setting_says_in_a_sentence_what_it_is_for(table: type[BrokerConfig | LogConfig]) -> None:
    for setting in table.settings.values():
        assert re.fullmatch(r"[A-Z].{10,}\.", setting.summary), setting.key


def test_a_default_has_the_type_and_the_range_of_its_setting() -> None:
    for setting in (*BrokerConfig.settings.values(), *LogConfig.settings.values()):
        if setting.default_text is not None:
            assert setting.parse(setting.default_text) == setting.default


@pytest.mark.slow
def test_the_golden_table_is_what_kafka_says() -> None:
    if reason := unavailable():
        pytest.skip(f"can't ask Apache Kafka: {reason}")
    source = Path(__file__).with_name("KafkaSettings.java")
    command = ["java", "-cp", classpath(), str(source)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert sorted(printed.splitlines()) == GOLDEN.read_text().splitlines()
