"""The files in config/ that other programs read: they ask for what a broker has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.testing.broker_process import BrokerProcess

CONFIG = Path(__file__).parent.parent.parent / "config"


def metrics_of_the_dashboard() -> set[str]:
    dashboard = json.loads((CONFIG / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [variable["query"] for variable in dashboard["templating"]["list"]]
    return {name for text in expressions for name in re.findall(r"\b(?:kafka|tailrace|process)_\w+", text)}


def test_prometheus_scrapes_the_port_that_is_the_default() -> None:
    config = BrokerConfig()
    target = f"{config.tailrace_metrics_host}:{config.tailrace_metrics_port}"
    assert f'targets: ["{target}"]' in (CONFIG / "prometheus.yml").read_text()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((CONFIG / "grafana-dashboard.json").read_text())["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.slow
def test_every_metric_of_the_dashboard_exists(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, urlopen(broker.metrics_url, timeout=10) as answer:
        names = set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE))
    sampled = names | {f"{name}_bucket" for name in names}
    assert metrics_of_the_dashboard() - sampled == set()
