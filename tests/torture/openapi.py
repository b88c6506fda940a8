"""`dragoman serve` against its own OpenAPI document: every reply to generated requests is as the document says.

    pip install schemathesis
    python tests/torture/openapi.py MODEL --cases 300

schemathesis may be in an environment of its own: give its program with --schemathesis. `--cases` is per operation.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 404, 413, 422, 429]
"""  # 413 rejects too many entries
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", default="schemathesis")
    options = parser.parse_args()
    command = [sys.executable, "-m", "dragoman", "serve", str(options.model), "--port", "0", "--no-access-log"]
    process = subprocess.Popen([*command, "--device", "cpu"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found is not None
    cases = ["--max-examples", str(options.cases), "--seed", str(options.seed), "--continue-on-failure"]
    run = [options.schemathesis, "run", f"{found[0]}/openapi.json", "--checks", ",".join(CHECKS), *cases]
    try:
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
            code = subprocess.run([*run, "--workers", "2", "--warnings", "off"], cwd=directory).returncode
        assert process.poll() is None, "the server has ended"
        process.terminate()
        assert process.wait(90) == 0
    finally:
        process.kill()
    sys.exit(code)


if __name__ == "__main__":
    main()
