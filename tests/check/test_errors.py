"""Refusals: what a stranger wrote reaches a terminal without the characters that it obeys."""

from __future__ import annotations

from vhagar_check.errors import Rejected, Unproved


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert str(Rejected("über 'x'\x1b[2K\rPROVED\n\u202e")) == (
        r"über 'x'\x1b[2K\rPROVED\n\u202e"  # and what is harmless stays
    )


def test_a_missed_claim_says_what_is_proved() -> None:
    found = Unproved("too low\n", {1: 2.5})
    assert isinstance(found, Rejected)
    assert str(found) == r"too low\n"
    assert found.uppers == {1: 2.5}
