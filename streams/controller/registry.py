"""The endpoints of a partition: known by their policies, started by their first record, fed with everything else."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from records.memory import ControllerMemory
from records.outcomes import Outcome
from records.policy import EndpointPolicy
from records.telemetry import GpuSample, ReplicaChanged, TargetObserved
from streams.controller.batch_states import BatchStates, EndpointStates
from streams.controller.rebuild import GPUS, Run
from streams.controller.sample_intake import SampleIntake
from streams.endpoints.effects import ControllerSize, Count, Counts, PolicyDeleted
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.endpoint_windows import EndpointWindows
from streams.endpoints.skew import EndpointSources, SkewBook
from streams.endpoints.ticks import AHEAD_MAX_S, first_ticks
from streams.windows.columns import SampleColumns
from streams.windows.identities import Identities

SILENT_S = 600.0
"""Twice as long as a source's samples count for its clock; whoever sends under ever new names is not kept longer."""


class EndpointRegistry:
    """States and windows by endpoint. `owns` tells whether an endpoint's records belong to this partition; `floor_s` is
    the processing time of the last tick that was made before this process was born, 0 where none was."""

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self.counts = Counts()
        self.windows = EndpointWindows()
        self.book = SkewBook()
        self.intake = SampleIntake()
        self.is_owned = owns
        self.floor_s = 0.0
        self._states = EndpointStates()
        self._gpus_read_to = 0
        """The offset behind the newest GpuSample that was read."""

    @property
    def states(self) -> Mapping[str, EndpointState]:
        """By endpoint, of those with a policy."""
        return self._states.by_endpoint

    @property
    def size(self) -> ControllerSize:
        sources_off = _count_off(state.sources for state in list(self.states.values()))
        return ControllerSize(series=self.windows.series, window_bytes=self.windows.nbytes, sources_off=sources_off)

    def restore(
        self, memories: Iterable[ControllerMemory], policies: Iterable[EndpointPolicy]
    ) -> list[ControllerMemory]:
        """Make the states; the memories that were used are given back. A policy in another partition than its
        endpoint's, as before their number grew, is counted and left alone."""
        by_endpoint = {memory.endpoint: memory for memory in memories}
        used = []
        for policy in policies:
            if not self.is_owned(policy.endpoint):
                self.counts.add(Count.WRONG_PARTITION, 1)
                continue
            memory = by_endpoint.get(policy.endpoint)
            if memory is None:
                state = EndpointState.new(policy)
            else:
                used.append(memory)
                state = EndpointState.from_memory(policy, memory)
            self._states.add(state)
            self.windows.open(state, () if memory is None else memory.epochs)
        self.floor_s = max((memory.processed_s for memory in used), default=0.0)
        self._gpus_read_to = max((memory.offsets.get(GPUS, 0) for memory in used), default=0)
        return used

    def states_of(self, identities: Identities) -> BatchStates:
        return self._states.of(identities)

    def forget_silent(self, processed_s: float) -> None:
        """Free what is kept of sources and GPUs that fell silent long ago."""
        self.book.forget_silent(processed_s - SILENT_S)
        for state in self.states.values():
            gpus = self.windows.of(state.endpoint).gpus
            if gpus is not None and state.needed_from_s is not None:
                gpus.forget(state.needed_from_s)

    def new_rows(self, run: Run) -> NDArray[np.bool_]:
        """bool (n,): which rows of a run speak of endpoints with a policy and were not read before."""
        rows = run.rows
        if isinstance(rows, SampleColumns):
            states = self.states_of(rows.identities).states
            never = np.iinfo(np.int64).max
            least = [never if state is None else state.restored.get(run.topic, 0) for state in states]
            if run.offsets[-1] < min(least):
                return np.zeros(len(run), np.bool_)
            return run.offsets >= np.array(least, np.int64)[rows.endpoint_code]
        found = []
        for record, offset in zip(rows, run.offsets.tolist(), strict=True):
            state = self.states.get(getattr(record, "endpoint", ""))
            is_policy = isinstance(record, EndpointPolicy | PolicyDeleted)
            found.append(is_policy if state is None else state.is_new(run.topic, offset))
        return np.array(found, np.bool_)

    def apply(self, topic: str, record: object, offset: int, received_s: float) -> EndpointState | None:
        """Take a record of any topic but telemetry.requests; the endpoint's state where it may have ticks now."""
        endpoint = getattr(record, "endpoint", None)
        if not isinstance(endpoint, str):
            raise TypeError(f"{topic}: not a record of an endpoint: {type(record).__name__}")
        if not self.is_owned(endpoint):
            self.counts.add(Count.WRONG_PARTITION, 1)
            return None
        if topic == GPUS:
            self._gpus_read_to = max(self._gpus_read_to, offset + 1)
        state = self.states.get(endpoint)
        if state is not None and not state.is_new(topic, offset):
            return None
        match record:
            case EndpointPolicy():
                self._set_policy(record)
                return self.states[endpoint]
            case PolicyDeleted():
                self._delete_policy(endpoint)
                return None
        if state is None:
            self.counts.add(Count.NO_POLICY, 1)
            return None
        return self._observe(state, record, received_s)

    def _observe(self, state: EndpointState, record: object, received_s: float) -> EndpointState | None:
        match record:
            case ReplicaChanged() | TargetObserved() | GpuSample() | Outcome() if _is_ahead(record.at_s, received_s):
                # Of changes the newest counts, by its own clock: none after it would, until that moment has come.
                self.counts.add(Count.TOO_FAR_AHEAD, 1)
                return None
            case ReplicaChanged() if not state.supply.has_room(record):
                self.counts.add(Count.TOO_MANY_REPLICAS, 1)
                state.note_refused(int(min(record.at_s, received_s)))
                return None
            case ReplicaChanged():
                state.supply.apply(record)
            case TargetObserved():
                state.observe_target(record)
            case GpuSample():
                if not self.windows.add_gpu(record):
                    self.counts.add(Count.TOO_MANY_GPUS, 1)
                    state.note_refused(int(min(record.at_s, received_s)))
            case Outcome():
                self.counts.add(Count.UNKNOWN_DECISION, 0 if state.observe_outcome(record) else 1)
                return None
            case _:
                raise TypeError(f"no such input: {type(record).__name__}")
        if not state.has_ticked:
            (first_tick,) = first_ticks(np.array([record.at_s]), np.array([received_s])).tolist()
            state.begin(first_tick, record.at_s)
        return state

    def fill_gpus(self, run: Run) -> None:
        """Take the GpuSamples of a run that were read before this process was born."""
        assert not isinstance(run.rows, SampleColumns)
        for record, offset, received_s in zip(run.rows, run.offsets.tolist(), run.received_s.tolist(), strict=True):
            if isinstance(record, GpuSample) and not _is_ahead(record.at_s, received_s):
                state = self.states.get(record.endpoint)
                if state is not None and state.gpus_from_offset <= offset and not state.is_new(GPUS, offset):
                    self.windows.add_gpu(record)

    def _set_policy(self, policy: EndpointPolicy) -> None:
        state = self.states.get(policy.endpoint)
        if state is None:
            state = EndpointState.new(policy)
            self._states.add(state)
        else:
            state.set_policy(policy)
        gpus = self.windows.gpus_of(state.endpoint)
        starts_empty = self.windows.open(state)
        if self.windows.gpus_of(state.endpoint) is not gpus:
            state.gpus_from_offset = self._gpus_read_to
        if starts_empty and state.next_tick is not None:
            state.observed_from_s = state.kept_from_s = max(state.observed_from_s, state.next_tick)
            self.windows.keep(state)

    def _delete_policy(self, endpoint: str) -> None:
        """No more ticks; what was kept is freed."""
        state = self._states.remove(endpoint)
        if state is not None:
            self.windows.close(state)
            self.book.forget(endpoint)
            self.intake.forget(endpoint)


def _is_ahead(at_s: int, received_s: float) -> bool:
    return at_s + 1 - received_s > AHEAD_MAX_S


def _count_off(endpoints: Iterable[EndpointSources]) -> dict[str, int]:
    """Sources by what is done about their clocks, `corrected` and `quarantined`. Another thread may ask."""
    found = {"corrected": 0, "quarantined": 0}
    for sources in endpoints:
        for state in list(sources.states.values()):
            newest = state.changes[-1:]
            found["quarantined"] += any(change.quarantined for change in newest)
            found["corrected"] += any(change.shift_s != 0 for change in newest)
    return found
