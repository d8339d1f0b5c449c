"""From a bound to its place in the certificate.

A worker logs what it does (`log`), and its log travels with the report on its nodes. The parent
adds it to the tree of the search (`tree`), whose proofs lie in a store (`store`) with a scratch
file (`scratch`). At the end, the certificate is written (`recording`), and the checker is asked
about a small one (`review`). `tree_state` is what a checkpoint keeps of a tree.
"""
