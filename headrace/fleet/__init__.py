"""What runs around the simulated fleet: its scenario's file, its pace, its API's server, its journal's file, its
metrics."""
