"""The hyper-adversarial attack: witnesses by gradient ascent and search among linear regions."""

from vhagar.attack.hints import NO_HINT, Hints
from vhagar.attack.keeper import AttackFound
from vhagar.attack.options import AttackOptions
from vhagar.attack.run import AttackResult, Suggestion, attack

__all__ = [
    "NO_HINT",
    "AttackFound",
    "AttackOptions",
    "AttackResult",
    "Hints",
    "Suggestion",
    "attack",
]
