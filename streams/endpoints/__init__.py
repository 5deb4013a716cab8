"""What is known of one endpoint between its ticks: clocks, supply, cross-checks, windows. Pure."""
