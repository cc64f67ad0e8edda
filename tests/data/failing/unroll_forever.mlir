// pipeline: func.func(affine-loop-unroll{unroll-factor=100000000})
// takes minutes and all memory in every toolchain, which is what was asked for
#map = affine_map<() -> (0)>
#map1 = affine_map<() -> (1)>
#map2 = affine_map<() -> (1000000000)>
"builtin.module"() ({
  "func.func"() <{function_type = (memref<8xf32>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<8xf32>):
    "affine.for"() <{lowerBoundMap = #map, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = #map2}> ({
    ^bb0(%arg1: index):
      %0 = "affine.load"(%arg0) <{map = #map}> : (memref<8xf32>) -> f32
      "affine.store"(%0, %arg0) <{map = #map1}> : (f32, memref<8xf32>) -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
