"""When two outcomes of one event are the same: Kafka's, and ours.

Kafka goes through hash tables in many places, so lists that mean sets are put in order; a run of records of one kind
about different members may come in any order. What depends on when a process started is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from tailrace.protocol.error_codes import ErrorCode

FREE_RUNS = (1, 5, 7, 8, 16)
"""Records that Kafka writes for each offset, member or pattern in the order of a hash table."""
NO_ERROR = "NONE"


def essence(event: Mapping[str, Any], outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Give what has to be the same."""
    verb = event["op"]
    found: dict[str, Any] = {"records": _records(outcome["records"])}
    answers = [_answer(answer) for answer in outcome["answers"]]
    error = outcome.get("error")
    if verb in ("join", "sync"):
        # Kafka raises some errors and answers others; the client sees the same.
        answers += [(event["reply"], error)] if error else []
    elif verb == "classic-heartbeat":
        found["code"] = error or ErrorCode(outcome["response"]["errorCode"]).name
    elif verb == "leave":
        found["codes"] = [error] if error else _leave_codes(outcome["response"])
    else:
        found |= {key: in_order(outcome[key]) for key in ("response", "error", "message") if key in outcome}
    found["answers"] = sorted(answers, key=repr)
    return found


def in_order(value: Any) -> Any:
    """Sort what Kafka leaves in the order of its hash tables."""
    if isinstance(value, dict):
        return {key: in_order(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return sorted((in_order(item) for item in value), key=repr)
    return value


def _records(records: list[dict[str, Any]]) -> list[Any]:
    described = [(record["type"], in_order(record["key"]), _value(record)) for record in records]
    ordered: list[Any] = []
    for number, run in groupby(described, key=lambda record: record[0]):
        records_of_kind = list(run)
        ordered += sorted(records_of_kind, key=repr) if number in FREE_RUNS else records_of_kind
    return [list(record) for record in ordered]


def _value(record: dict[str, Any]) -> Any:
    value = record["value"]
    if value is None:
        return None
    left_out = {2: ("currentStateTimestamp", "leader"), 16: ("version",)}.get(record["type"], ())
    return in_order({key: item for key, item in value.items() if key not in left_out})


def _answer(answer: dict[str, Any]) -> tuple[str, Any]:
    response = answer["response"]
    code = ErrorCode(response["errorCode"])
    if code:
        return answer["reply"], code.name
    return answer["reply"], in_order({key: item for key, item in response.items() if key != "throttleTimeMs"})


def _leave_codes(response: Any) -> list[str]:
    if isinstance(response, list):
        return [str(code) for code in response]
    return [ErrorCode(member["errorCode"]).name for member in response["members"]]
