"""Reads explanations again and compares them with the records: `check` is the whole, by the `rules` for each form of
sentence; those of `reasons`, `holds` and `outcomes` have modules of their own. `records` is what is compared with, and
`words` reads numbers and times back."""
