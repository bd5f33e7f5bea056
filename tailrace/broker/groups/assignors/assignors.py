"""The assignors by the names that `group.consumer.assignors` and members use."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tailrace.broker.groups.assignors.group_spec import Assignor
from tailrace.broker.groups.assignors.range_assignor import assign_ranges
from tailrace.broker.groups.assignors.uniform_assignor import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
