"""Why a scaling decision is what it is, in plain words: from the tables or from Kafka, and from the records alone.

`sources` find a `case`, a decision with the records that belong to it, for a `selector`. An `explanation` turns it into
`sentences`; `counterfactuals` are decided again with one thing changed (`redecide`), or taken from the record. What a
record holds beside its fields is read by `candidates` and `detail`, a user's TIME by `time_argument`.

A checker that shares no code with this package, tests/explain/checker, reads the sentences again and compares each
number and word in them with the records.
"""
