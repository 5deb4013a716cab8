"""Faust around the controllers: what is read, in which order, and the transactions that are written."""
