"""The states of a batch's endpoints, found once for batches of the same names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from weakref import WeakKeyDictionary

from streams.controller.rebuild import REQUESTS
from streams.endpoints.endpoint_state import EndpointState
from streams.windows.identities import Identities


@dataclass(frozen=True, slots=True, eq=False)
class BatchStates:
    """`states` by the endpoints' places in the batch, null for those without a policy, or of another partition.

    Before this process was born all of them had read telemetry.requests from the offset `begun` up to `restored_from`,
    and none beyond `restored_to`.
    """

    states: Sequence[EndpointState | None]
    begun: int
    restored_from: int
    restored_to: int
    are_known: bool


class EndpointStates:
    """The states of all endpoints; those of a batch are remembered until an endpoint comes or goes."""

    def __init__(self) -> None:
        self._states: dict[str, EndpointState] = {}
        self._of_batches: WeakKeyDictionary[Identities, BatchStates] = WeakKeyDictionary()

    @property
    def by_endpoint(self) -> Mapping[str, EndpointState]:
        return MappingProxyType(self._states)

    def add(self, state: EndpointState) -> None:
        """Of an endpoint that has none."""
        if state.endpoint in self._states:
            raise ValueError(f"{state.endpoint} has a state, which windows and batches hold")
        self._states[state.endpoint] = state
        self._of_batches.clear()

    def remove(self, endpoint: str) -> EndpointState | None:
        state = self._states.pop(endpoint, None)
        if state is not None:
            self._of_batches.clear()
        return state

    def of(self, identities: Identities) -> BatchStates:
        found = self._of_batches.get(identities)
        if found is None:
            states = [self._states.get(endpoint) for endpoint in identities.endpoints]
            restored = [0 if state is None else state.restored.get(REQUESTS, 0) for state in states]
            begun = (0 if state is None else state.first_offsets.get(REQUESTS, 0) for state in states)
            found = BatchStates(
                states=states,
                begun=max(begun, default=0),
                restored_from=min(restored, default=0),
                restored_to=max(restored, default=0),
                are_known=None not in states,
            )
            self._of_batches[identities] = found
        return found
