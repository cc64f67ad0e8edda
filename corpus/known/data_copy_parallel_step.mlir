// The copied region of an affine.parallel ignores its step: the copy loop runs over the end of the buffer.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'func.func(affine-data-copy-generate)'
// EXPECT: mlir mismatch
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%o: memref<9xi32>) {
  %z = arith.constant 0 : i32
  affine.for %t = 0 to 2 {
    affine.parallel (%i, %j) = (0, 0) to (2, 6) step (1, 3) {
      affine.store %z, %o[%i * 5 + %j] : memref<9xi32>
    }
  }
  return
}
