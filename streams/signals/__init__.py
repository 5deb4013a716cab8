"""One tick's reading of an endpoint's windows, metric by metric, as the record that is decided on. Pure."""
