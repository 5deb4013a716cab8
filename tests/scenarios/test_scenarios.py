"""Every scene decides what is expected of it, from the file that lies beside this one."""

import gzip

import msgspec
import pytest

from tests.scenarios.replayed import decisions_of, runs_of
from tests.scenarios.scene import FOLDER
from tests.scenarios.write import SCENES


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_decided_rightly(name: str) -> None:
    expected = msgspec.json.decode((FOLDER / f"{name}.json").read_bytes())
    assert runs_of(decisions_of(name)) == expected


@pytest.mark.parametrize("name", SCENES)
def test_a_file_holds_what_its_scene_says(name: str) -> None:
    assert gzip.decompress((FOLDER / f"{name}.jsonl.gz").read_bytes()).splitlines() == SCENES[name]().lines()


def test_no_file_is_without_its_scene() -> None:
    for suffix in (".jsonl.gz", ".yaml", ".json"):
        assert {path.name.removesuffix(suffix) for path in FOLDER.glob(f"*{suffix}")} == set(SCENES)
