"""Random programs that break GPU lowerings: draws in, valid MLIR text out. Knows no compiler."""

from generators.profiles import PROFILES, Profile, find_profile
from generators.program import generate, program_for_seed
from generators.source import HypothesisSource, SeededSource, Source, TracingSource

__all__ = [
    "PROFILES",
    "HypothesisSource",
    "Profile",
    "SeededSource",
    "Source",
    "TracingSource",
    "find_profile",
    "generate",
    "program_for_seed",
]
