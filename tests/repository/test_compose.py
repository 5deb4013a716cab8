"""docker-compose.yml, read by a real Docker Compose that is built from its module (no engine is needed for that)."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import platformdirs
import pytest

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "deploy" / "compose-check"


@pytest.fixture(scope="module")
def compose() -> Path:
    """The path of a docker-compose binary, built once for each content of go.mod and go.sum."""
    go = shutil.which("go")
    assert go is not None, "go is not on the PATH; it builds the Docker Compose that reads docker-compose.yml"
    content = (MODULE / "go.mod").read_bytes() + (MODULE / "go.sum").read_bytes()
    cache = Path(os.environ.get("HEADRACE_CACHE") or platformdirs.user_cache_path("headrace"))
    binary = cache / f"docker-compose-{hashlib.sha256(content).hexdigest()[:16]}"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        fresh = binary.with_suffix(f".{os.getpid()}")
        command = [go, "build", "-ldflags", "-s -w", "-o", str(fresh), "github.com/docker/compose/v2/cmd"]
        subprocess.run(command, cwd=MODULE, check=True, env=os.environ | {"CGO_ENABLED": "0"})
        fresh.rename(binary)
    return binary


def read_configuration(compose: Path, file: Path) -> subprocess.CompletedProcess[str]:
    command = [str(compose), "--file", str(file), "config", "--format", "json"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_compose_accepts_the_file_and_sees_the_whole_line(compose: Path) -> None:
    result = read_configuration(compose, ROOT / "docker-compose.yml")
    assert result.returncode == 0, result.stderr
    services = json.loads(result.stdout)["services"]
    assert set(services) == {"kafka", "topics", "policies", "worker", "sink"}
    assert services["worker"]["deploy"]["replicas"] == 2
    for name in ("topics", "policies", "worker", "sink"):
        assert services[name]["environment"]["HEADRACE_BOOTSTRAP"] == "kafka:9092"
        assert (ROOT / services[name]["build"]["dockerfile"]).exists()


@pytest.mark.slow
def test_compose_refuses_a_broken_file(compose: Path, tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text((ROOT / "docker-compose.yml").read_text().replace("depends_on:", "dependson:"))
    result = read_configuration(compose, broken)
    assert result.returncode != 0
    assert "dependson" in result.stderr
