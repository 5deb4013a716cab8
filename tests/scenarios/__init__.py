"""Other systems' failures as telemetry to replay, one file each, with the decisions that are right.

`ID.jsonl.gz` is the telemetry, `ID.yaml` the policy, `ID.json` the decisions expected. The first two are written by
`python -m tests.scenarios.write` from the scenes; what is expected is renewed by the same command with `--expected`,
and its diff is reviewed as behaviour.
"""
