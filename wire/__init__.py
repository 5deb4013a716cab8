"""How records travel: JSON, Arrow frames, Delta schemas, topics, Kafka clients, the producer that pods embed."""
