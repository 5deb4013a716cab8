"""Endpoints come and go: batches of the same names find the new states, and time does not go back."""

import numpy as np
import pytest

from streams.controller.batch_states import EndpointStates
from streams.controller.registry import EndpointRegistry
from streams.endpoints.effects import PolicyDeleted
from streams.endpoints.endpoint_state import EndpointState
from streams.windows.columns import SampleColumns
from tests.streams.controller.line import Line, feed_all, policy, sample, started


def test_the_states_of_a_batch_follow_whoever_comes_and_goes() -> None:
    columns = SampleColumns.from_records([sample(1000), sample(1000, endpoint="code")], np.array([1001.0, 1001.0]))
    registry = EndpointRegistry(lambda endpoint: endpoint != "code")
    changes = (None, policy(), policy(maxReplicas=9), policy("code"), PolicyDeleted("chat"), policy())
    most, found = [], []
    for change in changes:
        if change is not None:
            registry.apply("policies", change, 0, 1000.0)
        state, other = registry.states_of(columns.identities).states
        assert (state, other) == (registry.states.get("chat"), None)
        most.append(None if state is None else state.policy.max_replicas)
        found.append(state)
    assert most == [None, 20, 9, 9, None, 20]
    assert found[1] is found[2]
    assert found[5] is not found[2]


def test_a_state_that_windows_and_batches_hold_is_not_replaced() -> None:
    states = EndpointStates()
    states.add(EndpointState.new(policy()))
    with pytest.raises(ValueError, match="chat has a state"):
        states.add(EndpointState.new(policy()))


def test_processing_time_does_not_go_back_where_an_endpoint_goes() -> None:
    line = Line()
    line.samples(sample(at_s) for at_s in range(1000, 1060))
    memory = feed_all(started(policy()), line.arrivals)[-1].memory
    controller = started(policy(), policy("code"), memories=[memory])
    assert controller.processed_s == memory.processed_s > 0
    deleted = Line()
    deleted.add("policies", PolicyDeleted("chat"), received_s=1000.0)
    feed_all(controller, deleted.arrivals)
    list(controller.advance(1001.0))
    assert controller.processed_s == memory.processed_s
