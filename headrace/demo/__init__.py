"""The demonstrations: a whole line on this machine, with a simulated fleet that follows it, or with real engines."""
