"""What contract.md and decisions.md say of windows and signals, told in the plainest way: dictionaries, loops and
fractions, nothing forgotten, nothing cut into batches, no restart. It shares no code with what it judges."""
