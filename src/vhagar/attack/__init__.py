"""The hyper-adversarial attack: finds witnesses by gradient ascent and search of linear regions."""

from vhagar.attack.hints import NO_HINT, Hints
from vhagar.attack.incumbents import AttackFound
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
