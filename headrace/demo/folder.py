"""The new folder that each run of a demonstration has to itself."""

from pathlib import Path

import platformdirs

from headrace.exit_codes import CannotRunError, code_of_path


def new_folder(wanted: Path | None, started: str) -> Path:
    """`wanted`, or a folder named after the time; made where it is missing. Raises CannotRunError."""
    folder = wanted or Path(platformdirs.user_data_dir("headrace"), "demo", started)
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CannotRunError(f"--data: {folder}, allowed: a new or an empty folder")
    except OSError as error:
        raise CannotRunError(f"--data: {folder}: {error.strerror}", code_of_path(error)) from error
    return folder
