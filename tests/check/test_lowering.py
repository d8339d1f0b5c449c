"""Operations on values become stages and ReLU layers: the same function, units in the one order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.joined import Joined
from vhagar_check.layers import Dense, Linear, Network
from vhagar_check.lowering import Budget, Flow, Operand, Value

MOST = 2**22  # entries of one value
TOTAL = 2**26  # entries of everything


def dense(rng: np.random.Generator, out: int, into: int) -> Dense:
    return Dense(rng.integers(-3, 4, (out, into)) / 2, rng.integers(-3, 4, out) / 4)


def exactly(numbers: np.ndarray) -> list[Fraction]:
    return [Fraction(number) for number in numbers.tolist()]


class Drawn:
    """A flow of random operations, written down a second time: what each value is at an input."""

    def __init__(self, seed: int, steps: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.flow = Flow((1, 3))
        self.x = rng.integers(-9, 10, 3) / 2
        self.values = [self.flow.input]
        self.at = {self.flow.input: self.x}
        self.made_of: dict[Value, tuple[bool, list[Value]]] = {}
        for _ in range(steps):
            self._step(rng)

    def _step(self, rng: np.random.Generator) -> None:
        drawn = [self.values[-1 - int(k)] for k in rng.geometric(0.4, 3) - 1 if k < len(self.at)]
        if not drawn or rng.random() < 0.35:
            operand = drawn[0] if drawn else self.values[-1]
            self._add(self.flow.units(operand), np.maximum(self.at[operand], 0), True, [operand])
            return
        out = int(rng.integers(1, 4))
        operands, total = [], np.zeros(out)
        for k, value in enumerate(dict.fromkeys(drawn)):
            if value.size == out and rng.random() < 0.5:
                factor = float(rng.choice([-1.0, 2.0]))
                operands.append(Operand(value, factor=factor))
                total = total + factor * self.at[value]
                continue
            layer = dense(rng, out, value.size)
            layer = layer if k == 0 else Dense(layer.weight, np.zeros(out))
            operands.append(Operand(value, layer))
            total = total + layer.weight @ self.at[value] + layer.bias
        result = self.flow.sum(*operands)
        self._add(result, total, False, [operand.value for operand in operands])

    def _add(self, value: Value, at: np.ndarray, is_unit: bool, operands: list[Value]) -> None:
        self.values.append(value)
        self.at[value] = at
        self.made_of[value] = is_unit, operands

    def depth(self, value: Value) -> int:
        is_unit, operands = self.made_of.get(value, (False, []))
        return is_unit + max((self.depth(operand) for operand in operands), default=0)

    def needed(self, output: Value) -> list[Value]:
        """What the output depends on, in order."""
        wanted = {output}
        for value in reversed(self.values):
            if value in wanted and value in self.made_of:
                wanted.update(self.made_of[value][1])
        return [value for value in self.values if value in wanted]

    def layer(self, k: int, output: Value) -> tuple[list[Value], list[Value]]:
        """The operands of ReLU layer k's units, and the values that pass through it."""
        needed = self.needed(output)
        made = [(value, *self.made_of[value]) for value in needed if value in self.made_of]
        units = [operands[0] for value, is_unit, operands in made if is_unit]
        later = {
            operand
            for value, is_unit, operands in made
            if not is_unit and self.depth(value) > k
            for operand in operands
        }
        first = [operand for operand in units if self.depth(operand) == k]
        return first, [value for value in needed if value in later and self.depth(value) <= k]


@pytest.mark.parametrize("seed", range(40))
def test_the_network_is_the_function_and_its_units_have_their_order(seed: int) -> None:
    drawn = Drawn(seed)
    for output in drawn.values:
        network = drawn.flow.network(output)
        assert len(network.stages) == drawn.depth(output) + 1
        assert network.input_shape == (1, 3)
        state = Exact.of(drawn.x)
        for k, stage in enumerate(network.stages):
            for layer in stage:
                state = layer.exact_forward(state)
            if k == drawn.depth(output):
                assert state.fractions() == exactly(drawn.at[output])
                continue
            units, carried = drawn.layer(k, output)
            entering = [drawn.at[value] for value in units + carried]
            assert state.fractions() == exactly(np.concatenate(entering))
            counts = [sum(value.size for value in part) for part in (units, carried)]
            linear = network.linear_units(k)
            if not carried:
                assert linear is None
            else:
                assert linear.tolist() == [False] * counts[0] + [True] * counts[1]
            state = state.positive(linear)


def test_values_know_their_size_and_their_depth() -> None:
    rng, flow = np.random.default_rng(0), Flow((2, 3))
    first = flow.through(flow.input, dense(rng, 4, 6), dense(rng, 2, 4))
    second = flow.units(first)
    both = flow.sum(Operand(second), Operand(first, factor=-1.0))
    values = [flow.input, first, second, both]
    assert [(value.size, value.depth) for value in values] == [(6, 0), (2, 0), (2, 1), (2, 1)]
    assert [operand.value for operand in flow.summands(both)] == [second, first]
    assert flow.summands(second) == flow.summands(flow.input) == ()


def test_what_does_not_fit_is_refused() -> None:
    rng, flow = np.random.default_rng(0), Flow((3,))
    with pytest.raises(Rejected, match="does not fit what it receives"):
        flow.through(flow.input, dense(rng, 3, 2))
    two = flow.through(flow.input, dense(rng, 2, 3))
    with pytest.raises(Rejected, match="different sizes"):
        flow.sum(Operand(flow.input), Operand(two))
    with pytest.raises(Rejected, match="different sizes"):
        flow.sum(Operand(flow.input, dense(rng, 1, 3)), Operand(two))
    with pytest.raises(Rejected, match="different sizes"):
        flow.sum()


def layers_of(network: Network) -> list[list[Linear]]:
    return [list(stage) for stage in network.stages]


def test_a_chain_is_its_own_layers() -> None:
    rng, flow = np.random.default_rng(0), Flow((3,))
    a, b, c = dense(rng, 2, 3), dense(rng, 4, 2), dense(rng, 2, 4)
    units = flow.units(flow.through(flow.input, a, b))
    network = flow.network(flow.through(units, c))
    assert layers_of(network) == [[a, b], [c]]
    assert network.linear == ()


def test_a_copy_is_no_layer_and_a_value_with_a_factor_is_one() -> None:
    flow = Flow((3,))
    assert layers_of(flow.network(flow.input)) == [[]]
    assert layers_of(flow.network(flow.sum(Operand(flow.input)))) == [[]]
    assert layers_of(flow.network(flow.units(flow.units(flow.input)))) == [[], [], []]
    (stage,) = flow.network(flow.sum(Operand(flow.input, factor=-1.0))).stages
    assert [layer.kernel.tolist() for layer in stage] == [[-1.0]]


def sizes_of(network: Network) -> list[list[tuple[int, int]]]:
    return [[(layer.in_size, layer.out_size) for layer in stage] for stage in network.stages]


def test_values_side_by_side_are_one_layer_in_the_order_in_which_they_are_wanted() -> None:
    """The second of two sums has the first unit; the layer gives the entries in that order."""
    rng, flow = np.random.default_rng(0), Flow((3,))
    one, two = (flow.through(flow.input, dense(rng, size, 3)) for size in (1, 2))
    second, first = flow.units(two), flow.units(one)
    last = flow.sum(Operand(second, dense(rng, 1, 2)), Operand(first))
    network = flow.network(last)
    assert sizes_of(network) == [[(3, 3)], [(3, 1)]]
    ((joined,), _) = network.stages
    assert isinstance(joined, Joined)
    assert [block[0].out_size for block in joined.blocks] == [2, 1]


def test_what_is_wanted_twice_is_computed_once_and_copied() -> None:
    rng, flow = np.random.default_rng(0), Flow((3,))
    first, other = (flow.through(flow.input, dense(rng, 2, 3)) for _ in range(2))
    both = flow.sum(Operand(flow.units(first)), Operand(first, factor=-1.0))
    assert sizes_of(flow.network(both)) == [[(3, 2), (2, 4)], [(4, 2)]]
    with_other = flow.sum(Operand(both), Operand(flow.units(other)))
    assert sizes_of(flow.network(with_other)) == [[(3, 4), (4, 6)], [(6, 4), (4, 2)]]
    # What an earlier level computes is copied by the last one, in the layer that there is anyway.
    deeper = flow.units(flow.through(first, dense(rng, 1, 2)))
    last = flow.sum(Operand(both), Operand(deeper, dense(rng, 2, 1)))
    assert sizes_of(flow.network(last))[0] == [(3, 2), (2, 5)]
    # So is the input.
    again = flow.sum(Operand(flow.units(flow.input)), Operand(flow.input))
    assert sizes_of(flow.network(again)) == [[(3, 6)], [(6, 3)]]


def test_values_are_kept_no_longer_than_they_are_taken() -> None:
    rng, flow = np.random.default_rng(0), Flow((3,))
    first = flow.through(flow.input, dense(rng, 5, 3))
    second = flow.sum(Operand(first, dense(rng, 2, 5)), Operand(flow.input, dense(rng, 2, 3)))
    third = flow.sum(Operand(second, dense(rng, 4, 2)), Operand(first, dense(rng, 4, 5)))
    last = flow.through(third, dense(rng, 1, 4))
    assert sizes_of(flow.network(last)) == [[(3, 8), (8, 7), (7, 4), (4, 1)]]


def test_the_least_cost_of_an_operation_and_the_largest_value() -> None:
    budget = Budget()
    assert budget.left == TOTAL
    budget.spend(MOST)
    budget.spend(0)
    budget.spend(64)
    budget.spend(65)
    assert budget.left == TOTAL - MOST - 64 - 64 - 65
    with pytest.raises(Rejected, match="too large"):
        Budget().spend(MOST + 1)
    last = Budget(100)
    last.spend(100)
    with pytest.raises(Rejected, match="too large"):
        last.spend(1)


def test_everything_that_is_made_is_paid_for() -> None:
    """Each value once, again for each ReLU layer that it passes, and each layer's entries."""
    flow = Flow((10, 20))
    spent = [200]
    assert flow.budget.left == TOTAL - sum(spent)
    half = flow.through(flow.input, Dense(np.ones((100, 200)), np.zeros(100)))
    bent = flow.units(flow.units(half))
    both = flow.sum(Operand(bent), Operand(half))
    spent += [100, 100, 100, 100]
    assert flow.budget.left == TOTAL - sum(spent)
    flow.network(both)
    spent += [100, 100]  # it passes two layers
    spent += [100, 100 + 100]  # computed, and copied
    spent += [100]  # the last sum
    assert flow.budget.left == TOTAL - sum(spent)
