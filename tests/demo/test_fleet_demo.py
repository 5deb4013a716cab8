"""A short form of the closed loop, from its first process to its page: one run, seen by readers of their own."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from headrace.broker import EmbeddedBroker
from headrace.exit_codes import ExitCode
from sinks.root import TableRoot
from tests.demo.browser import Browser, open_browser
from tests.demo.runs import DemoRun
from tests.explain.run_check import check_run
from tests.line.audit import ask, check_ticks, count_everything, read_decisions
from wire.topics import TOPICS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(420)]

SECONDS, SPEED = 28, 6
"""Slower than the demo is by default: beside other tests a second is soon lost."""

COUNTED = "Rows in Kafka (committed) and in the Delta tables"
ENDPOINTS = ("burst", "code", "chat")
PLOTS = (*(f"plot-{name}" for name in ENDPOINTS), "plot-hours", "plot-reasons")


@dataclass(frozen=True)
class Finished:
    """A demo that ran to its end."""

    run: DemoRun
    status: int

    @property
    def tables(self) -> Path:
        return self.run.data / "tables"

    @property
    def page(self) -> Path:
        return self.run.data / "page.html"

    def table(self, name: str) -> str:
        """For DuckDB."""
        return f"delta_scan('{self.tables / name}')"

    def paragraph(self, title: str) -> str:
        """What is told below a title, to the next empty line."""
        begin = self.run.lines.index(title)
        return "\n".join(self.run.lines[begin + 1 : self.run.lines.index("", begin)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    run = DemoRun(tmp_path_factory.mktemp("demo"), "--seconds", str(SECONDS), "--speed", str(SPEED))
    try:
        status = run.end()
        assert run.left_over() == []
        yield Finished(run, status)
    finally:
        run.kill()


@pytest.fixture(scope="module")
def served(finished: Finished) -> dict[str, Any]:
    """What the fleet itself counted, from its last line."""
    last = [line for line in (finished.run.data / "logs" / "fleet.log").read_text().splitlines() if '"first_s"' in line]
    told: dict[str, Any] = json.loads(last[-1])
    return told


def test_the_first_line_says_what_the_status_says(finished: Finished) -> None:
    """Beside other tests the machine may be too busy for fresh signals; then nothing is said to be saved."""
    (verdict,) = [line for line in finished.run.lines if line.startswith("Verdict: ")]
    assert finished.run.lines.index(verdict) < finished.run.lines.index(COUNTED)
    is_good = verdict.startswith("Verdict: decisions were made from fresh signals")
    assert is_good or verdict.startswith("Verdict: decisions were NOT made from fresh signals"), verdict
    told = f"{finished.run.text}\n{finished.run.errors}"
    assert finished.status == (ExitCode.OK if is_good else ExitCode.INCOMPLETE), told
    rows = finished.run.table("What the clients got, and what it cost")
    assert all(("saved" in row) == is_good for row in rows)


async def test_each_row_in_kafka_is_in_the_tables_or_dead_once(finished: Finished) -> None:
    broker = EmbeddedBroker(finished.run.data / "broker", quick_start=True)
    broker.start()
    try:
        counts = await count_everything(broker.bootstrap, "", finished.tables, list(TOPICS))
        spans = check_ticks(await read_decisions(broker.bootstrap, ""))
    finally:
        broker.stop()
    told = {row["topic"]: row for row in finished.run.table(COUNTED)}
    assert told.keys() == {topic for topic, count in counts.items() if count.sent}
    for topic, row in told.items():
        count = counts[topic]
        assert row["each once"] == "yes"
        numbers = tuple(int(row[name]) for name in ("sent", "decoded", "in the table", "dead letters"))
        assert numbers == (count.sent, count.sent - count.dead, count.kept, count.dead)
    assert all(last - first >= SECONDS * SPEED - 10 for first, last in spans.values())


def test_the_burst_is_followed(finished: Finished) -> None:
    """No seconds are asserted: how soon is the whole run's to show, on a machine of its own."""
    (most,) = ask(f"SELECT max(spec_replicas) FROM {finished.table('telemetry_targets')} WHERE endpoint = 'burst'")[0]
    (ready,) = ask(
        f"SELECT count(DISTINCT replica) FROM {finished.table('telemetry_replicas')} "
        "WHERE endpoint = 'burst' AND state = 'ready'"
    )[0]
    assert most > 2
    assert ready > 2


def test_what_was_decided_was_carried_out_once(finished: Finished) -> None:
    """By the fleet's journal, which the actuator has no hand in."""
    journal = [json.loads(line) for line in (finished.run.data / "journal.jsonl").read_text().splitlines()]
    changes = [entry for entry in journal if entry["call"] == "scale" and entry["spec_before"] != entry["spec_after"]]
    by_id = {entry["decision_id"]: entry for entry in changes}
    assert len(by_id) == len(changes) > 0
    decided = ask(
        f"SELECT decision_id, desired, o.result, o.observed FROM {finished.table('decisions_scaling')} "
        f"JOIN {finished.table('outcomes')} o USING (decision_id)"
    )
    desired = {decision_id: (count, result, observed) for decision_id, count, result, observed in decided}
    assert len(desired) == len(decided), "one outcome a decision"
    for decision_id, entry in by_id.items():
        count, result, observed = desired[decision_id]
        assert (entry["result"], entry["requested"], entry["spec_after"]) == ("ok", count, count)
        assert (result, observed) == ("applied", count)


def test_the_event_times_end_about_now(finished: Finished) -> None:
    (last,) = ask(f"SELECT max(at_s) FROM {finished.table('telemetry_requests')}")[0]
    ended_s = (finished.run.data / "logs" / "fleet.log").stat().st_mtime
    assert abs(last - ended_s) < 3 * SECONDS * SPEED


def test_the_summary_says_what_the_fleet_counted(finished: Finished, served: dict[str, Any]) -> None:
    rows = {row["endpoint"]: row for row in finished.run.table("What the clients got, and what it cost")}
    for name in ENDPOINTS:
        told = served["endpoints"][name]
        requests = told["arrivals"] + told["rejections"]
        assert int(rows[name]["requests"].replace(",", "")) == requests
        assert rows[name]["SLO kept"] == f"{100 * told['ttft_within_slo'] / requests:.1f} %"
        assert int(rows[name]["turned away"].replace(",", "")) == told["rejections"]
        (kept,) = ask(
            f"SELECT sum(coalesce(arrivals, 0) + coalesce(rejections, 0)) FROM {finished.table('telemetry_requests')} "
            f"WHERE endpoint = '{name}'"
        )[0]
        assert kept == requests, "what the clients sent is what the replicas and the gateway reported"
        assert float(rows[name]["GPU-hours"]) == pytest.approx(told["gpu_seconds"] / 3600, rel=0.02, abs=0.02)


def test_memory_is_measured_and_small(finished: Finished) -> None:
    (line,) = [line for line in finished.run.lines if line.startswith("Memory of all processes")]
    found = re.search(r"([\d.]+) GiB", line)
    assert found is not None
    assert 0.5 < float(found[1]) < 2.5 * 1e9 / 2**30


def test_how_to_ask_why_works_as_printed(finished: Finished) -> None:
    lines = finished.run.lines[finished.run.lines.index("How to go on") + 1 :]
    commands = [line.strip() for line in lines if re.match(r"    \S.* explain burst ", line)]
    assert commands
    done = subprocess.run(shlex.split(commands[0]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Scale up" in done.stdout
    assert "Applied by fleet" in done.stdout


def test_each_change_is_explained_as_it_was(finished: Finished) -> None:
    checked = check_run(TableRoot(address=str(finished.tables)))
    assert checked.disagreements == ()
    assert checked.explained == checked.decided_again > 5


def test_the_folder_says_what_was_played(finished: Finished) -> None:
    data = finished.run.data
    assert {path.stem for path in (data / "policies").glob("*.yaml")} == set(ENDPOINTS)
    scenario = YAML(typ="safe").load((data / "scenario.yaml").read_text())
    assert [one["endpoint"] for one in scenario["endpoints"]] == list(ENDPOINTS)
    names = ("data", "logs", "tables", "page")
    places = (data, data / "logs", finished.tables, finished.page)
    told = [f"{name}: {place}" for name, place in zip(names, places, strict=True)]
    assert finished.run.lines[-4:] == told


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_in_a_browser(finished: Finished, browser: Browser, width: int, scheme: str) -> None:
    browser.open(finished.page, width, scheme)
    assert browser.complaints == []
    assert browser.requested[0] == finished.page.as_uri()
    assert [url for url in browser.requested[1:] if not url.startswith("data:")] == [], "nothing to fetch"
    assert browser.ask("return document.documentElement.scrollWidth") <= width
    for plot in PLOTS:
        drawn = browser.ask(
            f"const plot = document.getElementById('{plot}');"
            "const marks = plot.querySelectorAll('.scatterlayer .trace path, .barlayer .point path');"
            "return Array.from(marks).filter(mark => mark.getBoundingClientRect().width > 0).length"
        )
        assert drawn > 0, plot
        assert cut_texts(browser, plot) == [], plot
    colours = browser.ask(
        "const ink = getComputedStyle(document.body).color;"
        "const text = getComputedStyle(document.querySelector('.js-plotly-plot .xtick text')).fill;"
        "return [getComputedStyle(document.body).backgroundColor, ink, text]"
    )
    assert (colours[0] == "rgb(255, 255, 255)") == (scheme == "light")
    assert colours[1] == colours[2], "the plots' text has the page's colour"


def cut_texts(browser: Browser, plot: str) -> list[str]:
    """Texts of a plot that reach out of it."""
    texts: list[str] = browser.ask(
        f"const plot = document.getElementById('{plot}').getBoundingClientRect();"
        f"return Array.from(document.querySelectorAll('#{plot} .main-svg text')).filter(text => {{"
        "const box = text.getBoundingClientRect(); return box.width > 0 && "
        "(box.left < plot.left - 1 || box.right > plot.right + 1 || box.top < plot.top - 1"
        " || box.bottom > plot.bottom + 1)}).map(text => text.textContent)"
    )
    return texts


def test_the_page_says_the_same_without_its_plots(finished: Finished, browser: Browser) -> None:
    browser.open(finished.page, 1280)
    assert browser.ask("return document.documentElement.lang") == "en"
    assert "Headrace" in browser.ask("return document.title")
    heads = browser.ask("return Array.from(document.querySelectorAll('h1, h2')).map(head => head.tagName)")
    assert heads == ["H1"] + ["H2"] * 6
    figures = browser.ask(
        "return Array.from(document.querySelectorAll('figure')).map(it => [it.getAttribute('role'), "
        "it.getAttribute('aria-label'), it.nextElementSibling.querySelectorAll('tbody tr').length])"
    )
    assert len(figures) == len(PLOTS)
    for role, label, rows in figures:
        assert (role, "table" in label) == ("img", True)
        assert rows > 0, label
    minutes = browser.ask(
        "return Array.from(document.querySelectorAll('section:first-of-type tbody tr')).map("
        "row => Array.from(row.cells).map(cell => cell.textContent))"
    )
    samples = f"{finished.table('telemetry_requests')} WHERE endpoint = 'burst'"
    means = ask(
        f"SELECT min(at_s), sum(coalesce(arrivals, 0) + coalesce(rejections, 0)) / 60 FROM {samples} "
        f"GROUP BY (at_s - (SELECT min(at_s) FROM {samples})) // 60 ORDER BY 1"
    )
    assert len(minutes) == len(means)
    for (clock, requests, *_), (begin, mean) in zip(minutes[:-1], means, strict=False):
        assert clock == f"{datetime.fromtimestamp(begin, UTC):%H:%M:%S}"
        assert float(requests.replace(",", "")) == pytest.approx(mean, abs=0.06)


def test_the_page_tells_what_the_summary_tells(finished: Finished, browser: Browser) -> None:
    browser.open(finished.page, 1280)
    for name in ENDPOINTS:
        paragraphs = browser.ask(
            f"return Array.from(document.getElementById('{name}').parentElement.querySelectorAll(':scope > p'))"
            ".map(it => it.textContent).join('\\n')"
        )
        assert paragraphs == finished.paragraph(name)


def test_a_decision_says_why_when_one_points_at_it(finished: Finished, browser: Browser) -> None:
    browser.open(finished.page, 1280)
    browser.hover("#plot-burst .scatterlayer .points path[style*='rgb(213, 85, 42)']")
    told = browser.ask("return document.querySelector('#plot-burst .hoverlayer').textContent")
    assert re.search(r"up from \d+ to \d+: inflight_requests", told)
