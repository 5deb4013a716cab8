"""The demo's traffic: what real services were sent, as a few numbers each, and the program that made them.

`python -m headrace.demo.fleet.profiles.remake` makes them again from the public traces.
"""
