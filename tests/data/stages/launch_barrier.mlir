"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf32>, memref<?xf32>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index):
    %0 = "arith.constant"() <{value = 1 : index}> : () -> index
    %1 = "arith.constant"() <{value = 16 : index}> : () -> index
    %2 = "arith.constant"() <{value = 15 : index}> : () -> index
    "gpu.launch"(%arg2, %0, %0, %1, %0, %0) <{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>, workgroup_attributions = 1 : i64}> ({
    ^bb0(%arg3: index, %arg4: index, %arg5: index, %arg6: index, %arg7: index, %arg8: index, %arg9: index, %arg10: index, %arg11: index, %arg12: index, %arg13: index, %arg14: index, %arg15: memref<16xf32, #gpu.address_space<workgroup>>):
      %3 = "arith.muli"(%arg3, %arg12) : (index, index) -> index
      %4 = "arith.addi"(%3, %arg6) : (index, index) -> index
      %5 = "memref.load"(%arg0, %4) : (memref<?xf32>, index) -> f32
      "memref.store"(%5, %arg15, %arg6) : (f32, memref<16xf32, #gpu.address_space<workgroup>>, index) -> ()
      "gpu.barrier"() : () -> ()
      %6 = "arith.subi"(%2, %arg6) : (index, index) -> index
      %7 = "memref.load"(%arg15, %6) : (memref<16xf32, #gpu.address_space<workgroup>>, index) -> f32
      "memref.store"(%7, %arg1, %4) : (f32, memref<?xf32>, index) -> ()
      "gpu.terminator"() : () -> ()
    }) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
