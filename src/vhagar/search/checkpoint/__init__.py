"""A search on disk, to go on from after whatever has ended it."""

from vhagar.search.checkpoint.checkpoint import Checkpoint, SearchState, resumed
from vhagar.search.checkpoint.keeper import CheckpointKeeper

__all__ = ["Checkpoint", "CheckpointKeeper", "SearchState", "resumed"]
