"""The fleet's own metrics."""

from collections.abc import Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Observation, get_meter

from records.enums import ReplicaState
from simulation.journal import Call, CallResult, JournalEntry
from simulation.simulated_endpoint import SimulatedEndpoint
from wire.zero_counts import begin_at_zero

_OUTCOMES = ("arrivals", "rejections", "completions", "aborted", "errors")


class FleetMetrics:
    """Reads the endpoints when it is scraped; `behind_s` is set by whoever paces them."""

    def __init__(self, endpoints: Mapping[str, SimulatedEndpoint]) -> None:
        self._endpoints = endpoints
        self.behind_s = 0.0
        meter = get_meter("headrace.fleet")
        self._calls = meter.create_counter("headrace_fleet_api_calls", description="Calls by call and result")
        begin_at_zero(self._calls, call=Call, result=CallResult)
        meter.create_observable_gauge("headrace_fleet_replicas", [self._replicas], description="Replicas by state")
        meter.create_observable_counter("headrace_fleet_requests", [self._requests], description="Requests by outcome")
        meter.create_observable_gauge(
            "headrace_fleet_behind",
            [self._behind],
            unit="s",
            description="Event seconds due and not simulated yet",
        )

    def count_call(self, entry: JournalEntry) -> None:
        """One more call of the API."""
        self._calls.add(1, {"call": entry.call.value, "result": entry.result.value})

    def _replicas(self, _: CallbackOptions) -> Iterable[Observation]:
        for name, endpoint in self._endpoints.items():
            counts = endpoint.summary.replicas
            for state in ReplicaState:
                if state not in (ReplicaState.GONE, ReplicaState.UNSCHEDULABLE):
                    yield Observation(counts.get(state.value, 0), {"endpoint": name, "state": state.value})

    def _requests(self, _: CallbackOptions) -> Iterable[Observation]:
        for name, endpoint in self._endpoints.items():
            for outcome in _OUTCOMES:
                count = getattr(endpoint.summary.outcomes, outcome)
                yield Observation(count, {"endpoint": name, "outcome": outcome})

    def _behind(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self.behind_s)
