"""What the clients of each endpoint got, as the simulated fleet itself counted it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Served:
    """Requests of one endpoint in the whole run. `within_slo` got their first token within the SLO."""

    endpoint: str
    requests: int
    completed: int
    turned_away: int
    given_up: int
    within_slo: int

    @property
    def slo_share(self) -> float | None:
        """0..1 of all requests, those that were turned away or given up too; None where none came."""
        return self.within_slo / self.requests if self.requests else None
