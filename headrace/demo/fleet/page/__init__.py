"""The page that each run leaves: one file with its plots, its words and its numbers, and nothing to fetch."""
