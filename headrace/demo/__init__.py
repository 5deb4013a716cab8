"""The demonstration: the whole line on this machine, with real engines under changing load."""
