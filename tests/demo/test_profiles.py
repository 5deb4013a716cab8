"""What the demo ships: traffic that the traces say, a scenario and policies that are good and fit each other."""

from pathlib import Path

import msgspec
import pytest

from headrace.demo.fleet.profiles import remake
from headrace.demo.fleet.script import BURST, CACHED, ENDPOINTS, read_profile, scenario_of
from headrace.policies import load_policies
from simulation.scenario import Scenario
from simulation.vllm_bounds import VLLM_BOUNDS_MS

PROFILES = Path(remake.__file__).parent
POLICIES = PROFILES.parent / "policies"
SLOS_MS = {policy.endpoint: policy.slo.ttft_p95_ms or 0.0 for policy in load_policies(POLICIES)}


def test_the_shipped_profiles_are_made_again_from_the_traces(recordings: Path, tmp_path: Path) -> None:
    made = remake.write_profiles(recordings, tmp_path)
    assert {path.name for path in made} == {path.name for path in PROFILES.glob("*.yaml")}
    for path in made:
        assert path.read_text() == (PROFILES / path.name).read_text()


@pytest.mark.parametrize("excerpt", remake.EXCERPTS, ids=lambda excerpt: excerpt.name)
def test_a_profile_has_as_many_requests_as_the_trace(excerpt: remake.Excerpt, recordings: Path) -> None:
    """Counted from the file without the code that made the profile."""
    lines = (recordings / "azure-llm-2023" / excerpt.file).read_text().splitlines()[1:]
    clocks = [line.partition(",")[0].partition(" ")[2].split(":") for line in lines]
    seconds = [int(hours) * 3600 + int(minutes) * 60 + float(rest) for hours, minutes, rest in clocks]
    begin = seconds[0] + excerpt.from_s
    profile = read_profile(excerpt.name)
    total = sum(profile["requests_per_s"]) * profile["step_s"]
    assert total == pytest.approx(sum(begin <= second < begin + remake.SECONDS for second in seconds), abs=1)
    assert (profile["licence"], "Splitwise" in profile["cite"]) == ("CC-BY-4.0", True)


def test_the_cached_share_is_that_of_mooncakes_conversations(recordings: Path) -> None:
    seen: set[int] = set()
    shares = []
    for line in (recordings / "mooncake" / "conversation_trace.jsonl").read_bytes().splitlines():
        request = msgspec.json.decode(line)
        blocks, length = request["hash_ids"], request["input_length"]
        known = next((index for index, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        shares.append(min(known * 512, length - 1) / length)
    shares.sort()
    for fraction, value in zip(CACHED["fractions"], CACHED["values"], strict=True):
        assert value == pytest.approx(shares[round(fraction * (len(shares) - 1))], abs=0.01)


@pytest.mark.parametrize("seconds", [360, 1200, 3000])
def test_the_scenario_is_one_that_the_fleet_takes(seconds: float) -> None:
    scenario = msgspec.convert(scenario_of(seconds, SLOS_MS), Scenario)
    assert [spec.endpoint for spec in scenario.endpoints] == [one.name for one in ENDPOINTS]
    for spec in scenario.endpoints:
        traffic, engine, startup = spec.traffic.build(), spec.engine.build(), spec.startup.build()
        assert traffic.rate.points[-1][0] >= min(seconds, BURST.ends_s(seconds))
        assert engine.gpus == next(one.gpus for one in ENDPOINTS if one.name == spec.endpoint)
        assert startup.p95_s < 120
    burst = scenario.endpoints[0].traffic.build().rate
    assert float(burst.at(BURST.begins_s(seconds) - 1)) == 10
    assert float(burst.at(BURST.begins_s(seconds) + BURST.ramp_s)) == 1000
    assert float(burst.at(BURST.ends_s(seconds) + BURST.ramp_s)) == 10


def test_the_policies_fit_the_fleet() -> None:
    """Seats for the target, an SLO that vLLM's buckets can judge, and the start-up that the replicas have."""
    scenario = msgspec.convert(scenario_of(1200, SLOS_MS), Scenario)
    policies = {policy.endpoint: policy for policy in load_policies(POLICIES)}
    assert policies.keys() == {spec.endpoint for spec in scenario.endpoints}
    for spec in scenario.endpoints:
        policy = policies[spec.endpoint]
        assert policy.mode == "act"
        assert policy.min_replicas <= spec.replicas <= policy.max_replicas <= spec.max_replicas
        assert policy.concurrency.target < (spec.engine.max_num_seqs or 0)
        assert policy.slo.ttft_p95_ms in VLLM_BOUNDS_MS["ttft_ms"]
        assert policy.model.startup_seconds == pytest.approx(spec.startup.build().p95_s, abs=1)
