"""Which endpoints stand, so that their windows are read together (streams.signals.standing_signals).

All others are read one by one, with the same values.
"""

from decisions.metrics import metric_key
from records.enums import MetricName, ReplicaState
from records.policy import EndpointPolicy
from streams.endpoints.blocks import UNCHANGED_S
from streams.endpoints.endpoint_state import EndpointState
from streams.endpoints.standing import Kind, Standing
from streams.endpoints.ticks import TICK_S
from streams.signals.readings import TickReading
from streams.signals.supply import supply_signal
from streams.signals.values import MEANS, TOTALS
from streams.windows.plain import plain_series

READ_TOGETHER = (
    MEANS | TOTALS | {MetricName.INFLIGHT_REQUESTS: "inflight", MetricName.THROUGHPUT_PER_REPLICA: "streamed_tokens"}
)
"""Metrics whose values are read together, and the field of each."""
CHECKED = ("arrivals", "completions", "errors", "aborted", "running", "waiting", "input_tokens", "output_tokens")
"""What the cross-checks read."""
DRAINED = ("inflight", "cached_tokens", "input_tokens")
"""What the order is made of in which replicas could leave."""
E2E = "e2e_ms"
_MADE_OF = {"inflight": ("running", "waiting"), "streamed_tokens": ("streamed_fraction", "output_tokens"), "heard": ()}


class Kinds:
    """The kinds of endpoints of a partition: as many as there are windows and sets of metrics, whatever the targets."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, tuple[MetricName, ...]], Kind] = {}

    def of(self, state: EndpointState, reading: TickReading) -> Kind | None:
        """Null where the policy asks for what is not read together."""
        policy = state.policy
        up_s, down_s = policy.scale_up.window_seconds, policy.scale_down.window_seconds
        metrics = tuple(metric.name for metric in policy.metrics)
        if up_s % TICK_S or down_s % TICK_S or any(name not in READ_TOGETHER for name in metrics):
            return None
        key = (id(state.blocks.store), up_s, down_s, metrics)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _make_kind(policy, reading)
        return found


def _make_kind(policy: EndpointPolicy, reading: TickReading) -> Kind:
    read = (READ_TOGETHER[metric.name] for metric in policy.metrics)
    valued = tuple(dict.fromkeys((*read, "rejections", "heard")))
    names = tuple(dict.fromkeys((*valued, *DRAINED)))
    fields = (field for name in names for field in _MADE_OF.get(name, (name,)))
    return Kind(
        requests=reading.requests,
        store=reading.state.blocks.store,
        up_s=policy.scale_up.window_seconds,
        down_s=policy.scale_down.window_seconds,
        metrics=tuple(metric.name for metric in policy.metrics),
        keys=tuple(metric_key(metric) for metric in policy.metrics),
        names=names,
        valued=valued,
        fields=tuple(dict.fromkeys((*CHECKED, *fields))),
    )


def make_stand(state: EndpointState, reading: TickReading, kinds: Kinds) -> None:
    """Note that an endpoint that was just read alone stands, if it does."""
    blocks, roster, series = state.blocks, state.blocks.roster, plain_series(reading.requests.reader(state.endpoint))
    if series is None or roster is None or roster.names != series.names or state.sources.states:
        return
    if blocks.tick != reading.tick or blocks.version != series.version or roster.last_ready_s > reading.tick:
        return
    kind = kinds.of(state, reading)
    if kind is None or reading.unheard or not _are_settled(state, series.names):
        return
    restarts = (state.supply.replicas[name].restarted_s for name in series.names)
    if any(restarted_s is not None and restarted_s > reading.tick - kind.down_s for restarted_s in restarts):
        return
    blocks.keep_names(kind.names, (E2E,), reading.read)
    state.standing = Standing(
        kind=kind,
        policy=state.policy,
        series=series,
        roster=roster,
        changes=state.supply.changes,
        supply=supply_signal(state, reading.tick, None),
        memory=state.supply_memory(()),
        heard_s=reading.tick - 1,
    )


def standing_before(state: EndpointState, tick: int) -> Standing | None:
    """The endpoint's, if it stands before `tick`, as far as is known without reading its windows."""
    standing = state.standing
    if standing is None or _goes_on(standing, state, tick - TICK_S):
        return standing
    stop_standing(state)
    return None


def stop_standing(state: EndpointState) -> None:
    """Give the endpoint's state what its ticks did not say while it stood."""
    standing = state.standing
    if standing is not None:
        state.last_heard.update(dict.fromkeys(standing.roster.names, standing.heard_s))
        state.standing = None


def _goes_on(standing: Standing, state: EndpointState, last_tick: int) -> bool:
    blocks, series = state.blocks, standing.series
    if state.policy is not standing.policy or not series.is_current or state.sources.states:
        return False
    if blocks.tick != last_tick or blocks.version != series.version or blocks.changed_s != UNCHANGED_S:
        return False
    if not state.checks.is_clean(last_tick):
        return False
    return state.supply.changes == standing.changes or _renew(standing, state, last_tick)


def _renew(standing: Standing, state: EndpointState, last_tick: int) -> bool:
    """Take what changed of the replicas, where that changes nothing that is counted: they say every half minute that
    they are ready."""
    replicas, roster = state.supply.replicas, standing.roster
    if not _are_settled(state, roster.names):
        return False
    if any(replicas[name].since_s != at for name, at in zip(roster.names, roster.ready_at, strict=True)):
        return False
    standing.changes = state.supply.changes
    standing.supply = supply_signal(state, last_tick, None)
    standing.memory = state.supply_memory(())
    return True


def _are_settled(state: EndpointState, names: tuple[str, ...]) -> bool:
    """Whether these are all replicas, ready, and none has been silent."""
    replicas = state.supply.replicas
    if len(replicas) != len(names):
        return False
    for name in names:
        known = replicas.get(name)
        if known is None or known.state is not ReplicaState.READY or known.heard_s is not None:
            return False
    return True
