"""Test vectors for checkers of VHAGaR's certificates: models, certificates and the answers."""
