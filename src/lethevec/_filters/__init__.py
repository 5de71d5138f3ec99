"""Filters on payloads, subjects and ids: the language, what it means, and its form for the native core."""

from .language import parse
from .program import compile_program, pattern_program
from .regex import Pattern
from .spec import matches
from .tree import Node

__all__ = ["Node", "Pattern", "compile_program", "matches", "parse", "pattern_program"]
