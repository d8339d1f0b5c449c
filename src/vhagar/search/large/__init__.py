"""Networks that no linear program can hold: first-order bounds, and the attack by gradients."""
