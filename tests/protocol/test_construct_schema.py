"""The compiled codec and `construct` agree on every message at every version, in both directions."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.protocol.api_keys import find_message_class
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.construct_schema import construct_schema, plain_values
from tests.protocol.messages_strategy import at_version, structs_of
from tests.protocol.vectors import all_type_names, load_vectors


@pytest.mark.parametrize("type_name", all_type_names())
@settings(max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_codec_and_construct_agree(type_name: str, data: st.DataObject) -> None:
    cls = find_message_class(type_name)
    drawn = data.draw(structs_of(cls))
    for version in range(cls.versions.first, cls.versions.last + 1):
        message = at_version(drawn, version)
        body = encode_message(message, version)
        schema = construct_schema(cls, version)
        values = plain_values(message, version)
        assert schema.build(values) == body
        assert schema.parse(body) == values
        decoded = decode_message(cls, version, body)
        assert decoded == message
        assert encode_message(decoded, version) == body


@pytest.mark.parametrize("type_name", all_type_names())
def test_construct_reads_kafkas_bytes(type_name: str) -> None:
    for vector in load_vectors()[type_name][::3]:
        schema = construct_schema(vector.message_class, vector.version)
        message = decode_message(vector.message_class, vector.version, vector.body)
        assert schema.parse(vector.body) == plain_values(message, vector.version)
        assert schema.build(plain_values(message, vector.version)) == vector.body
