"""What an authorizer denies of the APIs that tell of quotas and credentials; the rest is in tests/compat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import create_delegation_token, describe_client_quotas, describe_user_scram_credentials
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tailrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.broker.parts import Parts, make_parts, stop_parts


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    yield parts
    await stop_parts(parts)


async def test_quotas_need_the_right_to_see_configurations(parts: Parts) -> None:
    body = DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=1, match=None)])
    assert parts.answer(describe_client_quotas, body, 1).entries == []
    parts.authorizer.deny(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    with pytest.raises(ApiError) as error:
        parts.handle(describe_client_quotas, body, 1)
    assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = describe_client_quotas.error_response(parts.request(body, 1), error.value.code, None)
    assert isinstance(answer, DescribeClientQuotasResponse)
    assert answer.entries is None


async def test_credentials_need_the_right_to_see_the_cluster(parts: Parts) -> None:
    body = DescribeUserScramCredentialsRequest(users=None)
    assert parts.answer(describe_user_scram_credentials, body, 0).results == []
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    with pytest.raises(ApiError) as error:
        parts.handle(describe_user_scram_credentials, body, 0)
    assert error.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [1, 3])
async def test_nobody_gets_a_token_and_is_told_whose_it_would_be(parts: Parts, version: int) -> None:
    body = CreateDelegationTokenRequest()
    with pytest.raises(ApiError) as error:
        parts.handle(create_delegation_token, body, version)
    answer = create_delegation_token.error_response(parts.request(body, version), error.value.code, None)
    assert isinstance(answer, CreateDelegationTokenResponse)
    assert (answer.principal_type, answer.principal_name, answer.token_id) == ("User", "ANONYMOUS", "")
    assert answer.token_requester_principal_name == ("ANONYMOUS" if version >= 3 else "")
