"""Tables of features: what their columns are taken for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar.errors import InvalidInput
from vhagar.fitting import read_table

PATIENTS = """\
age,weight,smoker,blood_a,blood_b,blood_0,ward,class
34,70.5,0,1,0,0,1,well
51,82,1,0,0,1,0,ill
47,64.25,0,0,1,0,0,well
"""


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(text)
    return path


def test_names_whole_numbers_and_groups_are_found(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, PATIENTS))
    assert found.features == ("age", "weight", "smoker", "blood_a", "blood_b", "blood_0", "ward")
    assert found.one_hot == ((3, 4, 5),)
    assert found.integer == (0, 2, 6)
    assert found.classes == ("ill", "well")
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0, 1]
    assert found.values[1].tolist() == [51, 82, 1, 0, 0, 1, 0]


def test_numbers_of_classes_stand_for_themselves(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, "a,kind\n1,2\n0.5,0\n"), "kind")
    assert found.labels is not None
    assert found.labels.tolist() == [2, 0]
    assert (found.classes, found.integer) == ((), ())
    assert read_table(table(tmp_path, "a,b\n1,2\n0.5,0\n")).labels is None


def test_columns_that_are_not_one_hot(tmp_path: Path) -> None:
    found = read_table(table(tmp_path, "c_red,c_green\n1,0\n1,1\n"))
    assert found.one_hot == ()
    assert found.integer == (0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a line of names"),
        ("a,b\n", "needs a line of names"),
        ("a,a\n1,2\n", "two columns .* are called 'a'"),
        ("a,\n1,2\n", "column 2 .* has no name"),
        ("a;b\n1;2\n", "separated by commas"),
        ("1.5,2\n1,2\n", "names of the columns, not numbers such as 1.5"),
        ("a,b\n1\n", "line 2 .* has 1 cells, not 2"),
        ("a,b\n1,2\n\n1,red\n", "line 4 .* 'red' in the column b.*--label"),
        ("a,b\n1,inf\n", "not a finite number"),
        ("a,b\n1,nan\n", "line 2 .* has no value in the column b"),
        ("a,b\n1,\n", "leave the line out"),
        ("class\n1\n", "no column of a feature"),
        ("a,class,label\n1,2,3\n", "several columns"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(table(tmp_path, text))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no column 'kind'; it has a, b"):
        read_table(table(tmp_path, "a,b\n1,2\n"), "kind")
    with pytest.raises(InvalidInput, match="cannot read the table"):
        read_table(tmp_path / "none.csv")


def test_values_keep_their_digits(tmp_path: Path) -> None:
    given = 0.1 + 0.2
    assert read_table(table(tmp_path, f"a\n{given!r}\n1\n")).values[0, 0] == np.float64(given)
