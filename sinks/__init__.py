"""Consumers that write every topic to its Delta table, exactly once."""
