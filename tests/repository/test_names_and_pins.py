"""Our rooms are top-level import names; nothing that we install may carry one of them, and pins carry no address."""

import importlib.metadata
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "records",
    "decisions",
    "wire",
    "streams",
    "collectors",
    "sinks",
    "actuators",
    "simulation",
    "headrace",
    "bench",
}

LOCKS = ("requirements.lock", "requirements-runtime.lock")


def test_no_dependency_ships_a_top_level_name_of_ours() -> None:
    owners = importlib.metadata.packages_distributions()
    taken = {room: set(owners[room]) - {"headrace"} for room in ROOMS if room in owners}
    assert {room: names for room, names in taken.items() if names} == {}


def test_every_room_is_packaged() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packaged = set(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    present = {room for room in ROOMS - {"bench"} if (ROOT / room / "__init__.py").exists()}
    assert packaged == present


def pins_of(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+) \\", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_pins_every_package_by_hash_and_names_no_address(name: str) -> None:
    lock = (ROOT / name).read_text()
    assert not re.search(r"https?://|^--(index|extra-index|find-links)", lock, re.MULTILINE)
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    names = re.findall(r"^([a-z0-9][a-z0-9._-]*)\b", lock, re.MULTILINE)
    assert len(pins) > 40
    assert pins == names


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>]", requirement)[0]).lower()


def test_what_runs_is_a_part_of_what_is_tested() -> None:
    all_pins, running = (pins_of(name) for name in LOCKS)
    assert running.items() <= all_pins.items()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = settings["project"]["optional-dependencies"]
    for requirement in (*settings["project"]["dependencies"], *settings["build-system"]["requires"]):
        assert _name(requirement) in running
    for requirement in (*extras["dev"], *extras["engine"]):
        assert _name(requirement) not in running


def test_the_installed_packages_are_those_of_the_lock() -> None:
    pinned = pins_of("requirements.lock")
    installed = {re.sub(r"[-_.]+", "-", d.name).lower(): d.version for d in importlib.metadata.distributions()}
    different = {
        name: (version, installed.get(name)) for name, version in pinned.items() if installed.get(name) != version
    }
    assert different == {}, "the environment is not that of the lock: run `make setup`"


@pytest.mark.parametrize("pattern", [r"/(work|root|home)/\w", r"(?i)--(extra-)?index-url \w", r"PRIVATE KEY-----\n"])
def test_no_committed_file_carries_a_path_of_a_machine_or_a_secret(pattern: str) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{name}: {match.group()}" for match in re.finditer(pattern, text)]
    assert found == []
