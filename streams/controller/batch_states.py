"""The states of a batch's endpoints, found once for batches of the same names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from streams.controller.rebuild import REQUESTS
from streams.endpoints.endpoint_state import EndpointState
from streams.windows.identities import Identities


@dataclass(frozen=True, slots=True, eq=False)
class BatchStates:
    """`states` by the endpoints' places in the batch, null for those without a policy, or of another partition.

    Before this process was born all of them had read telemetry.requests up to the offset `restored_from`, and none
    beyond `restored_to`.
    """

    states: Sequence[EndpointState | None]
    restored_from: int
    restored_to: int
    are_known: bool


class KnownStates:
    """Remembers what `find` says of an endpoint, until `forget`."""

    def __init__(self, find: Callable[[str], EndpointState | None]) -> None:
        self._find = find
        self._known: WeakKeyDictionary[Identities, BatchStates] = WeakKeyDictionary()

    def of(self, identities: Identities) -> BatchStates:
        found = self._known.get(identities)
        if found is None:
            states = [self._find(endpoint) for endpoint in identities.endpoints]
            restored = [0 if state is None else state.restored.get(REQUESTS, 0) for state in states]
            found = BatchStates(states, min(restored, default=0), max(restored, default=0), None not in states)
            self._known[identities] = found
        return found

    def forget(self) -> None:
        """An endpoint came, or went."""
        self._known.clear()
