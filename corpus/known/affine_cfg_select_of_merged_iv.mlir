// `select(0 == %i, v, 0)` with %i from a merged loop becomes v.
// DIFFTEST: entry=k inputs=%0=1
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline affine-cfg
// EXPECT: enzyme-ad@0.0.14 agree
// EXPECT: enzyme-ad@0.0.15 agree
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%n: index, %m: memref<1xf64>, %o: memref<2xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0.0 : f64
  scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
    scf.parallel (%j) = (%c0) to (%n) step (%c1) {
      %v = memref.load %m[%c0] : memref<1xf64>
      %p = arith.cmpi eq, %c0, %i : index
      %s = arith.select %p, %v, %z : f64
      %t = arith.truncf %s : f64 to f32
      %x = arith.muli %i, %n : index
      %y = arith.addi %x, %j : index
      memref.store %t, %o[%y] : memref<2xf32>
      scf.reduce
    }
    scf.reduce
  }
  return
}
