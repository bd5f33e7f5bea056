"""How a message of Kafka's protocol is declared.

A message is a class whose annotations carry its wire types: `acks: Annotated[int, Int16("0+")] = 0`. From that one
declaration come the value itself (a slotted, keyword-only record), the `construct` Struct of each version
(`construct_schema`), the compiled codec (`codec`) and the JSON form (`json_form`). The vocabulary is that of the
message descriptions Kafka publishes: versions a field is in, versions it may be null in, its tag, its default.

Classes are made by a metaclass and not by `dataclasses`: there are more than six hundred of them, and each would cost
half a millisecond of every start. Type checkers see a dataclass; `__init__` is compiled at its first call.

The default of a nested structure is one shared value that refuses to be changed: a fetch response has three of them for
each partition, and nearly always leaves all three out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

T = TypeVar("T")

VERSION_LIMIT = 32767
"""The last version of an open range such as `3+`."""


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when `first` is above `last`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read `3+`, `2-9`, `5` or `none` (also the empty string)."""
        if text in ("", "none"):
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_LIMIT)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.first > self.last:
            return "none"
        if self.last == VERSION_LIMIT:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class WireType:
    """The wire side of one field.

    `versions` says which versions carry the field, `nullable` in which of them it may be null, `tag` and `tagged`
    that it travels as a tagged field, `ignorable` whether a sender may drop a value that the version cannot carry, and
    `flexible` overrides the message's flexible versions (the header's client id stays a plain string for ever).
    """

    __slots__ = ("flexible", "ignorable", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        versions: str = "0+",
        *,
        nullable: str = "",
        tag: int | None = None,
        tagged: str = "",
        ignorable: bool = False,
        flexible: str | None = None,
    ) -> None:
        self.versions = Versions.parse(versions)
        self.nullable = Versions.parse(nullable)
        self.tag = tag
        self.tagged = Versions.parse(tagged)
        self.ignorable = ignorable
        self.flexible = None if flexible is None else Versions.parse(flexible)


class Bool(WireType):
    """One byte, 0 or 1."""


class Int8(WireType):
    """A signed byte."""


class Int16(WireType):
    """Two bytes, big-endian, signed."""


class UInt16(WireType):
    """Two bytes, big-endian, unsigned."""


class Int32(WireType):
    """Four bytes, big-endian, signed."""


class UInt32(WireType):
    """Four bytes, big-endian, unsigned."""


class Int64(WireType):
    """Eight bytes, big-endian, signed."""


class Float64(WireType):
    """An IEEE 754 double, big-endian."""


class Uuid(WireType):
    """Sixteen bytes; the value is `bytes` (see `protocol.uuid` for the text form)."""


class String(WireType):
    """UTF-8 behind an int16 length, or behind an unsigned varint of length + 1 in flexible versions."""


class Bytes(WireType):
    """Bytes behind an int32 length, or behind an unsigned varint of length + 1 in flexible versions."""


class Records(Bytes):
    """Record batches, framed like Bytes. Decoded to a memoryview of the frame: valid as long as the frame is."""


class Nested(WireType):
    """A structure in place; where it may be null, behind one byte: 1, or for null -1, which is 0 in a tagged field."""


class Array(WireType):
    """Elements behind an int32 count, or behind an unsigned varint of count + 1 in flexible versions.

    `of` is the element's wire type where the elements are not structures.
    """

    __slots__ = ("of",)

    def __init__(
        self,
        versions: str = "0+",
        *,
        of: WireType | None = None,
        nullable: str = "",
        tag: int | None = None,
        tagged: str = "",
        ignorable: bool = False,
        flexible: str | None = None,
    ) -> None:
        super().__init__(versions, nullable=nullable, tag=tag, tagged=tagged, ignorable=ignorable, flexible=flexible)
        self.of = of


@dataclass(frozen=True, slots=True)
class _Factory:
    make: Callable[[], object]


def field(*, default_factory: Callable[[], T]) -> T:
    """Give a field a default that is made when it is needed: a list anew for each value, a structure once for all."""
    return cast("T", _Factory(default_factory))


def empty_list() -> list[Any]:
    """Make the default of an array field; `list` itself would leave pyright without an element type."""
    return []


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class _StructMeta(type):
    """Turns annotations with defaults into slots and remembers the defaults."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> _StructMeta:
        annotations = cast("dict[str, str]", namespace.get("__annotations__", {}))
        defaults = {
            key: namespace.pop(key) for key, hint in annotations.items() if not str(hint).startswith("ClassVar")
        }
        namespace["__slots__"] = tuple(defaults)
        namespace.setdefault("field_defaults", defaults)
        namespace["decoders"] = {}
        namespace["encoders"] = {}
        return super().__new__(mcls, name, bases, namespace, **options)


class WireStruct(metaclass=_StructMeta):
    """A structure of the protocol: every field has a default, and is given by keyword.

    Two are equal when their types and all their fields are. Nobody changes one after it was made, except to fill it
    before it is sent. `decoders` and `encoders` are the cache of `codec`: compiled functions by version.
    """

    field_defaults: ClassVar[dict[str, Any]]
    decoders: ClassVar[dict[int, Callable[..., Any]]]
    encoders: ClassVar[dict[int, Callable[..., Any]]]

    def __init__(self, **values: Any) -> None:
        _compile_init(type(self))
        type(self).__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WireStruct) or self.field_defaults is not other.field_defaults:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.field_defaults)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.field_defaults)
        return f"{type(self).__name__}({fields})"


def default_of(cls: type[WireStruct], name: str) -> Any:
    """Give the default of a field: of a list a new one, of a nested structure without lists the one that is shared."""
    default = cls.field_defaults[name]
    if not isinstance(default, _Factory):
        return default
    value: Any = default.make()
    if isinstance(value, WireStruct) and not has_list(value):
        return shared_default(type(value))
    return cast("Any", value)


def has_list(value: Any) -> bool:
    """Say whether a list is in this structure or in one nested in it: such a default must not be shared."""
    if not isinstance(value, WireStruct):
        return isinstance(value, list)
    return any(has_list(getattr(value, name)) for name in value.field_defaults)


_shared_defaults: dict[type[WireStruct], WireStruct] = {}


def shared_default(cls: type[WireStruct]) -> WireStruct:
    """Give the one value of `cls` that has every default and cannot be changed."""
    found = _shared_defaults.get(cls)
    if found is None:
        namespace: dict[str, Any] = {"field_defaults": cls.field_defaults, "__module__": cls.__module__}
        namespace["__reduce__"] = _reduce_to_shared
        frozen = cast("type[WireStruct]", _StructMeta(cls.__name__, (cls,), namespace))
        found = object.__new__(frozen)
        for name in cls.field_defaults:
            setattr(found, name, default_of(cls, name))
        type.__setattr__(frozen, "__setattr__", _refuse_change)
        _shared_defaults[cls] = found
    return found


def _reduce_to_shared(self: WireStruct) -> tuple[Callable[[type[WireStruct]], WireStruct], tuple[type[WireStruct]]]:
    return shared_default, (type(self).__mro__[1],)


def _refuse_change(self: WireStruct, name: str, value: object) -> None:
    raise AttributeError(f"{type(self).__name__}.{name} is in a shared default: make a {type(self).__name__} instead")


def _compile_init(cls: type[WireStruct]) -> None:
    """Give `cls` an `__init__` of its own, as `dataclasses` would have done at import."""
    names: dict[str, Any] = {"_missing": object()}
    parameters: list[str] = []
    body: list[str] = []
    for name, default in cls.field_defaults.items():
        value = default_of(cls, name)
        if isinstance(default, _Factory) and has_list(value):
            names[f"_make_{name}"] = default.make
            parameters.append(f"{name}=_missing")
            body.append(f" self.{name} = _make_{name}() if {name} is _missing else {name}")
        else:
            names[f"_default_{name}"] = value
            parameters.append(f"{name}=_default_{name}")
            body.append(f" self.{name} = {name}")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    exec(f"def __init__({signature}):\n" + "\n".join(body or [" pass"]), names)
    cls.__init__ = names["__init__"]  # type: ignore[method-assign]


class Message(WireStruct):
    """A request, a response or a header: a structure with an API key and a range of versions.

    `unstable` marks a last version that Kafka declares but does not advertise.
    """

    api_key: ClassVar[int | None]
    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]
    unstable: ClassVar[bool]

    def __init_subclass__(
        cls, *, api_key: int | None = None, versions: str, flexible: str, unstable: bool = False
    ) -> None:
        cls.api_key = api_key
        cls.versions = Versions.parse(versions)
        cls.flexible = Versions.parse(flexible)
        cls.unstable = unstable
