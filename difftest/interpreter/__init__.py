"""The reference meaning of a program: see `interpret`."""

from difftest.interpreter.run import interpret

__all__ = ["interpret"]
