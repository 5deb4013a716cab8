"""How records travel: tests against a real Kafka where it counts."""
