// Operations with what they ought to give: run by `python -m planish.stablehlo`.
func.func @sort_stable() {
  %input0 = stablehlo.constant dense<[[1, 2, 3], [3, 2, 1]]> : tensor<2x3xi64>
  %input1 = stablehlo.constant dense<[[3, 2, 1], [1, 2, 3]]> : tensor<2x3xi64>
  %result0, %result1 = "stablehlo.sort"(%input0, %input1) ({
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>, %arg2: tensor<i64>, %arg3: tensor<i64>):
      %predicate = stablehlo.compare GT, %arg0, %arg1 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %predicate : tensor<i1>
  }) {
    dimension = 0 : i64,
    is_stable = true
  } : (tensor<2x3xi64>, tensor<2x3xi64>) -> (tensor<2x3xi64>, tensor<2x3xi64>)
  check.expect_eq_const %result0, dense<[[3, 2, 3], [1, 2, 1]]> : tensor<2x3xi64>
  check.expect_eq_const %result1, dense<[[1, 2, 1], [3, 2, 3]]> : tensor<2x3xi64>
  func.return
}
func.func @sort_odd_comparator() {
  // by absolute value, then by sign: no list of keys
  %input0 = stablehlo.constant dense<[3, -1, 1, -3, 2, 0]> : tensor<6xi64>
  %r = "stablehlo.sort"(%input0) ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %x = stablehlo.multiply %a, %a : tensor<i64>
      %y = stablehlo.multiply %b, %b : tensor<i64>
      %d = stablehlo.subtract %y, %x : tensor<i64>
      %z = stablehlo.constant dense<0> : tensor<i64>
      %p = stablehlo.compare GT, %d, %z : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<6xi64>) -> tensor<6xi64>
  check.expect_eq_const %r, dense<[0, -1, 1, 2, 3, -3]> : tensor<6xi64>
  func.return
}
func.func @select_and_scatter() {
  %operand = stablehlo.constant dense<[[1, 5], [2, 5], [3, 6], [4, 4]]> : tensor<4x2xi64>
  %source = stablehlo.constant dense<[[5, 6], [7, 8]]> : tensor<2x2xi64>
  %init_value = stablehlo.constant dense<0> : tensor<i64>
  %result = "stablehlo.select_and_scatter"(%operand, %source, %init_value) ({
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
      %0 = stablehlo.compare GE, %arg0, %arg1 : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
  }, {
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
      %0 = stablehlo.add %arg0, %arg1 : tensor<i64>
      stablehlo.return %0 : tensor<i64>
  }) {
    window_dimensions = array<i64: 3, 1>,
    window_strides = array<i64: 2, 1>,
    padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>
  } : (tensor<4x2xi64>, tensor<2x2xi64>, tensor<i64>) -> tensor<4x2xi64>
  check.expect_eq_const %result, dense<[[0, 0], [0, 0], [5, 14], [7, 0]]> : tensor<4x2xi64>
  func.return
}
func.func @scatter_batching() {
  %input = stablehlo.constant dense<[[[[1, 2], [3, 4], [5, 6], [7, 8]],
                                      [[9, 10],[11, 12], [13, 14], [15, 16]],
                                      [[17, 18], [19, 20], [21, 22], [23, 24]]],
                                     [[[25, 26], [27, 28], [29, 30], [31, 32]],
                                      [[33, 34], [35, 36], [37, 38], [39, 40]],
                                      [[41, 42], [43, 44], [45, 46], [47, 48]]]]> : tensor<2x3x4x2xi64>
  %scatter_indices = stablehlo.constant dense<[[[[0, 0], [1, 0], [2, 1]],
                                                [[0, 1], [1, 1], [0, 9]]],
                                               [[[0, 0], [2, 1], [2, 2]],
                                                [[1, 2], [0, 1], [1, 0]]]]> : tensor<2x2x3x2xi64>
  %update = stablehlo.constant dense<1> : tensor<2x2x3x2x2xi64>
  %result = "stablehlo.scatter"(%input, %scatter_indices, %update) ({
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
      %0 = stablehlo.add %arg0, %arg1 : tensor<i64>
      stablehlo.return %0 : tensor<i64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [3, 4],
      inserted_window_dims = [1],
      input_batching_dims = [0],
      scatter_indices_batching_dims = [1],
      scatter_dims_to_operand_dims = [2, 1],
      index_vector_dim = 3>,
    indices_are_sorted = false,
    unique_indices = false
  } : (tensor<2x3x4x2xi64>, tensor<2x2x3x2xi64>, tensor<2x2x3x2x2xi64>) -> tensor<2x3x4x2xi64>
  check.expect_eq_const %result, dense<[[[[3, 4], [6, 7], [6, 7], [7, 8]],
                                         [[9, 10],[11, 12], [15, 16], [17, 18]],
                                         [[17, 18], [19, 20], [22, 23], [24, 25]]],
                                        [[[25, 26], [28, 29], [30, 31], [31, 32]],
                                         [[35, 36], [38, 39], [38, 39], [39, 40]],
                                         [[41, 42], [44, 45], [46, 47], [47, 48]]]]> : tensor<2x3x4x2xi64>
  func.return
}
func.func @while() {
  %init_i = stablehlo.constant dense<0> : tensor<i64>
  %init_sum = stablehlo.constant dense<0> : tensor<i64>
  %ten = stablehlo.constant dense<10> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %results0, %results1 = "stablehlo.while"(%init_i, %init_sum) ({
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
      %cond = "stablehlo.compare"(%arg0, %ten) {
        comparison_direction = #stablehlo<comparison_direction LT>
      } : (tensor<i64>, tensor<i64>) -> tensor<i1>
      "stablehlo.return"(%cond) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg0: tensor<i64>, %arg1: tensor<i64>):
      %new_sum = stablehlo.add %arg1, %one : tensor<i64>
      %new_i = stablehlo.add %arg0, %one : tensor<i64>
      stablehlo.return %new_i, %new_sum : tensor<i64>, tensor<i64>
  }) : (tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>)
  check.expect_eq_const %results0, dense<10> : tensor<i64>
  check.expect_eq_const %results1, dense<10> : tensor<i64>
  func.return
}
func.func @batch_norm_training() {
  %operand = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 2.0]]]> : tensor<2x2x2xf64>
  %scale = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf64>
  %offset = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf64>
  %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%operand, %scale, %offset) {
    epsilon = 0.0 : f32,
    feature_index = 2 : i64
  } : (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
  check.expect_almost_eq_const %output, dense<[[[0.0, 0.0], [2.0, 2.0]], [[2.0, 2.0], [0.0, 0.0]]]> : tensor<2x2x2xf64>
  check.expect_almost_eq_const %batch_mean, dense<[2.0, 3.0]> : tensor<2xf64>
  check.expect_almost_eq_const %batch_var, dense<[1.0, 1.0]> : tensor<2xf64>
  func.return
}
func.func @misc() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi64>
  %idx = stablehlo.constant dense<[[0, 1]]> : tensor<1x2xi64>
  %tup = stablehlo.tuple %a, %idx : tuple<tensor<4x2xi64>, tensor<1x2xi64>>
  %t1 = stablehlo.get_tuple_element %tup[1] : (tuple<tensor<4x2xi64>, tensor<1x2xi64>>) -> tensor<1x2xi64>
  check.expect_eq_const %t1, dense<[[0, 1]]> : tensor<1x2xi64>
  %0 = stablehlo.constant dense<[1.0, -1.0, 0x7FC00000, 0xFFC00000, -0.0, 0.0]> : tensor<6xf32>
  %1 = stablehlo.constant dense<[1.0, 1.0, 0x7FC00000, 0x7FC00000, 0.0, -0.0]> : tensor<6xf32>
  %c = stablehlo.compare LT, %0, %1, TOTALORDER : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
  check.expect_eq_const %c, dense<[false, true, false, true, true, false]> : tensor<6xi1>
  %r = stablehlo.constant dense<[-2.5, 0.4, 0.5, 0.6, 2.5]> : tensor<5xf64>
  %ra = stablehlo.round_nearest_afz %r : tensor<5xf64>
  check.expect_almost_eq_const %ra, dense<[-3.0, 0.0, 1.0, 1.0, 3.0]> : tensor<5xf64>
  %re = stablehlo.round_nearest_even %r : tensor<5xf64>
  check.expect_almost_eq_const %re, dense<[-2.0, 0.0, 0.0, 1.0, 2.0]> : tensor<5xf64>
  %sh = stablehlo.constant dense<[-1, 0, 8, 3]> : tensor<4xi8>
  %v = stablehlo.constant dense<[-1, -1, -1, -16]> : tensor<4xi8>
  %s1 = stablehlo.shift_right_arithmetic %v, %sh : tensor<4xi8>
  check.expect_eq_const %s1, dense<[-1, -1, -1, -2]> : tensor<4xi8>
  %s2 = stablehlo.shift_right_logical %v, %sh : tensor<4xi8>
  check.expect_eq_const %s2, dense<[0, -1, 0, 30]> : tensor<4xi8>
  %p = stablehlo.constant dense<[0, 1, 2, 127]> : tensor<4xi64>
  %pc = stablehlo.popcnt %p : tensor<4xi64>
  check.expect_eq_const %pc, dense<[0, 1, 1, 7]> : tensor<4xi64>
  %inf = stablehlo.constant dense<[0x7F800001, 0x7F800000, 3.0]> : tensor<3xf32>
  %fin = stablehlo.is_finite %inf : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %fin, dense<[false, false, true]> : tensor<3xi1>
  %bc = stablehlo.constant dense<0x0123456789ABCDEF> : tensor<f64>
  %bcr = stablehlo.bitcast_convert %bc : (tensor<f64>) -> tensor<4xf16>
  check.expect_almost_eq_const %bcr, dense<[0xCDEF, 0x89AB, 0x4567, 0x0123]> : tensor<4xf16>
  %io = stablehlo.iota dim = 1 : tensor<2x3xi32>
  check.expect_eq_const %io, dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>
  %cl = stablehlo.clamp %p, %p, %p : tensor<4xi64>
  %i = stablehlo.constant dense<5> : tensor<i64>
  %ou = stablehlo.dynamic_slice %a, %i, %i, sizes = [3, 1] : (tensor<4x2xi64>, tensor<i64>, tensor<i64>) -> tensor<3x1xi64>
  check.expect_eq_const %ou, dense<[[4], [6], [8]]> : tensor<3x1xi64>
  %z = stablehlo.constant dense<0> : tensor<i64>
  %m:2 = stablehlo.reduce(%a init: %z), (%a init: %z) across dimensions = [0] : (tensor<4x2xi64>, tensor<4x2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2xi64>, tensor<2xi64>)
    reducer(%x0: tensor<i64>, %y0: tensor<i64>) (%x1: tensor<i64>, %y1: tensor<i64>) {
      %s = stablehlo.add %x0, %y0 : tensor<i64>
      %mm = stablehlo.maximum %x1, %y1 : tensor<i64>
      stablehlo.return %s, %mm : tensor<i64>, tensor<i64>
    }
  func.return
}

func.func @complex_cube_root() {
  %x = stablehlo.constant dense<[(0.0, 8.0), (-1.0, 0.0), (0.0, 0.0)]> : tensor<3xcomplex<f64>>
  %r = stablehlo.cbrt %x : tensor<3xcomplex<f64>>
  check.expect_almost_eq_const %r, dense<[(1.7320508075688772, 1.0), (0.5, 0.8660254037844386), (0.0, 0.0)]> : tensor<3xcomplex<f64>>
  func.return
}
