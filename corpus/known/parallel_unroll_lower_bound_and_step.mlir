// Unrolling ignores the lower bound and the step of the loop.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'scf-parallel-loop-unroll{unrollFactor=2}'
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%o: memref<4xi32>) {
  %z = arith.constant 0 : i32
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.parallel (%i) = (%c1) to (%c4) step (%c1) {
    memref.store %z, %o[%i] : memref<4xi32>
    scf.reduce
  }
  return
}
