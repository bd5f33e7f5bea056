"""Records that a query was to read and that are gone: it fails, or goes on and says so, as failOnDataLoss has it."""

from __future__ import annotations

import logging

_log = logging.getLogger("tailrace.spark")


class DataLoss(Exception):
    """Some of the records are not there any more: aged out, truncated, or deleted with their topic."""


def report_data_loss(what: str, *, fails: bool) -> None:
    """Raise DataLoss, or log what is missing."""
    message = (
        f"{what}. Some data may have been lost because they are not available in Kafka any more: they were aged out, "
        "or the topic was deleted before all of it was processed."
    )
    if fails:
        raise DataLoss(f"{message} To go on without them, set the source option failOnDataLoss to false.")
    _log.warning("%s", message)
