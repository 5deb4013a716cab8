"""A fleet of vLLM-like replicas that serves made-up traffic, and reports and scales as a real one does."""
