"""Answers in, samples out: the one path that live engines and recordings share."""

from collections.abc import Iterable

from collectors.answers import Answer
from collectors.deliveries import Delivery
from collectors.reports import Reports
from collectors.tracker import EngineTracker


class Collector:
    """One endpoint's replicas; hands on what their answers give."""

    def __init__(self, endpoint: str, replicas: Iterable[str], delivery: Delivery) -> None:
        self._trackers = {replica: EngineTracker(endpoint, replica) for replica in replicas}
        self._delivery = delivery
        self._last_s = 0.0
        self.reports = Reports(endpoint, self._trackers)

    def receive(self, replica: str, answer: Answer) -> None:
        """Raises KeyError for a replica that is not ours, OSError where the delivery's file cannot be written."""
        self._last_s = answer.at_s
        observation = self._trackers[replica].observe(answer)
        self._delivery.deliver(observation.samples, answer.at_s)
        self.reports.observed(replica, answer, observation)

    def close(self) -> None:
        """No more answers will come: what is held back is told, as of the last answer."""
        for replica, tracker in self._trackers.items():
            samples = tracker.close()
            self._delivery.deliver(samples, self._last_s)
            self.reports.told(replica, len(samples), {})
