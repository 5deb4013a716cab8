"""What the plots show, in sentences with the run's own numbers: for the page and for the summary."""

from datetime import UTC, datetime

import numpy as np

from headrace.demo.fleet.facts import SETTLED_S, BurstFacts
from headrace.demo.fleet.history import STEP_S, EndpointHistory
from headrace.demo.fleet.served import Served


def burst_words(history: EndpointHistory, facts: BurstFacts, served: Served | None, acts: bool) -> str:
    """The paragraphs of the burst, one a line."""
    before, during = _rate(history, 0, facts.begins_s), _rate(history, facts.begins_s, facts.ends_s)
    told = [
        f"At {_clock(facts.begins_s)} UTC the rate rose from {before:,.0f} to about {during:,.0f} requests/s within "
        f"seconds, and at {_clock(facts.ends_s)} it fell again."
    ]
    if not acts:
        told += _not_followed(history, facts)
    elif facts.need is None:
        told.append("Requests were still turned away when the burst ended: the fleet never reached its need.")
    else:
        told += _followed(history, facts, facts.need)
    told += _given(served)
    if acts:
        told.append(_came_down(facts, history.policy.scale_down.window_seconds))
    return "\n".join(told)


def _not_followed(history: EndpointHistory, facts: BurstFacts) -> list[str]:
    asked = max((one.desired for one in history.decisions), default=0)
    told = [
        f"The actuator was off: {int(history.ready.max())} replicas served all the time. At each tick {asked} at most "
        "were asked for, one step from what was there, and nobody carried it out."
    ]
    if facts.within_slo_during is not None and history.policy.slo.ttft_p95_ms is not None:
        told.append(
            f"The SLO was broken: during the burst {100 * facts.within_slo_during:.1f} % of the requests got their "
            f"first token within {history.policy.slo.ttft_p95_ms:,.0f} ms."
        )
    return told


def _followed(history: EndpointHistory, facts: BurstFacts, need: int) -> list[str]:
    slo_ms = history.policy.slo.ttft_p95_ms
    words = (
        f"The burst needed {need} replicas: {facts.in_flight:,.0f} requests were in flight in its last "
        f"{facts.over_s} s, and one replica shall have {history.policy.concurrency.target:g}. So many were desired "
        f"{_after(facts.desired_after_s)}, and ready {_after(facts.ready_after_s)}"
    )
    if facts.startup_p95_s is not None:
        words += f"; a start takes {facts.startup_p95_s:.0f} s (p95 of the {facts.starts} that were seen)"
    told = [
        f"{words}. Until then there were too few, and requests were turned away: what begins to scale when the load "
        "comes is no quicker than a start."
    ]
    if facts.ttft_p95_after_ms is not None and facts.within_slo_after is not None and slo_ms is not None:
        told.append(
            f"From {SETTLED_S} s later to the burst's end {100 * facts.within_slo_after:.1f} % of the requests got "
            f"their first token within the SLO of {slo_ms:,.0f} ms, and the p95 of {STEP_S} s was "
            f"{facts.ttft_p95_after_ms:,.0f} ms at most."
        )
    return told


def _came_down(facts: BurstFacts, window_s: int) -> str:
    if facts.below_need_s is None:
        return "It did not come down before the run ended: the policy's window still held the burst, or had gaps."
    return (
        f"It went below that need {facts.below_need_s} s after the burst's end: the window of {window_s} s must have "
        "forgotten the burst, and seen all of that time."
    )


def service_words(history: EndpointHistory, served: Served | None, acts: bool) -> str:
    """The paragraphs of an endpoint that is as its trace is, one a line."""
    rates = history.requests
    told = [
        f"Between {_per_minute(history).min():,.1f} and {_per_minute(history).max():,.1f} requests/s, each the mean of "
        f"a minute; {rates.max():,.0f} in the busiest second."
    ]
    if not acts:
        told.append(f"The actuator was off: {int(history.ready.max())} replicas served all the time.")
    elif history.decisions:
        told.append(
            f"{len(history.decisions)} decisions changed something: from {int(history.desired.min())} to "
            f"{int(history.desired.max())} replicas were desired."
        )
    else:
        told.append(f"No decision changed anything: {int(history.desired[0])} replicas were enough all the time.")
    within = _steps_within(history)
    if within is not None:
        told.append(f"The p95 of TTFT of {STEP_S} s was within {history.policy.slo.ttft_p95_ms:,.0f} ms in {within}.")
    told += _given(served)
    return "\n".join(told)


def _given(served: Served | None) -> list[str]:
    if served is None or served.slo_share is None:
        return []
    lost = [
        f"{count:,} {what}"
        for count, what in (
            (served.turned_away, "were turned away"),
            (served.given_up, "were given up by their clients"),
        )
        if count
    ]
    words = f"Of {served.requests:,} requests {100 * served.slo_share:.1f} % got their first token within the SLO"
    return [words + (f"; {' and '.join(lost)}." if lost else "; none was lost.")]


def _steps_within(history: EndpointHistory) -> str | None:
    slo_ms = history.policy.slo.ttft_p95_ms
    known = history.ttft_p95_ms[~np.isnan(history.ttft_p95_ms)]
    if slo_ms is None or not len(known):
        return None
    return f"{int((known <= slo_ms).sum())} of the {len(known)} in which tokens came"


def _per_minute(history: EndpointHistory) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    whole = max(60, len(history.requests) // 60 * 60)
    padded = np.resize(history.requests[:whole], whole)
    return np.asarray(padded.reshape(-1, 60).mean(axis=1))


def _rate(history: EndpointHistory, from_s: int, to_s: int) -> float:
    begin, end = max(0, from_s - history.first_s), to_s - history.first_s
    return float(np.median(history.requests[begin:end]))


def _after(seconds: int | None) -> str:
    return "never" if seconds is None else f"{seconds} s after its beginning"


def _clock(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%H:%M:%S}"
