// The result of a nested scf.parallel reduction is taken for dead and becomes ub.poison, which is then stored.
// Right: 1 + 1 = 2.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline remove-dead-values
// EXPECT: mlir mismatch
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%o: memref<1xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0 : i8
  %one = arith.constant 1 : i8
  scf.parallel (%i) = (%c0) to (%c1) step (%c1) {
    %s = scf.parallel (%j) = (%c0) to (%c2) step (%c1) init (%z) -> i8 {
      scf.reduce(%one : i8) {
      ^bb0(%a: i8, %b: i8):
        %t = arith.addi %a, %b : i8
        scf.reduce.return %t : i8
      }
    }
    %f = arith.sitofp %s : i8 to f32
    memref.store %f, %o[%i] : memref<1xf32>
    scf.reduce
  }
  return
}
