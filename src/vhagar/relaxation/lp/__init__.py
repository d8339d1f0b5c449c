"""The lambda-LP of a region: it proposes multipliers, and the twin dual turns them into bounds."""
