// An allocation is hoisted out of an affine.parallel: its iterations, which are unordered, then share one buffer.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'func.func(buffer-loop-hoisting)'
// EXPECT: mlir mismatch
// EXPECT: enzyme-ad@0.0.14 agree
// EXPECT: enzyme-ad@0.0.15 agree
// EXPECT: enzyme-ad@0.0.16 agree
func.func @k(%o: memref<4xf32>) {
  affine.parallel (%i) = (0) to (4) {
    %a = memref.alloc() : memref<1xf32>
    %f = affine.load %o[%i] : memref<4xf32>
    affine.store %f, %a[0] : memref<1xf32>
    %g = affine.load %a[0] : memref<1xf32>
    affine.store %g, %o[%i] : memref<4xf32>
  }
  return
}
