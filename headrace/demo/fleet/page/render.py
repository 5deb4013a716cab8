"""Puts the page together: what it says, what it shows, and the same as numbers for who sees no plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from plotly import graph_objects as go
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from headrace.demo.fleet.history import EndpointHistory
from headrace.demo.fleet.page.figures import follow_figure, hours_figure, reasons_figure
from headrace.demo.fleet.served import Served

TABLE_STEP_S = 60


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """What the page is made of.

    `is_comparable`: what it cost compares with a static fleet's. By endpoint: `words` its
    paragraphs, one a line, `notes` what belongs to its SLO. `commands` are to be pasted, each with what it is for.
    """

    histories: Sequence[EndpointHistory]
    served: Mapping[str, Served]
    is_comparable: bool
    titles: Mapping[str, str]
    words: Mapping[str, str]
    notes: Mapping[str, str]
    lead: str
    commands: Sequence[tuple[str, str]]


def render_page(content: PageContent) -> str:
    """The whole page as HTML, with Plotly's program in it."""
    environment = Environment(
        loader=PackageLoader("headrace.demo.fleet.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["clock"] = _clock
    histories = content.histories
    return environment.get_template("page.html.j2").render(
        content=content,
        plotly=get_plotlyjs(),
        begin=min(history.first_s for history in histories),
        end=max(history.last_s for history in histories),
        endpoints=[_endpoint(history, content) for history in histories],
        hours=_plot(hours_figure(histories, content.is_comparable), "plot-hours"),
        reasons=_plot(reasons_figure(histories), "plot-reasons"),
        reason_rows=_reason_rows(histories),
        gpu_hours=sum(history.gpu_hours for history in histories),
        static_gpu_hours=sum(history.static_gpu_hours for history in histories),
        requests=sum(one.requests for one in content.served.values()),
    )


def _endpoint(history: EndpointHistory, content: PageContent) -> dict[str, Any]:
    return {
        "name": history.name,
        "title": content.titles[history.name],
        "words": content.words[history.name],
        "note": content.notes.get(history.name),
        "slo_ms": history.policy.slo.ttft_p95_ms,
        "plot": _plot(follow_figure(history), f"plot-{history.name}"),
        "rows": _minutes(history),
        "history": history,
        "served": content.served.get(history.name),
    }


def _plot(figure: go.Figure, name: str) -> str:
    """The plot's place and its data; Plotly itself is in the page once."""
    config = {"responsive": True, "displayModeBar": False}
    return str(to_html(figure, config=config, include_plotlyjs=False, full_html=False, div_id=name))


def _minutes(history: EndpointHistory) -> list[dict[str, Any]]:
    """One row a minute: means of what came, the replicas at its end, the largest p95 of its parts."""
    rows = []
    for begin in range(0, history.last_s - history.first_s, TABLE_STEP_S):
        span = slice(begin, begin + TABLE_STEP_S)
        last = min(begin + TABLE_STEP_S, history.last_s - history.first_s) - 1
        rows.append(
            {
                "at_s": history.first_s + begin,
                "requests": float(history.requests[span].mean()),
                "lost": float((history.turned_away + history.aborted)[span].mean()),
                "desired": int(history.desired[last]),
                "ready": int(history.ready[last]),
                "starting": int(history.starting[last]),
                "ttft_p95_ms": _largest(history.ttft_parts(begin, begin + TABLE_STEP_S)),
            }
        )
    return rows


def _largest(values: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def _reason_rows(histories: Sequence[EndpointHistory]) -> list[tuple[str, str, str, int]]:
    rows = [
        (history.name, action, reason, count)
        for history in histories
        for (action, reason), count in history.reasons.items()
    ]
    return sorted(rows, key=lambda row: (row[0], -row[3], row[2]))


def _number(value: float | None, digits: int = 0) -> str:
    """With commas between thousands; a dash for what is not known."""
    return "-" if value is None else f"{value:,.{digits}f}"


def _clock(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%H:%M:%S}"
