"builtin.module"() ({
  "func.func"() <{function_type = (index, index, memref<?xf64>) -> (), sym_name = "kernel"}> ({
  ^bb0(%arg0: index, %arg1: index, %arg2: memref<?xf64>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 4 : index}> : () -> index
    %3 = "llvm.mlir.constant"() <{value = 1 : i64}> : () -> i64
    %4 = "arith.constant"() <{value = 1.500000e+00 : f64}> : () -> f64
    %5 = "enzymexla.gpu_wrapper"(%arg0, %1, %1, %arg1, %1, %1) ({
      "scf.parallel"(%0, %0, %0, %arg0, %1, %1, %1, %1, %1) <{operandSegmentSizes = array<i32: 3, 3, 3, 0>}> ({
      ^bb0(%arg3: index, %arg4: index, %arg5: index):
        "scf.parallel"(%0, %0, %0, %arg1, %1, %1, %1, %1, %1) <{operandSegmentSizes = array<i32: 3, 3, 3, 0>}> ({
        ^bb0(%arg6: index, %arg7: index, %arg8: index):
          %6 = "llvm.alloca"(%3) <{elem_type = !llvm.array<4 x f64>}> : (i64) -> !llvm.ptr
          %7 = "llvm.alloca"(%3) <{elem_type = f64}> : (i64) -> !llvm.ptr
          %8 = "enzymexla.pointer2memref"(%7) : (!llvm.ptr) -> memref<?xf64>
          "memref.store"(%4, %8, %0) : (f64, memref<?xf64>, index) -> ()
          "enzyme.autodiff_region"(%6) <{activity = [#enzyme<activity enzyme_const>], ret_activity = []}> ({
          ^bb0(%arg9: !llvm.ptr):
            "scf.parallel"(%0, %2, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
            ^bb0(%arg10: index):
              "memref.store"(%4, %arg2, %arg10) : (f64, memref<?xf64>, index) -> ()
              "scf.reduce"() : () -> ()
            }) : (index, index, index) -> ()
            "enzyme.yield"() : () -> ()
          }) : (!llvm.ptr) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index, index, index, index, index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index, index, index, index, index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
