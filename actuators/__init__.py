"""Consumers of decisions that carry them out, behind one port."""
