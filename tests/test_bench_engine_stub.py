"""The engine that the `producer` bench puts beside a collector is one that a collector reads to the full."""

from bench.engine_stub import BODY_BYTES, exposition
from collectors.answers import Answer, Path
from collectors.tracker import EngineTracker
from records.telemetry import RequestSample


def test_its_scrapes_give_full_samples() -> None:
    tracker = EngineTracker("chat", "chat-0")
    samples: list[RequestSample] = []
    for scrape in range(1, 6):
        body = exposition(scrape)
        assert BODY_BYTES <= len(body) < 1.1 * BODY_BYTES
        answer = Answer(at_s=1_700_000_000.5 + scrape, path=Path.METRICS, code=200, body=body)
        samples += tracker.observe(answer).samples
    histograms = [sample.ttft_ms and sample.tpot_ms and sample.e2e_ms and sample.queue_ms for sample in samples]
    assert len(histograms) >= 3
    assert all(histograms[1:])
    assert [sample.completions for sample in samples][1:3] == [20, 20]
