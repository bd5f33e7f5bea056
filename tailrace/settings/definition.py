"""How a setting is declared, once: `log_segment_bytes = integer(1 << 30, "What it does.", at_least(1048576), ...)`.

The attribute's name is Kafka's key with underscores. A declaration is a descriptor: read from a configuration object
it parses the text that was given, or takes the default, and leaves the value in the object, so that later reads cost a
plain attribute and a configuration that nobody asks costs nothing to make. Read from the class it is the `Setting`
itself, with all that DescribeConfigs and the documentation say about it.

Where texts come from, and which of them wins, is the business of `BrokerConfig` and `LogConfig`.
"""

from __future__ import annotations

import enum
import re
from typing import Any, ClassVar, Generic, Protocol, TypeGuard, TypeVar, overload

from tailrace.settings.config_error import ConfigError
from tailrace.settings.value_range import ValueRange
from tailrace.settings.value_type import ValueType

T_co = TypeVar("T_co", covariant=True)


class Importance(enum.Enum):
    """How likely it is that an operator wants another value than the default."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(enum.Enum):
    """How a broker's setting may be changed while it runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


HIGH, MEDIUM, LOW = Importance
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode

_UNITS = ("ms", "bytes", "seconds", "secs", "minutes", "hours", "days", "messages", "records")


class Configuration(Protocol):
    """What a setting asks of the object it is read from."""

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that decides this setting, or None where the default does."""
        ...


class Setting(Generic[T_co]):
    """One setting: its key, type, default, range, and what it is for.

    `acts` is False where Tailrace takes the setting, checks it and shows it, so that Kafka's files and tools work, but
    behaves the same whatever its value. `internal` settings are not listed. `synonyms` are, for a topic's setting, the
    broker settings that its default comes from, nearest first.
    """

    __slots__ = (
        "_unit",
        "acts",
        "default",
        "importance",
        "internal",
        "key",
        "name",
        "required",
        "summary",
        "synonyms",
        "update_mode",
        "valid",
        "value_type",
    )

    def __init__(
        self,
        value_type: ValueType,
        default: Any,
        summary: str,
        valid: ValueRange | None = None,
        importance: Importance = MEDIUM,
        update_mode: UpdateMode = READ_ONLY,
        *,
        acts: bool = False,
        internal: bool = False,
        required: bool = False,
        unit: str | None = None,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self.name = ""
        self.key = ""
        self.value_type = value_type
        self.default = default
        self.summary = summary
        self.valid = valid
        self.importance = importance
        self.update_mode = update_mode
        self.acts = acts
        self.internal = internal
        self.required = required
        self._unit = unit
        self.synonyms = synonyms

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.key = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Setting[T_co]: ...

    @overload
    def __get__(self, instance: Configuration, owner: type) -> T_co: ...

    def __get__(self, instance: Configuration | None, owner: type) -> Setting[T_co] | T_co:
        if instance is None:
            return self
        text = instance.text_of(self)
        value: T_co = self.default if text is None else self.parse(text)
        instance.__dict__[self.name] = value
        return value

    @property
    def unit(self) -> str | None:
        """The unit of the value: as declared, else as the key says, else None."""
        if self._unit is not None:
            return self._unit
        found = re.search(rf"\.({'|'.join(_UNITS)})\b", self.key)
        return found[1].replace("secs", "seconds") if found else None

    @property
    def is_sensitive(self) -> bool:
        """Say whether the value is a secret that is never shown."""
        return self.value_type is ValueType.PASSWORD

    @property
    def is_dynamic_only(self) -> bool:
        """Say whether the setting can be given only while the broker runs, in no file."""
        return self.internal and self.update_mode is not READ_ONLY

    @property
    def expected(self) -> str:
        """Say what the setting takes, for an error message."""
        unit = f" ({self.unit})" if self.unit else ""
        return f"{self.value_type.expected}{f', {self.valid}' if self.valid else ''}{unit}"

    def parse(self, text: str, key: str | None = None) -> Any:
        """Turn text into the value, or raise ConfigError with the key (or the one it was given by) and the range."""
        value = self.value_type.parse(text)
        if value is None or (self.valid is not None and not self.valid.admits(value)):
            raise ConfigError(key or self.key, "[hidden]" if self.is_sensitive else text, self.expected)
        return value

    @property
    def default_text(self) -> str | None:
        """Give the default as Kafka writes it; None where there is none."""
        return None if self.default is None else self.value_type.format(self.default)

    def normalize(self, text: str) -> str:
        """Write a given text as Kafka would write the value it stands for."""
        self.parse(text)
        return self.value_type.format(self.value_type.parse(text))

    def __repr__(self) -> str:
        return f"Setting({self.key}, {self.value_type.name}, default={self.default!r})"


class SettingTable:
    """A class whose attributes are settings; `settings` lists all of them, inherited ones included, by key."""

    settings: ClassVar[dict[str, Setting[Any]]] = {}

    def __init_subclass__(cls) -> None:
        own = {key: value for base in reversed(cls.__mro__) for key, value in vars(base).items() if _is_setting(value)}
        cls.settings = {setting.key: setting for setting in own.values()}


def _is_setting(value: object) -> TypeGuard[Setting[Any]]:
    return isinstance(value, Setting)
