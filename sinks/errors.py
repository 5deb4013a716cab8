"""What ends a sink: the place where tables live, or the topics they are filled from. Bugs of ours are neither."""


class StorageError(Exception):
    """Tables cannot be written or read: a full disk, a folder that is missing or not ours to write, a foreign schema.

    `message` is for an operator. Nothing that was read is lost: a sink that starts again goes on where the tables'
    logs end.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SourceError(Exception):
    """Topics are missing, or hold less than the tables have of them. `message` is for an operator."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StuckError(Exception):
    """There are records to read and none was read for too long; a new process may do better."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
