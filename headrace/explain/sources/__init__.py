"""Where cases come from: `find` asks the `tables` (by `table_rows`), `kafka` (by a `decision_log`), or both."""
