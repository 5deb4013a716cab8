"""Serving of one endpoint's replicas, second by second, in arrays over replicas and their sequences."""
