"""The plots: how one endpoint was followed, and what that cost, of all of them.

Colours are told apart with every kind of colour blindness (Okabe and Ito), and stand on a light and a dark ground;
text and grid take their colours from the page's style sheet. Legends are the page's own: Plotly's do not wrap.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from headrace.demo.fleet.history import STEP_S, Decided, EndpointHistory

BLUE, ORANGE, GREEN, RED, GREY, SKY = "#2a7fb8", "#e08e0b", "#009e73", "#d5552a", "#8a8f98", "#56b4e9"

HOVER_COLUMNS = 60
_ROWS = ("Requests per second", "Replicas", "Time to first token, p95, ms")
_LATENCIES_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000]
_MEAN_S = 5


def follow_figure(history: EndpointHistory) -> go.Figure:
    """Three plots over one time: what came, the replicas that followed, and how long the first token took."""
    figure = make_subplots(
        rows=3,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.09,
        row_heights=[0.3, 0.4, 0.3],
        subplot_titles=[f"<b>{title}</b>" for title in _ROWS],
    )
    for trace in (_requests(history), _turned_away(history)):
        figure.add_trace(trace, row=1, col=1)
    for trace in (*_replicas(history), *_decisions(history)):
        figure.add_trace(trace, row=2, col=1)
    figure.add_trace(_ttft(history), row=3, col=1)
    _add_slo(figure, history)
    figure.update_yaxes(rangemode="tozero", tickformat=",d", row=1, col=1)
    figure.update_yaxes(rangemode="tozero", row=2, col=1)
    figure.update_yaxes(type="log", tickvals=_LATENCIES_MS, tickformat=",d", row=3, col=1)
    figure.update_xaxes(
        showticklabels=True, tickformat="%H:%M", nticks=6, range=times(np.array([history.first_s, history.last_s]))
    )
    for note in figure.layout.annotations[: len(_ROWS)]:
        note.update(x=0, xanchor="left", yshift=4, font={"size": 14})
    _style(figure, height=720)
    return figure


def hours_figure(histories: Sequence[EndpointHistory], compares: bool) -> go.Figure:
    """GPU-hours of each endpoint, as it was and, where it `compares`, as a static fleet of its peak."""
    names = [history.name for history in histories]
    bars = [("this run", BLUE, [history.gpu_hours for history in histories])]
    if compares:
        bars.insert(0, ("static fleet of the peak", GREY, [history.static_gpu_hours for history in histories]))
    figure = go.Figure()
    for name, colour, hours in bars:
        figure.add_trace(
            go.Bar(
                name=name,
                y=names,
                x=[round(value, 3) for value in hours],
                orientation="h",
                marker={"color": colour},
                text=[f"{value:.1f}" for value in hours],
                textposition="outside",
                cliponaxis=False,
                hovertemplate="%{y}, " + name + ": %{x:.2f} GPU-hours<extra></extra>",
            )
        )
    figure.update_layout(barmode="group", bargap=0.35)
    figure.update_xaxes(range=[0, 1.15 * max(value for *_, hours in bars for value in hours)])
    figure.update_yaxes(autorange="reversed", ticksuffix=" ")
    _style(figure, height=90 + 70 * len(names))
    return figure


_ACTIONS = {"scale_up": RED, "scale_down": GREEN, "hold": GREY}


def reasons_figure(histories: Sequence[EndpointHistory]) -> go.Figure:
    """How many decisions each reason made, those that change something beside the holds."""
    totals: dict[tuple[str, str], int] = {}
    for history in histories:
        for key, count in history.reasons.items():
            totals[key] = totals.get(key, 0) + count
    reasons = sorted({reason for _, reason in totals}, key=lambda reason: sum(_of(totals, reason)))
    figure = go.Figure()
    for action, colour in _ACTIONS.items():
        counts = [totals.get((action, reason), 0) for reason in reasons]
        figure.add_trace(
            go.Bar(
                name=action,
                y=reasons,
                x=counts,
                orientation="h",
                marker={"color": colour},
                hovertemplate=f"{action}, " + "%{y}: %{x} decisions<extra></extra>",
            )
        )
    figure.update_layout(barmode="stack", bargap=0.3)
    figure.update_yaxes(ticksuffix=" ")
    _style(figure, height=80 + 34 * len(reasons))
    return figure


def _of(totals: dict[tuple[str, str], int], reason: str) -> list[int]:
    return [count for (_, other), count in totals.items() if other == reason]


def times(seconds: NDArray[np.int64]) -> list[datetime]:
    """UNIX seconds as UTC times, as Plotly shows them: without a zone."""
    return [datetime.fromtimestamp(second, UTC).replace(tzinfo=None) for second in seconds.tolist()]


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the last _MEAN_S seconds, or of as many as there are."""
    sums = np.cumsum(np.concatenate(([0.0], values)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - _MEAN_S, 0)
    return np.asarray((sums[ends] - sums[begins]) / (ends - begins)).round(2)


def _requests(history: EndpointHistory) -> go.Scatter:
    return go.Scatter(
        name="requests",
        x=times(history.seconds),
        y=_smooth(history.requests),
        mode="lines",
        line={"color": BLUE, "width": 1.5},
        hovertemplate="%{y:.0f} requests/s<extra></extra>",
    )


def _turned_away(history: EndpointHistory) -> go.Scatter:
    return go.Scatter(
        name="turned away or given up",
        x=times(history.seconds),
        y=_smooth(history.turned_away + history.aborted),
        mode="lines",
        line={"color": RED, "width": 1},
        fill="tozeroy",
        hovertemplate="%{y:.0f}/s turned away or given up<extra></extra>",
    )


def _replicas(history: EndpointHistory) -> list[go.Scatter]:
    def area(name: str, values: NDArray[np.int64], colour: str) -> go.Scatter:
        return go.Scatter(
            name=name,
            x=times(history.seconds),
            y=values,
            mode="lines",
            line={"color": colour, "width": 0, "shape": "hv"},
            stackgroup="replicas",
            hovertemplate="%{y} " + name + "<extra></extra>",
        )

    desired = go.Scatter(
        name="desired",
        x=times(history.seconds),
        y=history.desired,
        mode="lines",
        line={"color": RED, "width": 2, "shape": "hv"},
        hovertemplate="%{y} desired<extra></extra>",
    )
    return [
        area("ready", history.ready, GREEN),
        area("starting", history.starting, ORANGE),
        area("draining", history.draining, SKY),
        desired,
    ]


def _decisions(history: EndpointHistory) -> list[go.Scatter]:
    """Markers at what was decided; who hovers reads why."""
    marks = []
    for action, symbol, colour in (("scale_up", "triangle-up", RED), ("scale_down", "triangle-down", GREEN)):
        decided = [one for one in history.decisions if one.action == action]
        marks.append(
            go.Scatter(
                name=action,
                x=times(np.array([one.at_s for one in decided], np.int64)),
                y=[one.desired for one in decided],
                mode="markers",
                marker={"symbol": symbol, "size": 9, "color": colour, "line": {"color": "white", "width": 1}},
                text=[_told(one) for one in decided],
                hovertemplate="%{x|%H:%M:%S} UTC<br>%{text}<extra></extra>",
            )
        )
    return marks


def _told(one: Decided) -> str:
    carried = "" if one.result is None else f"<br>actuator: {one.result}"
    return "<br>".join(wrap(one.detail, HOVER_COLUMNS)) + carried


def _ttft(history: EndpointHistory) -> go.Scatter:
    points = np.arange(history.first_s, history.last_s, STEP_S)
    return go.Scatter(
        name="TTFT p95",
        x=times(points),
        y=[None if np.isnan(value) else round(float(value), 1) for value in history.ttft_p95_ms],
        mode="lines+markers",
        marker={"size": 4},
        line={"color": BLUE, "width": 1.5},
        hovertemplate=f"%{{y:.0f}} ms, p95 of {STEP_S} s<extra></extra>",
    )


def _add_slo(figure: go.Figure, history: EndpointHistory) -> None:
    slo_ms = history.policy.slo.ttft_p95_ms
    if slo_ms is not None:
        figure.add_hline(y=slo_ms, line={"color": RED, "width": 1.5, "dash": "dash"}, row=3, col=1)


def _style(figure: go.Figure, height: int) -> None:
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 32, "b": 8},
        "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 13, "family": "system-ui, sans-serif"},
        "hoverlabel": {"align": "left"},
        "dragmode": False,
    }
    figure.update_layout(**layout)
    figure.update_xaxes(automargin=True, zeroline=False, fixedrange=True)
    figure.update_yaxes(automargin=True, zeroline=False, fixedrange=True)
