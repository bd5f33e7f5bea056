"""Settings of the client from a file, for clusters that want more than an address."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.testing.ports import free_port


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocl=SSL\n", "security.protocl is no setting of a client"),
        ("security.protocol=SECRET\n", "security.protocol=SECRET: expected"),
        ("security.protocol=SSL\nssl.truststore.location=nowhere.pem\n", "ssl.truststore.location=nowhere.pem"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n", "sasl.username=None"),
    ],
)
def test_a_file_that_is_wrong_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    assert main(["topics", "list", "--command-config", str(file)]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("is_named", [False, True])
def test_the_file_says_where_the_cluster_is_unless_the_command_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_named: bool
) -> None:
    first, second = free_port(), free_port()
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=127.0.0.1:{first}\nmax.poll.records=5\n")
    named = ["--bootstrap-server", f"127.0.0.1:{second}"] if is_named else []
    assert main(["topics", "list", "--command-config", str(file), *named]) == 1
    assert f"127.0.0.1:{second if is_named else first}" in capsys.readouterr().err
