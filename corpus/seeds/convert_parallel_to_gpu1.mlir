// First documented case: canonicalize merges a 3-D grid and a 3-D block `scf.parallel` into one 6-D loop; the child
// `scf.parallel` inside `enzyme.autodiff_region` can then neither be serialised nor split nor launched, and
// convert-parallel-to-gpu1 does not converge (EnzymeAD/Enzyme-JAX issue 2358). enzyme-ad 0.0.14 and 0.0.15 fail,
// 0.0.16 passes. Type A has the child loop; the two wrappers of type B have none and lower on every version.
//
// Every thread of a wrapper stores the same value to the same cells: unordered writes of one value, which are benign
// because the buffer is captured by the region, hence const.
//
// DIFFTEST: entry=mre inputs=%d0=2,%d1=1,%d2=1,%d3=3,%d4=1,%d5=1,%g0=2,%g1=2,%g2=1,%b0=4,%b1=1,%b2=1,%mem:[8],seed=7
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline canonicalize,convert-parallel-to-gpu1
// EXPECT: pass-failure(convert-parallel-to-gpu1) on enzyme-ad<=0.0.15; agree on >=0.0.16
module {
  func.func @mre(%d0: index, %d1: index, %d2: index, %d3: index, %d4: index, %d5: index,
                 %g0: index, %g1: index, %g2: index, %b0: index, %b1: index, %b2: index,
                 %mem: memref<?xf64>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %one = arith.constant 1 : i64
    %cst = arith.constant 1.5 : f64

    // Type A: a parallel loop inside the differentiated region.
    %a = "enzymexla.gpu_wrapper"(%d0, %d1, %d2, %d3, %d4, %d5) ({
      scf.parallel (%i0, %i1, %i2) = (%c0, %c0, %c0) to (%d0, %d1, %d2) step (%c1, %c1, %c1) {
        scf.parallel (%t0, %t1, %t2) = (%c0, %c0, %c0) to (%d3, %d4, %d5) step (%c1, %c1, %c1) {
          %own = memref.alloca() : memref<1xf64>
          %slots = llvm.alloca %one x !llvm.array<4 x f64> : (i64) -> !llvm.ptr
          %raw = llvm.alloca %one x f64 : (i64) -> !llvm.ptr
          %view = "enzymexla.pointer2memref"(%raw) : (!llvm.ptr) -> memref<?xf64>
          memref.store %cst, %view[%c0] : memref<?xf64>
          memref.store %cst, %own[%c0] : memref<1xf64>
          enzyme.autodiff_region(%slots) {
          ^bb0(%inner: !llvm.ptr):
            scf.parallel (%k) = (%c0) to (%c4) step (%c1) {
              memref.store %cst, %mem[%k] : memref<?xf64>
              scf.reduce
            }
            enzyme.yield
          } attributes {activity = [#enzyme<activity enzyme_const>], ret_activity = []} : (!llvm.ptr) -> ()
          scf.reduce
        }
        scf.reduce
      }
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index

    // Type B: no child loop; each thread writes one cell.
    %b = "enzymexla.gpu_wrapper"(%g0, %g1, %g2, %b0, %b1, %b2) ({
      scf.parallel (%i0, %i1, %i2) = (%c0, %c0, %c0) to (%g0, %g1, %g2) step (%c1, %c1, %c1) {
        scf.parallel (%t0, %t1, %t2) = (%c0, %c0, %c0) to (%b0, %b1, %b2) step (%c1, %c1, %c1) {
          memref.store %cst, %mem[%t0] : memref<?xf64>
          scf.reduce
        }
        scf.reduce
      }
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index

    // Type B again, over the upper half of the buffer.
    %c = "enzymexla.gpu_wrapper"(%g0, %g1, %g2, %b0, %b1, %b2) ({
      scf.parallel (%i0, %i1, %i2) = (%c0, %c0, %c0) to (%g0, %g1, %g2) step (%c1, %c1, %c1) {
        scf.parallel (%t0, %t1, %t2) = (%c0, %c0, %c0) to (%b0, %b1, %b2) step (%c1, %c1, %c1) {
          %up = arith.addi %t0, %c4 : index
          memref.store %cst, %mem[%up] : memref<?xf64>
          scf.reduce
        }
        scf.reduce
      }
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    return
  }
}
