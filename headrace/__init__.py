"""Settings, wiring, command line, embedded broker, clock, health and metrics endpoints."""
