"""Headers say how a program is called; whatever is not understood is refused with its place."""

import pytest

from corpus.header import format_inputs, input_spec, parameter_names, parse_header, parse_inputs
from difftest.errors import UsageError
from difftest.model import InputSpec

PRETTY = """// DIFFTEST: entry=mre inputs=%d0=2,%mem:[8,3],seed=7
// RUN: difftest run %s
func.func @mre(%d0: index, %mem: memref<?x?xf64>) { return }
"""
GENERIC = """"builtin.module"() ({
  "func.func"() <{function_type = (index, memref<?xf64>) -> (), sym_name = "mre"}> ({
  ^bb0(%arg0: index, %arg1: memref<?xf64>):
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_header_gives_entry_inputs_and_run_lines():
    header = parse_header(PRETTY)
    assert header.entry == "mre"
    assert header.runs == ("difftest run %s",)
    spec = input_spec(header, PRETTY, "mre")
    assert (dict(spec.scalars), dict(spec.shapes), spec.seed) == ({0: 2}, {1: (8, 3)}, 7)


def test_names_are_found_in_both_forms():
    assert parameter_names(PRETTY, "mre") == ("d0", "mem")
    assert parameter_names(GENERIC, "mre") == ("arg0", "arg1")


def test_arguments_can_be_counted():
    spec = input_spec(parse_inputs("%1:[4],%arg0=3"), GENERIC, "mre")
    assert dict(spec.scalars) == {0: 3} and dict(spec.shapes) == {1: (4,)}


def test_inputs_survive_formatting():
    spec = InputSpec(scalars={0: 3, 2: -1.5}, shapes={1: (2, 3), 3: ()}, seed=9, profile="special")
    assert input_spec(parse_inputs(format_inputs(spec)), "", "none") == spec


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("// DIFFTEST: colour=red", "unknown header entry 'colour=red'"),
        ("// DIFFTEST: entry", "unknown header entry 'entry'"),
        ("// DIFFTEST: inputs=%n", "'%n' is neither"),
        ("// DIFFTEST: inputs=%n=two", "'two' is not a number"),
    ],
)
def test_what_is_not_understood_is_refused_with_file_and_line(line, part):
    with pytest.raises(UsageError) as error:
        parse_header(f"\n{line}\n", path="a.mlir")
    assert "a.mlir:2" in str(error.value) and part in str(error.value)


def test_an_unknown_name_is_refused_with_those_that_exist():
    with pytest.raises(UsageError, match="%x; it has: %d0, %mem"):
        input_spec(parse_inputs("%x=1"), PRETTY, "mre")
