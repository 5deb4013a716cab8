"""What senders may have kept of them: names in the order of the log, and a flood under a cap on a process's memory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.enums import ReplicaState
from records.telemetry import GpuSample, ReplicaChanged, RequestSample
from streams.controller import sample_intake
from streams.controller.sample_intake import SampleIntake
from streams.endpoints import gpus, intake, supply
from streams.endpoints.gpus import GpuWindows
from streams.endpoints.intake import PERIOD_S, RecentNames, label_bytes
from streams.endpoints.supply import SupplyState
from streams.windows.columns import SampleColumns
from wire.topics import MEMORY_BYTES

REPOSITORY = Path(__file__).parents[2]
CAP_MB = 2500
"""Of address space: Python with numpy and pyarrow takes a third of it before anything is read."""


@pytest.mark.parametrize(
    ("heard", "admitted"),
    [
        pytest.param("0a 0b 0c 0a", "a b a", id="a third name has no room, the first keeps its own"),
        pytest.param("0a 0b 1c 1a 1b", "a b a b", id="names of the period before keep theirs"),
        pytest.param("0a 0b 1b 2c 2b", "a b b c b", id="a name that was silent for a whole period has lost its own"),
        pytest.param("0a 0b 2c 2d 2a", "a b c d", id="after a silence of all everything begins anew"),
        pytest.param("1a 0b 0c 1b", "a b b", id="a period that goes back counts as the newest"),
    ],
)
def test_names_have_room_by_the_order_in_which_they_come(heard: str, admitted: str) -> None:
    names = RecentNames(2, 100)
    assert [name[1:] for name in heard.split() if names.admit(name[1:], 1, int(name[0]))] == admitted.split()


def test_the_weight_of_names_is_limited_too() -> None:
    names = RecentNames(100, 10)
    assert [names.admit(name, len(name), 0) for name in ("12345", "123456", "1234", "12345")] == [
        True,
        False,
        True,
        True,
    ]
    assert label_bytes("é", None, "", "\x00") == 2 + 6


@st.composite
def samples(draw: st.DrawFn) -> list[RequestSample]:
    """Few names and bounds, over two periods, of two endpoints."""
    made = []
    at_s = 6 * PERIOD_S - 5
    for _ in range(draw(st.integers(1, 40))):
        at_s += draw(st.integers(0, 3))
        bounds = [[1.0], [2.0], [3.0], None][draw(st.integers(0, 3))]
        histogram = None if bounds is None else {"explicit_bounds": bounds, "bucket_counts": [1, 1]}
        made.append(
            msgspec.convert(
                {
                    "endpoint": draw(st.sampled_from(["e", "f"])),
                    "replica": draw(st.sampled_from(["a", "b", "c", "d"])),
                    "at_s": at_s,
                    "received_s": float(at_s),
                    "source": "engine",
                    "ttft_ms": histogram,
                },
                RequestSample,
            )
        )
    return made


def taken(arrived: list[RequestSample], cuts: list[int]) -> tuple[list[int], list[tuple[int, tuple[float, ...]]]]:
    """Which samples are taken, and of which their histograms, where the log is cut into these runs."""
    door = SampleIntake()
    rows: list[int] = []
    histograms: list[tuple[int, tuple[float, ...]]] = []
    for first, end in zip([0, *cuts], [*cuts, len(arrived)], strict=True):
        part = arrived[first:end]
        if part:
            received_s = np.array([sample.at_s for sample in part], np.float64)
            admitted = door.admit(SampleColumns.from_records(part, received_s), np.arange(len(part)))
            rows += (admitted.rows + first).tolist()
            for group in admitted.columns.histograms["ttft_ms"]:
                kept = np.intersect1d(group.rows, admitted.rows)
                histograms += [(int(row) + first, group.bounds) for row in kept]
    return rows, sorted(histograms)


@given(arrived=samples(), data=st.data())
def test_what_is_taken_depends_on_no_cut_and_no_neighbour(arrived: list[RequestSample], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_intake, "SERIES_MAX", 2)
        patch.setattr(sample_intake, "BOUNDS_MAX", 2)
        whole = taken(arrived, [])
        cuts = sorted(data.draw(st.sets(st.integers(1, len(arrived)), max_size=5)))
        assert taken(arrived, cuts) == whole
        own = [place for place, sample in enumerate(arrived) if sample.endpoint == "e"]
        rows, histograms = taken([arrived[place] for place in own], [])
        assert [own[row] for row in rows] == [row for row in whole[0] if row in own]
        assert [(own[row], bounds) for row, bounds in histograms] == [found for found in whole[1] if found[0] in own]


def test_replicas_have_room_for_their_names_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply, "REPLICAS_MAX", 3)
    monkeypatch.setattr(supply, "REPLICA_LABEL_BYTES_MAX", 20)
    state = SupplyState()

    def take(replica: str, epoch: str) -> bool:
        record = ReplicaChanged(replica=replica, epoch=epoch, endpoint="e", at_s=len(epoch), state=ReplicaState.READY)
        has_room = state.has_room(record)
        if has_room:
            state.apply(record)
        return has_room

    assert [take("a", "1"), take("b", "1"), take("c", "1"), take("d", "1")] == [True, True, True, False]
    assert [take("a", "1"), take("a", "x" * 10), take("a", "x" * 9 + "y")] == [True, True, False]
    assert state._label_bytes == sum(map(supply._label_bytes, state.replicas.values())) == 16
    state.forget_gone({}, 10**9)
    state.replicas["a"] = msgspec.structs.replace(state.replicas["a"], state=ReplicaState.GONE)
    state.forget_gone({}, 10**9)
    assert take("d", "1")


def test_gpus_have_room_and_give_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "GPUS_MAX", 2)
    windows = GpuWindows(302)
    second = [0, 0, 0, 100]
    made = [GpuSample(endpoint="e", replica="r", at_s=at_s, gpu=str(number)) for number, at_s in enumerate(second)]
    assert [windows.add(sample) for sample in made] == [True, True, False, False]
    windows.forget(50)
    assert windows.add(made[3])


def flooded(replicas: int, label_chars: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.security.flood", str(replicas), str(CAP_MB), str(label_chars)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(
    ("replicas", "label_chars"),
    [
        (60_000, 240),
        pytest.param(1_000_000, 0, marks=pytest.mark.slow),
        pytest.param(1_000_000, 240, marks=pytest.mark.slow),
    ],
)
def test_a_flood_of_names_fits_under_the_cap(replicas: int, label_chars: int) -> None:
    quiet, told = flooded(0, label_chars), flooded(replicas, label_chars)
    assert told["neighbour"] == quiet["neighbour"]
    assert told["honest"] is quiet["honest"] is True
    assert told["ticks"] == quiet["ticks"]
    assert told["counts"]["too_many_series"] > replicas - intake.SERIES_MAX
    assert told["counts"]["too_many_replicas"] > 0
    assert told["memory_bytes_max"] < MEMORY_BYTES / 2
