"""The line with real engines: llama.cpp under changing load, decisions that nobody carries out."""
