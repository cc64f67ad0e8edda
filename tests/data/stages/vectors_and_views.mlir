"builtin.module"() ({
  "memref.global"() <{constant, initial_value = dense<[[1, 2, 3], [-4, 5, 6]]> : tensor<2x3xi16>, sym_name = "table", sym_visibility = "private", type = memref<2x3xi16>}> : () -> ()
  "llvm.mlir.global"() <{addr_space = 0 : i32, constant, global_type = !llvm.array<6 x i8>, linkage = #llvm.linkage<internal>, sym_name = "text", unnamed_addr = 0 : i64, value = "a\00\22b>}", visibility_ = 0 : i64}> ({
  }) : () -> ()
  "func.func"() <{function_type = (memref<8x16xf32>, !llvm.ptr, index) -> vector<4xf32>, sym_name = "k"}> ({
  ^bb0(%arg0: memref<8x16xf32>, %arg1: !llvm.ptr, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0x7FC00000 : f32}> : () -> f32
    %2 = "arith.constant"() <{value = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : vector<4xf32>}> : () -> vector<4xf32>
    %3 = "memref.get_global"() <{name = @table}> : () -> memref<2x3xi16>
    %4 = "memref.subview"(%arg0, %arg2) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64: 2, -9223372036854775808>, static_sizes = array<i64: 4, 8>, static_strides = array<i64: 1, 1>}> : (memref<8x16xf32>, index) -> memref<4x8xf32, strided<[16, 1], offset: ?>>
    %5 = "vector.load"(%4, %0, %0) : (memref<4x8xf32, strided<[16, 1], offset: ?>>, index, index) -> vector<4xf32>
    %6 = "vector.fma"(%5, %2, %2) : (vector<4xf32>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>
    %7 = "llvm.getelementptr"(%arg1) <{elem_type = !llvm.struct<(i32, array<3 x f32>)>, noWrapFlags = 3 : i32, rawConstantIndices = array<i32: 1, 1, 2>}> : (!llvm.ptr) -> !llvm.ptr
    "llvm.store"(%1, %7) <{ordering = 0 : i64}> : (f32, !llvm.ptr) -> ()
    "func.return"(%6) : (vector<4xf32>) -> ()
  }) : () -> ()
}) {test.note = "quotes \22 and {braces} // no comment"} : () -> ()
