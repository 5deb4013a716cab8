"""What runs around the simulated fleet: its pace, its API's server, its journal's file, its metrics."""
