"""The whole line as its users run it: `headrace` processes on a real Kafka, killed and counted."""
