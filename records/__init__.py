"""The frozen values that travel through Headrace, one module a family.

A record is a JSON object on Kafka, a row in a Delta table and a line in a replay file; the definition here is the
one for all three. Validation that needs one value alone is in the type (msgspec `Meta`); validation that needs two
is in `__post_init__`. Nothing here reads a clock, a file or the environment.
"""
