"""Serving of one endpoint's replicas, second by second, in arrays over replicas and their sequences.

`replicas` is the whole: the `gateway` where requests wait for a replica, the `routing` to one, the `engines` and the
`gpus`. In an engine, requests (`rows`) wait, go through `prefill`, then `decoding`, at a `pace` that both share, and
may meet `preemption`. `work` and the `ledger` keep what was done, and a `second` shows it. What must hold between two
seconds, tests/simulation/conservation.py says.
"""
