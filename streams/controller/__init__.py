"""One partition: records and time in, ticks out; the same after any restart. Pure."""
