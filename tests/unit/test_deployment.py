"""The container file and the Kubernetes example agree with the server: options, paths, port, user and times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dragoman.cli.commands.serve import command
from dragoman.serve.http.access import OPEN_PATHS
from dragoman.serve.limits import Limits
from dragoman.serve.server import SHUTDOWN_SECONDS

ROOT = Path(__file__).parents[2]
CONTAINER = (ROOT / "packaging" / "Containerfile").read_text(encoding="utf-8")
MANIFESTS = list(YAML(typ="safe").load_all((ROOT / "examples" / "kubernetes.yaml").read_text(encoding="utf-8")))
DEPLOYMENT = next(one for one in MANIFESTS if one["kind"] == "Deployment")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(SERVER,) = POD["containers"]


def parse(arguments: list[str]) -> dict[str, Any]:
    """The options of `dragoman serve` with these arguments; an unknown one is an error."""
    return command.make_context("serve", list(arguments)).params


def instruction(name: str) -> str:
    (found,) = re.findall(rf"^{name} (.+)$", CONTAINER, re.MULTILINE)
    return str(found)


def entrypoint() -> list[str]:
    program, verb, *arguments = json.loads(instruction("ENTRYPOINT"))
    assert (program, verb) == ("dragoman", "serve")
    return arguments


def test_the_image_starts_the_server_on_the_port_it_exposes_and_checks() -> None:
    options = parse(entrypoint())
    assert (options["host"], options["port"]) == ("0.0.0.0", int(instruction("EXPOSE")))
    found = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", CONTAINER)
    assert found is not None
    assert int(found[1]) == options["port"]
    assert found[2] in OPEN_PATHS  # the check sends no token
    assert int(instruction("USER")) > 0


def test_the_image_copies_what_exists() -> None:
    sources = [path for line in re.findall(r"^COPY (.+)$", CONTAINER, re.MULTILINE) for path in line.split()[:-1]]
    assert sources
    assert all((ROOT / path).exists() for path in sources)


def test_the_pod_runs_the_image_with_options_that_exist_within_its_limits() -> None:
    options = parse([*entrypoint(), *SERVER["args"]])
    (port,) = SERVER["ports"]
    assert port["containerPort"] == options["port"]
    limits = SERVER["resources"]["limits"]
    assert options["workers"] * options["threads"] == int(limits["cpu"])
    assert POD["securityContext"]["runAsUser"] == int(instruction("USER"))
    models = dict(part.split("=") for part in instruction("ENV").split())["DRAGOMAN_MODELS"]
    assert models == instruction("VOLUME")
    assert models in [mount["mountPath"] for mount in SERVER["volumeMounts"]]
    assert {mount["name"] for mount in SERVER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}


@pytest.mark.parametrize(
    ("probe", "path"), [("startupProbe", "/ready"), ("readinessProbe", "/ready"), ("livenessProbe", "/health")]
)
def test_probes_ask_paths_that_need_no_token(probe: str, path: str) -> None:
    assert SERVER[probe]["httpGet"] == {"path": path, "port": SERVER["ports"][0]["name"]}
    assert path in OPEN_PATHS


def test_a_pod_has_time_to_answer_what_it_has_accepted() -> None:
    options = parse(SERVER["args"])
    assert options["timeout"] == Limits().timeout
    (_, pause) = SERVER["lifecycle"]["preStop"]["exec"]["command"]
    assert POD["terminationGracePeriodSeconds"] > int(pause) + options["timeout"] + SHUTDOWN_SECONDS


def test_service_budget_and_autoscaler_select_the_deployment() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    others = {one["kind"]: one["spec"] for one in MANIFESTS if one["kind"] != "Deployment"}
    assert others["Service"]["selector"] == labels
    assert others["Service"]["ports"][0]["targetPort"] == SERVER["ports"][0]["name"]
    assert others["PodDisruptionBudget"]["selector"]["matchLabels"] == labels
    target = others["HorizontalPodAutoscaler"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", DEPLOYMENT["metadata"]["name"])
