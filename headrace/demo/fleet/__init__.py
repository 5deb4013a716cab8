"""The closed loop: a simulated fleet under shipped traffic, decisions, and an actuator that carries them out."""
