"""UnregisterBroker: v0. Makes the cluster forget a broker that will not come back.

The one broker of the cluster is the one that is asked, and it stays: without it there would be nobody left to serve,
or to ask for it back.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(broker: Broker, request: Request[UnregisterBrokerRequest]) -> Answer:
    """Say that the broker is not registered, or that it can't be spared."""
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker.quotas.record_request(request.connection, request.client_id)
    broker_id = request.body.broker_id
    if broker_id not in broker.metadata.brokers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} serves, and can't be unregistered before it stops.")


def error_response(request: Request[UnregisterBrokerRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return UnregisterBrokerResponse(error_code=code, error_message=message)
