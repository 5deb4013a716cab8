"""Pure functions and small state machines: a tick's signals in, decisions out. No clock, no I/O, no log."""
