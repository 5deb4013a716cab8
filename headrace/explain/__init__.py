"""Why a scaling decision is what it is, in plain words: from the tables or from Kafka, and from the records alone.

`find` gathers a `Case` (the decision and what belongs to it), `explain` turns it into sentences, `check` reads
sentences again and compares each number and word in them with the records; it shares no code with the writers.
"""
