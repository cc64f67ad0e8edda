// pipeline: func.func(affine-loop-tile{tile-sizes=0,0})
// division by zero (SIGFPE) in every toolchain; an option the pass does not check (PASSES 3.12)
#map = affine_map<() -> (0, 0)>
#map1 = affine_map<() -> (1, 1)>
#map2 = affine_map<() -> (0)>
#map3 = affine_map<() -> (8)>
"builtin.module"() ({
  "func.func"() <{function_type = (memref<8x8xf32>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<8x8xf32>):
    "affine.for"() <{lowerBoundMap = #map2, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = #map3}> ({
    ^bb0(%arg1: index):
      "affine.for"() <{lowerBoundMap = #map2, operandSegmentSizes = array<i32: 0, 0, 0>, step = 1 : index, upperBoundMap = #map3}> ({
      ^bb0(%arg2: index):
        %0 = "affine.load"(%arg0) <{map = #map}> : (memref<8x8xf32>) -> f32
        "affine.store"(%0, %arg0) <{map = #map1}> : (f32, memref<8x8xf32>) -> ()
        "affine.yield"() : () -> ()
      }) : () -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
