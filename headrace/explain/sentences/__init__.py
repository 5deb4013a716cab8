"""The sentences of an explanation, a module for each of its parts in their order: `decided` with `reasons`, `observed`,
`bounds`, `otherwise`. `formatting` has numbers, units and times, `sentence` what a sentence is."""
