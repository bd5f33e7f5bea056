"""Which APIs are served, in which versions: `docs/protocol-coverage.md`, written from what the broker goes by.

Run `python -m tailrace.broker.coverage > docs/protocol-coverage.md` after an API was added (`make docs` does it too); a
test holds the page to the code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tailrace.broker.features import SUPPORTED_FEATURES
from tailrace.broker.served_apis import SERVED_APIS, served_versions
from tailrace.protocol.api_keys import APIS, Api, ApiKey

SERVED = "●"
MISSING = "○"

_INTRODUCTION = f"""# Protocol coverage

Generated from the code; regenerate with `python -m tailrace.broker.coverage > docs/protocol-coverage.md`.

Every API that Apache Kafka 4.1 advertises to clients, by version: {SERVED} is served, {MISSING} is Kafka's only. An API
that is not served is not advertised by ApiVersions: a client library names it as missing, or does without it.
Versions that Kafka 4.1 marks unstable are left out. Produce is advertised from version 0, as Kafka does, because
librdkafka looks there before it compresses; versions 0 to 2 are answered by neither.
"""


def coverage_page() -> str:
    """Give the page."""
    apis = [api for api in APIS.values() if api.is_client_facing and api.advertised.last >= 0]
    version_count = max(api.advertised.last for api in apis) + 1
    served = [api for api in apis if api.key in SERVED_APIS]
    rows = [_row(api, version_count) for api in sorted(apis, key=lambda api: api.key)]
    titles = ("Key", "API", *map(str, range(version_count)))
    features = [(name, str(levels)) for name, levels in SUPPORTED_FEATURES.items()]
    parts = [_INTRODUCTION, f"{len(served)} of {len(apis)} APIs are served.", "", *_table(titles, rows)]
    parts += ["", "## Features", "", *_table(("Feature", "Levels"), features)]
    return "\n".join(parts) + "\n"


def _row(api: Api, version_count: int) -> tuple[str, ...]:
    return (str(int(api.key)), api.name, *(_mark(api, version) for version in range(version_count)))


def _mark(api: Api, version: int) -> str:
    if version not in api.advertised or version not in api.versions:
        return ""
    return SERVED if api.key in SERVED_APIS and version in served_versions(ApiKey(api.key)) else MISSING


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles), *(f"| {' | '.join(row)} |" for row in rows)]


if __name__ == "__main__":
    sys.stdout.write(coverage_page())
