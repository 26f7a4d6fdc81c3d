module @matmul {
  func.func @main(%arg0: i32, %arg1: i32, %arg2: i32, %arg3: memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, %arg4: memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, %arg5: memref<1x1x4x4xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<parallel>, #tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 2, 2, 3>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 1, 4, 4>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, 1, 4, 4>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, 1, 4, 4>}]} {
    %c0_i32 = arith.constant 0 : i32
    %c1_i32 = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0.000000e+00> : vector<4x4xf32>
    %0 = arith.cmpi eq, %arg2, %c0_i32 : i32
    %1 = arith.extui %0 : i1 to i32
    %2 = arith.cmpi sge, %1, %c1_i32 : i32
    scf.if %2 {
      %12 = vector.shape_cast %cst : vector<4x4xf32> to vector<1x1x4x4xf32>
      tpu.vector_store %arg5[%c0, %c0, %c0, %c0], %12 {strides = array<i32>} : memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4x4xf32>, 
    } else {
    }
    %3 = vector.load %arg3[%c0, %c0, %c0, %c0] : memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4x4xf32>
    %4 = vector.shape_cast %3 : vector<1x1x4x4xf32> to vector<4x4xf32>
    %5 = vector.load %arg4[%c0, %c0, %c0, %c0] : memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4x4xf32>
    %6 = vector.shape_cast %5 : vector<1x1x4x4xf32> to vector<4x4xf32>
    %7 = tpu.matmul %4, %6, %cst {dimension_numbers = #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>, precision = #tpu.contract_precision<fp32>, transpose_lhs_hint = false} : vector<4x4xf32>, vector<4x4xf32>, vector<4x4xf32> -> vector<4x4xf32>
    %8 = vector.load %arg5[%c0, %c0, %c0, %c0] : memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4x4xf32>
    %9 = vector.shape_cast %8 : vector<1x1x4x4xf32> to vector<4x4xf32>
    %10 = arith.addf %9, %7 : vector<4x4xf32>
    %11 = vector.shape_cast %10 : vector<4x4xf32> to vector<1x1x4x4xf32>
    tpu.vector_store %arg5[%c0, %c0, %c0, %c0], %11 {strides = array<i32>} : memref<1x1x4x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4x4xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg2, %c0_i32, %c0_i32 : i32, i32, i32, i32
  }
  func.func @transform_1(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg2, %arg1, %c0_i32, %c0_i32 : i32, i32, i32, i32
  }
  func.func @transform_2(%arg0: i32, %arg1: i32, %arg2: i32) -> (i32, i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %arg1, %c0_i32, %c0_i32 : i32, i32, i32, i32
  }
}
