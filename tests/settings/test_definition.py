"""How text becomes a value and a value becomes text."""

from __future__ import annotations

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.declare import boolean, double, integer, password, word_list
from tailrace.settings.definition import Setting, SettingTable
from tailrace.settings.value_range import at_least, between
from tailrace.settings.value_type import ValueType


class Example(SettingTable):
    segment_bytes = integer(4096, "Size of a segment.", at_least(14))
    ratio = double(0.5, "A ratio.", between(0, 1))
    names = word_list((), "Names.")
    enable = boolean(True, "A switch.")
    key_password = password(None, "A secret.")
    retention_secs = integer(None, "Has no default.")


def test_the_key_and_the_unit_come_from_the_attribute() -> None:
    setting: Setting[int] = Example.segment_bytes
    assert (setting.key, setting.unit) == ("segment.bytes", "bytes")
    assert Example.retention_secs.unit == "seconds"
    assert Example.ratio.unit is None


def test_a_table_lists_its_settings_by_key() -> None:
    assert list(Example.settings) == ["segment.bytes", "ratio", "names", "enable", "key.password", "retention.secs"]


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (ValueType.INT, " 12 ", 12),
        (ValueType.INT, "+12", 12),
        (ValueType.INT, "-2147483648", -(2**31)),
        (ValueType.INT, "2147483648", None),
        (ValueType.INT, "1_000", None),
        (ValueType.INT, "1.0", None),
        (ValueType.INT, "", None),
        (ValueType.INT, "\u0661", None),
        (ValueType.INT, "0" * 1_000_000, None),
        (ValueType.SHORT, "32768", None),
        (ValueType.LONG, "9223372036854775807", 2**63 - 1),
        (ValueType.LONG, "9223372036854775808", None),
        (ValueType.BOOLEAN, "TRUE", True),
        (ValueType.BOOLEAN, " false", False),
        (ValueType.BOOLEAN, "1", None),
        (ValueType.DOUBLE, "0.5f", 0.5),
        (ValueType.DOUBLE, ".5", 0.5),
        (ValueType.DOUBLE, "1e3", 1000.0),
        (ValueType.DOUBLE, "five", None),
        (ValueType.DOUBLE, "Infinity", float("inf")),
        (ValueType.LIST, "a , b,c", ("a", "b", "c")),
        (ValueType.LIST, "", ()),
        (ValueType.LIST, "a,", ("a", "")),
        (ValueType.STRING, " text ", "text"),
    ],
)
def test_text_becomes_a_value_as_java_reads_it(value_type: ValueType, text: str, value: object) -> None:
    assert value_type.parse(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (123456789.125, "1.23456789125E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert ValueType.DOUBLE.format(value) == text


def test_an_error_says_key_value_and_what_would_be_right() -> None:
    with pytest.raises(ConfigError) as raised:
        Example.segment_bytes.parse("13")
    assert str(raised.value) == "segment.bytes=13: expected an integer of 32 bits, at least 14 (bytes)"
    assert (raised.value.key, raised.value.value) == ("segment.bytes", "13")


def test_not_a_number_is_in_no_range() -> None:
    with pytest.raises(ConfigError, match="ratio=NaN"):
        Example.ratio.parse("NaN")


def test_a_secret_is_not_in_the_error() -> None:
    secret: Setting[str] = Setting(ValueType.PASSWORD, None, "A secret.", at_least(1))
    secret.key = "ssl.key.password"
    secret.valid = BrokerConfig.settings["compression.type"].valid
    with pytest.raises(ConfigError) as raised:
        secret.parse("hunter2")
    assert "hunter2" not in str(raised.value)


def test_a_given_text_is_written_as_kafka_writes_its_value() -> None:
    assert Example.names.normalize(" b , a ") == "b,a"
    assert Example.enable.normalize("TRUE") == "true"
    assert Example.segment_bytes.normalize("+4096") == "4096"
