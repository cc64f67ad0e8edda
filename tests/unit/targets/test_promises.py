from difftest.model import Pipeline
from difftest.targets import pipelines
from difftest.targets.promises import broken_promise, promises

CUDA = pipelines.resolve("enzyme-cuda", "enzyme-ad@0.0.16")
DIFF = pipelines.resolve("enzyme-diff", "enzyme-ad@0.0.16")
NVVM = pipelines.resolve("nvvm", "mlir")
EMPTY = '"builtin.module"() ({\n^bb0:\n}) : () -> ()'


def program(*, lower=0, upper="%n", step=1, body="", outer="gpu_wrapper", visibility="", loop="scf.parallel"):
    """A wrapper around a one-dimensional loop that stores into an argument."""
    bound = upper if upper.startswith("%") else "%u"
    constant = "" if upper.startswith("%") else f'%u = "arith.constant"() <{{value = {upper} : index}}> : () -> index'
    body = body or '"memref.store"(%x, %m, %i) : (f32, memref<?xf32>, index) -> ()'
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = (memref<?xf32>, index, f32) -> (), sym_name = "k"{visibility}}}> ({{
  ^bb0(%m: memref<?xf32>, %n: index, %x: f32):
    %l = "arith.constant"() <{{value = {lower} : index}}> : () -> index
    %s = "arith.constant"() <{{value = {step} : index}}> : () -> index
    {constant}
    %w = "enzymexla.{outer}"(%n, %n, %n, %n, %n, %n) ({{
      "{loop}"(%l, {bound}, %s) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%i: index):
        {body}
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }}) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def test_what_pipelines_promise():
    assert promises(CUDA).host
    assert promises(CUDA).kernels
    assert promises(DIFF).derivatives
    assert not promises(DIFF).host
    assert not promises(DIFF).kernels
    assert promises(NVVM).kernels
    assert not promises(NVVM).derivatives
    assert promises(Pipeline(text="canonicalize")) == promises(Pipeline(text=""))


def test_a_derivative_left_in_place_is_broken():
    left = '"builtin.module"() ({\n %0 = "enzyme.autodiff"(%x) : (f32) -> f32\n}) : () -> ()'
    assert broken_promise(DIFF, EMPTY, left) == "the result still holds enzyme.autodiff"
    assert broken_promise(Pipeline(text="canonicalize"), EMPTY, left) is None
    region = left.replace("enzyme.autodiff", "enzyme.autodiff_region")
    assert broken_promise(DIFF, EMPTY, region) is not None
    assert broken_promise(Pipeline(text="enzyme"), EMPTY, region) is None


def test_what_the_interpreter_runs_may_stay_until_the_host_is_lowered():
    left = '"builtin.module"() ({\n "enzyme.store"(%x, %m) : (f32, memref<f32>) -> ()\n}) : () -> ()'
    assert broken_promise(DIFF, EMPTY, left) is None
    assert broken_promise(CUDA, EMPTY, left) == "the result still holds enzyme.store"


def test_an_op_name_inside_a_string_is_not_an_op():
    assert broken_promise(CUDA, EMPTY, '"a.b"() {note = "enzyme.init"} : () -> ()') is None


def test_a_wrapper_that_surely_works_must_become_a_kernel():
    assert broken_promise(CUDA, program(), EMPTY) == "the result holds no kernel"
    assert broken_promise(CUDA, program(upper="4"), EMPTY) is not None
    assert broken_promise(CUDA, program(), '"gpu.binary"() : () -> ()') is None
    assert broken_promise(CUDA, program(), 'sym_name = "cudaLaunchKernel"') is None


def test_nothing_is_promised_where_folding_may_explain_the_result():
    load = '%v = "memref.load"(%m, %i) : (memref<?xf32>, index) -> f32\n'
    store = '"memref.store"(%v, %m, %i) : (f32, memref<?xf32>, index) -> ()'
    local = '%a = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<?xf32>\n'
    into_local = '"memref.store"(%x, %a, %i) : (f32, memref<?xf32>, index) -> ()'
    for text in (
        program(upper="0"),
        program(upper="1"),
        program(lower=4, upper="2"),
        program(step=0, upper="8"),
        program(body=load + store),
        program(body=local + into_local),
        program(body='"a.b"() : () -> ()'),
        program(visibility=', sym_visibility = "private"'),
        program(loop="scf.for"),
        program(outer="gpu_block"),
        "not mlir",
        EMPTY,
    ):
        assert broken_promise(CUDA, text, EMPTY) is None


def test_a_wrapper_means_nothing_to_upstream():
    assert broken_promise(NVVM, program(), EMPTY) is None


def test_a_launch_must_become_a_kernel():
    text = (
        program(outer="gpu_wrapper")
        .replace('%w = "enzymexla.gpu_wrapper"', '"gpu.launch"')
        .replace('-> index\n    "func', '-> ()\n    "func')
    )
    assert broken_promise(NVVM, text, EMPTY) == "the result holds no kernel"


def test_a_kernel_of_a_loop_without_iterations_is_not_promised():
    text = WRAPPED.format(upper="%c0")
    assert broken_promise(CUT, text, EMPTY) is None
    assert broken_promise(CUT, WRAPPED.format(upper="%n"), EMPTY) == "the result holds no kernel"


CUT = Pipeline(text="convert-parallel-to-gpu1,gpu-kernel-outlining,gpu-module-to-binary{format=isa}")
EMPTY = '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n'
WRAPPED = """\
"builtin.module"() ({{
  "func.func"() <{{function_type = (index, memref<1xf32>) -> (), sym_name = "k"}}> ({{
  ^bb0(%n: index, %m: memref<1xf32>):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %f = "arith.constant"() <{{value = 0.000000e+00 : f32}}> : () -> f32
    %e = "enzymexla.gpu_wrapper"(%c1, %c1, %c1, %c1, %c1, %c1) ({{
      "scf.parallel"(%c0, %n, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
      ^bb0(%i: index):
        "scf.parallel"(%c0, {upper}, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
        ^bb0(%j: index):
          "memref.store"(%f, %m, %c0) : (f32, memref<1xf32>, index) -> ()
          "scf.reduce"() : () -> ()
        }}) : (index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }}) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
