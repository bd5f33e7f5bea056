"""Messages to bytes and back.

For each message and version a decoder and an encoder are generated from the declaration at first use (`codec_decoder`,
`codec_encoder`) and kept on the class. What decodes is complete and exact: bytes that are left over, missing or
impossible are MalformedFrame. Records and nothing else stay a memoryview of what was given.

Which version to use, and the header in front, are left to `api_keys` and `frame`.
"""

from __future__ import annotations

from typing import TypeVar, cast

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec_decoder import Decoder, compile_decoder
from tailrace.protocol.codec_encoder import Encoder, compile_encoder
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.field_plan import plan_message
from tailrace.protocol.schema import Message

M = TypeVar("M", bound=Message)


def decode_message(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> M:
    """Read a message that reaches from `position` to the end of the buffer; MalformedFrame if it does not."""
    decode = cls.decoders.get(version) or decoder_of(cls, version)
    message, end = decode(buffer if type(buffer) is memoryview else memoryview(buffer), position)
    if end != len(buffer):
        raise MalformedFrame(f"{cls.__name__} v{version}: {len(buffer) - end} bytes are left over")
    return cast("M", message)


def decode_prefix(cls: type[M], version: int, buffer: Buffer, position: int = 0) -> tuple[M, int]:
    """Read a message that more may follow, as a header; give it and the position behind it."""
    decode = cls.decoders.get(version) or decoder_of(cls, version)
    message, end = decode(buffer if type(buffer) is memoryview else memoryview(buffer), position)
    return cast("M", message), end


def encode_message(message: Message, version: int) -> bytes:
    """Write a message whole; UnwritableMessage if the version cannot carry it."""
    encode = message.encoders.get(version) or encoder_of(type(message), version)
    return bytes(encode(message, bytearray(), None))


def encode_chunks(message: Message, version: int, out: bytearray | None = None) -> list[Buffer]:
    """Write a message as chunks: the same bytes, but large record batches are not copied.

    The first chunk continues `out` where it is given, so that a frame's size and header can stand in front.
    """
    encode = message.encoders.get(version) or encoder_of(type(message), version)
    chunks: list[Buffer] = []
    last = encode(message, bytearray() if out is None else out, chunks)
    if last or not chunks:
        chunks.append(last)
    return chunks


def decoder_of(cls: type[Message], version: int) -> Decoder:
    """Give the compiled decoder, or raise ValueError for a version that the message does not have."""
    decode = cls.decoders.get(version)
    if decode is None:
        decode = cls.decoders[version] = compile_decoder(plan_message(cls, version))
    return decode


def encoder_of(cls: type[Message], version: int) -> Encoder:
    """Give the compiled encoder, or raise ValueError for a version that the message does not have."""
    encode = cls.encoders.get(version)
    if encode is None:
        encode = cls.encoders[version] = compile_encoder(plan_message(cls, version))
    return encode
