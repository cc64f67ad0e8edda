// A one-trip scf.for that yields its iter_arg unchanged.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline affine-cfg
// EXPECT: enzyme-ad@0.0.14 agree
// EXPECT: enzyme-ad@0.0.15 agree
// EXPECT: enzyme-ad@0.0.16 crash
func.func @k(%m: memref<i32>, %o: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0 : i32
  %r = scf.for %i = %c0 to %c1 step %c1 iter_args(%x = %z) -> (i32) {
    %l = memref.load %m[] : memref<i32>
    scf.yield %x : i32
  }
  memref.store %r, %o[%c0] : memref<1xi32>
  return
}
