"""One-second buckets of every series, and the grids and merged histograms that are read from them. Pure."""
