"""What `headrace replay` opens: devices, pipes, links, torn gzip files, closed standard streams."""

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path
from stat import S_ISFIFO
from threading import Thread

import pytest

from headrace.exit_codes import CannotRunError, ExitCode, code_of_path
from headrace.replay_files import open_input, open_output
from tests.replay.test_replay_command import replay


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "real" / "out.jsonl", tmp_path / "link.jsonl"
    target.parent.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    with open_output(str(link)) as out:
        out.write(b"new")
        assert target.read_text() == "old"
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(tmp_path.rglob("*.part")) == []


def test_a_link_to_nothing_yet_makes_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "out.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(target)
    with open_output(str(link)) as out:
        out.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
def test_a_named_pipe_is_written_in_place(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with open_output(str(pipe)) as out:
        out.write(b"line\n")
    reader.join()
    assert (gzip.decompress(read[0]) if name.endswith(".gz") else read[0]) == b"line\n"
    assert S_ISFIFO(pipe.stat().st_mode)


def test_devices_stay_devices(tmp_path: Path) -> None:
    """Through links, so that a mistake would replace a link of this test and no device."""
    for device in ("null", "full"):
        (tmp_path / device).symlink_to(f"/dev/{device}")
    with open_output(str(tmp_path / "null")) as out:
        out.write(b"x")
    with (
        pytest.raises(CannotRunError, match=r"--out: .*full: No space left") as full,
        open_output(str(tmp_path / "full")) as out,
    ):
        out.write(b"x")
    assert full.value.code is ExitCode.STORAGE
    assert (tmp_path / "null").is_char_device()
    assert (tmp_path / "full").is_char_device()


@pytest.mark.parametrize("place", ["no/out.jsonl", "file/out.jsonl", "folder", "x" * 300])
def test_a_place_that_cannot_be_is_a_wrong_flag(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(CannotRunError, match="--out: ") as wrong, open_output(str(tmp_path / place)):
        pytest.fail("there is no such place")
    assert wrong.value.code is ExitCode.USAGE


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES])
def test_a_disk_that_takes_nothing_wants_somebody_to_look(number: int) -> None:
    assert code_of_path(OSError(number, os.strerror(number))) is ExitCode.STORAGE


@pytest.mark.parametrize("harm", ["cut", "checksum", "deflate", "none"])
@pytest.mark.parametrize("out", ["-", "out.jsonl"])
def test_a_gzip_file_that_is_not_sound_writes_nothing(tmp_path: Path, harm: str, out: str) -> None:
    packed = bytearray(gzip.compress(os.urandom(3_000_000).hex().encode().replace(b"0", b"\n")))
    match harm:
        case "cut":
            packed = packed[:-1000]
        case "checksum":
            packed[-6] ^= 0xFF
        case "deflate":
            packed[len(packed) // 2 : len(packed) // 2 + 64] = b"\xff" * 64
        case _:
            packed = bytearray(b"no gzip")
    telemetry = tmp_path / "telemetry.jsonl.gz"
    telemetry.write_bytes(packed)
    target = out if out == "-" else tmp_path / out
    done = replay("--telemetry", telemetry, "--out", target, "--topics", "deadletters")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"--telemetry: %s: not a sound gzip file (" % bytes(telemetry))
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_lines_of_a_packed_pipe_are_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "telemetry.gz"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(gzip.compress(b"a\nb\n")))
    writer.start()
    with open_input(str(pipe)) as lines:
        assert list(lines) == [b"a\n", b"b\n"]
    writer.join()


@pytest.mark.parametrize(
    ("redirection", "status", "message"),
    [
        ("--telemetry - <&-", 2, "--telemetry: -: standard input is closed\n"),
        ("--telemetry none.jsonl --out - </dev/null >&-", 2, "--telemetry: none.jsonl: No such file or directory\n"),
        ("--telemetry /dev/null --out - >&-", 2, "--out: -: standard output is closed\n"),
        ("--telemetry bad.jsonl --topics deadletters >/dev/full", 5, "--out: -: No space left on device\n"),
    ],
)
def test_a_closed_or_full_standard_stream_is_told(tmp_path: Path, redirection: str, status: int, message: str) -> None:
    (tmp_path / "bad.jsonl").write_text("no record\n")
    command = f"{sys.executable} -m headrace.main replay {redirection}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (status, message)
