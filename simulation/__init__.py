"""A fleet of vLLM-like replicas that serves made-up traffic, and reports and scales as a real one does.

`scenario` says what a fleet is made of. A `simulated_endpoint` ties one endpoint's parts together, second by second:
`traffic` comes, `serving` serves it at the speed of an `engine_model`, a `lifecycle` with `startup` times begins and
ends replicas, `samples` and `reporting_faults` are what is told of it, `summary` what is true. Others come in by the
`scale_api` to a `fleet` of endpoints, each with its `scale_target`; `faults` can be asked for, and the `journal` has
every call.
"""
