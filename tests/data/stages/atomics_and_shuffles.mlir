"builtin.module"() ({
  "func.func"() <{function_type = (memref<64xf32>, memref<1xf32>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<64xf32>, %arg1: memref<1xf32>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 2 : index}> : () -> index
    %3 = "arith.constant"() <{value = 32 : index}> : () -> index
    %4 = "arith.constant"() <{value = 32 : i32}> : () -> i32
    %5 = "arith.constant"() <{value = 1 : i32}> : () -> i32
    "gpu.launch"(%2, %1, %1, %3, %1, %1) <{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>}> ({
    ^bb0(%arg2: index, %arg3: index, %arg4: index, %arg5: index, %arg6: index, %arg7: index, %arg8: index, %arg9: index, %arg10: index, %arg11: index, %arg12: index, %arg13: index):
      %6 = "arith.muli"(%arg2, %3) : (index, index) -> index
      %7 = "arith.addi"(%6, %arg5) : (index, index) -> index
      %8 = "memref.load"(%arg0, %7) : (memref<64xf32>, index) -> f32
      %9:2 = "gpu.shuffle"(%8, %5, %4) <{mode = #gpu<shuffle_mode xor>}> : (f32, i32, i32) -> (f32, i1)
      %10 = "gpu.all_reduce"(%9#0) <{op = #gpu<all_reduce_op add>, uniform}> ({
      }) : (f32) -> f32
      %11 = "memref.atomic_rmw"(%10, %arg1, %0) <{kind = 0 : i64}> : (f32, memref<1xf32>, index) -> f32
      "gpu.terminator"() : () -> ()
    }) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
