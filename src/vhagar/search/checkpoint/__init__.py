"""A search on disk, from which it can be resumed."""

from vhagar.search.checkpoint.checkpoint import Checkpoint, SearchState, resumed
from vhagar.search.checkpoint.keeper import CheckpointKeeper

__all__ = ["Checkpoint", "CheckpointKeeper", "SearchState", "resumed"]
