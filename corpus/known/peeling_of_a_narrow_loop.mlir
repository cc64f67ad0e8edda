// Peeling a loop whose induction variable was narrowed to i8 builds an affine.apply on i8.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'arith-int-range-narrowing{int-bitwidths-supported=8,16,32},scf-for-loop-peeling'
// EXPECT: mlir invalid-ir
// EXPECT: enzyme-ad@0.0.14 invalid-ir
// EXPECT: enzyme-ad@0.0.15 invalid-ir
// EXPECT: enzyme-ad@0.0.16 agree
func.func @k(%o: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c0i = arith.constant 5 : i32
  scf.parallel (%i) = (%c0) to (%c8) step (%c8) {
    scf.for %j = %i to %c8 step %c4 {
      memref.store %c0i, %o[%c0] : memref<1xi32>
    }
    scf.reduce
  }
  return
}
