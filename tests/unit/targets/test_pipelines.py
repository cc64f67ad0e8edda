import pytest

from difftest.errors import UsageError
from difftest.targets import pipelines

NESTED = 'a,func.func(b{x=1,2},c),enzyme{postpasses="d,e{f=1}"},inline{default-pipeline={g h}},gpu.module(func.func(i))'


def test_split_stops_at_brackets_and_quotes():
    assert pipelines.split(NESTED) == (
        "a",
        "func.func(b{x=1,2},c)",
        'enzyme{postpasses="d,e{f=1}"}',
        "inline{default-pipeline={g h}}",
        "gpu.module(func.func(i))",
    )


def test_join_undoes_split_for_every_named_pipeline():
    labels = ["enzyme-ad@0.0.14", "enzyme-ad@0.0.15", "enzyme-ad@0.0.16", "mlir"]
    texts = [pipelines.resolve(n, label).text for label in labels for n in pipelines.available(label)]
    assert len(texts) >= 8 + 8 + 8 + 5
    for text in texts:
        assert pipelines.join(pipelines.split(text)) == text


@pytest.mark.parametrize("text", ["a,,b", "a,", "a(b", "a)b", "a{b)}", 'a{x="y}'])
def test_text_that_cannot_be_split_is_a_usage_error(text):
    with pytest.raises(UsageError):
        pipelines.split(text)


def test_blank_text_has_no_elements():
    assert pipelines.split("  ") == ()


@pytest.mark.parametrize(
    ("element", "name"),
    [
        ("canonicalize", "canonicalize"),
        ("func.func(gpu-async-region)", "gpu-async-region"),
        ("builtin.module(func.func(affine-loop-tile{tile-sizes=4,4}))", "affine-loop-tile"),
        ("inline{default-pipeline={canonicalize cse} max-iterations=4}", "inline"),
        ("gpu.module(lower-affine,convert-scf-to-cf)", "gpu.module"),
        ("gpu.module(cse,cse)", "cse"),
    ],
)
def test_an_element_is_blamed_under_its_pass(element, name):
    assert pipelines.pass_name(element) == name


def test_unnest_makes_one_element_for_each_pass():
    assert pipelines.unnest("gpu.module(a,func.func(b{x=1},c))") == (
        "gpu.module(a)",
        "gpu.module(func.func(b{x=1}))",
        "gpu.module(func.func(c))",
    )
    assert pipelines.unnest("a{b=c}") == ("a{b=c}",)


def test_all_pass_names_sees_nested_and_post_passes():
    assert pipelines.all_pass_names(NESTED) == ("a", "b", "c", "enzyme", "d", "e", "inline", "i")


def test_named_pipelines_differ_by_version():
    old = pipelines.resolve("enzyme-cuda", "enzyme-ad@0.0.15")
    new = pipelines.resolve("enzyme-cuda", "enzyme-ad@0.0.16")
    assert "canonicalize-parallel" not in old.text
    assert "canonicalize-parallel" in new.text
    assert old.env == new.env == {"POLYGEIST_GPU_KERNEL_BLOCK_SIZE": "64"}
    assert pipelines.resolve("enzyme-cuda", "enzyme-ad@0.0.21").text == new.text
    assert "+ptx78" in pipelines.resolve("nvvm", "mlir").text
    assert "+ptx78" in pipelines.resolve("nvvm", "opt:/x/mlir-opt").text
    assert "+ptx78" not in pipelines.resolve("nvvm", "opt:/x/enzymexlamlir-opt").text


def test_a_pipeline_a_target_lacks_is_a_usage_error_that_lists_what_it_has():
    with pytest.raises(UsageError, match=r"enzyme-cuda.*mlir.*nvvm"):
        pipelines.resolve("enzyme-cuda", "mlir")


def test_a_typo_of_a_name_is_a_usage_error_with_a_suggestion():
    with pytest.raises(UsageError, match="did you mean 'nvvm'"):
        pipelines.resolve("nvmm", "mlir")


@pytest.mark.parametrize("text", ["canonicalize", "parallel-lower", "enzyme", "foo", "cse,foo{a=b}", ""])
def test_plausible_pipelines_are_left_to_the_toolchain(text):
    assert pipelines.resolve(text, "mlir").text == text


@pytest.mark.parametrize("text", ["hello world", "a;b", "/tmp/x.mlir", "a,b c"])
def test_text_that_is_no_pipeline_is_a_usage_error(text):
    with pytest.raises(UsageError):
        pipelines.resolve(text, "mlir")


def test_environment_is_part_of_a_literal_pipeline_and_survives_formatting():
    pipeline = pipelines.resolve("A_B=64 C= canonicalize, cse", "mlir")
    assert pipeline.env == {"A_B": "64", "C": ""}
    assert pipeline.text == "canonicalize,cse"
    assert pipelines.resolve(pipelines.format_pipeline(pipeline), "mlir") == pipeline
