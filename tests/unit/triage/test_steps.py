"""Pipelines taken apart, passes inside options included."""

import pytest

from difftest.triage.steps import inner_passes, inner_steps, options_of


@pytest.mark.parametrize(
    ("element", "passes"),
    [
        ("canonicalize", ()),
        ("canonicalize{max-iterations=4}", ()),
        ('enzyme{postpasses="canonicalize,cse{x=1}" other=2}', ("canonicalize", "cse{x=1}")),
        ("enzyme{postpasses={canonicalize,cse}}", ("canonicalize", "cse")),
        ("inline{default-pipeline=canonicalize max-iterations=4}", ("canonicalize",)),
        ('enzyme{postpasses=""}', ()),
    ],
)
def test_passes_of_a_pipeline_valued_option_are_listed(element, passes):
    assert inner_passes(element) == passes


def test_steps_grow_the_list_and_end_with_all_of_it():
    steps = inner_steps('enzyme{a=1 postpasses="x,y{k=2}" b=3}')
    assert [s.name for s in steps] == ["enzyme", "x", "y"]
    assert [s.options for s in steps] == ['a=1 postpasses="x,y{k=2}" b=3', "", "k=2"]
    assert [s.element for s in steps] == [
        'enzyme{a=1 postpasses="" b=3}',
        'enzyme{a=1 postpasses="x" b=3}',
        'enzyme{a=1 postpasses="x,y{k=2}" b=3}',
    ]


def test_an_element_without_such_an_option_has_no_steps():
    assert inner_steps("scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,4}") == ()


def test_options_are_those_of_the_innermost_pass():
    assert options_of("func.func(scf.for(unroll{factor=2}))") == "factor=2"
    assert options_of("func.func(cse)") == ""
