"""Reducing a pipeline: passes, nested passes, options."""

from reducer.evaluator import SerialEvaluator
from reducer.pipeline import PipelineSubject, PipelineSyntax, options_of
from reducer.problem import Candidate, FunctionPredicate
from reducer.reduce import reduce_pipeline


def split(text):
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]] if text else []


SYNTAX = PipelineSyntax(split=split, join=",".join)


def reduced(pipeline, needed):
    return reduce_pipeline(
        Candidate(text="x", pipeline=pipeline),
        syntax=SYNTAX,
        evaluator=SerialEvaluator(FunctionPredicate(function=lambda c: all(n in c.pipeline for n in needed))),
    ).best.pipeline


def test_only_needed_passes_stay_in_order():
    assert reduced("a,b,c,d,e", ["b", "e"]) == "b,e"


def test_nested_pipelines_lose_passes_and_vanish_when_empty():
    assert reduced("a,func.func(b,keep,d),gpu.module(e)", ["keep"]) == "func.func(keep)"


def test_options_go_where_they_are_not_needed():
    assert reduced("a{x=1 y=2},b{z=3}", ["a", "y=2", "b"]) == "a{y=2},b"


def test_options_with_brackets_and_quotes_are_one():
    assert options_of('enzyme{postpasses="canonicalize,cse" k={a b} flag}') == [
        'postpasses="canonicalize,cse"',
        "k={a b}",
        "flag",
    ]
    assert options_of("canonicalize") == []


def test_elements_are_counted_at_every_depth():
    subject = PipelineSubject(Candidate(text="x", pipeline="a,func.func(b,c)"), SYNTAX)
    assert list(subject.elements) == [(0,), (1,), (1, 0), (1, 1)]
    assert subject.size.passes == 4


def test_the_text_is_left_alone():
    result = reduce_pipeline(
        Candidate(text="x", pipeline="a,b"),
        syntax=SYNTAX,
        evaluator=SerialEvaluator(FunctionPredicate(function=lambda _: True)),
    )
    assert (result.best.text, result.best.pipeline) == ("x", "")
