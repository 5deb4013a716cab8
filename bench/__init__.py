"""Benches: `python -m bench NAME --json`."""
