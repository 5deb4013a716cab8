"""The demo, run as its users run it."""
