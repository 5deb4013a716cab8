"""Policies as operators write them: a folder of YAML files, checked as a whole, and the topic they are published to."""

from headrace.policies.folder import PolicyFolder, load_folder, load_policies
from headrace.policies.problems import PolicyError, Problem

__all__ = ["PolicyError", "PolicyFolder", "Problem", "load_folder", "load_policies"]
