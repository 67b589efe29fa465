// Operations whose sizes are operands, all of them constants; old ones; collectives of one replica.
func.func @sizes_from_constants() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi64>
  %z = stablehlo.constant dense<0> : tensor<i64>
  %o = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %n = stablehlo.constant dense<[0, 0]> : tensor<2xi64>
  %one = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %two = stablehlo.constant dense<[2, 2]> : tensor<2xi64>
  %p = stablehlo.dynamic_pad %x, %z, %o, %n, %n : (tensor<2x2xi64>, tensor<i64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x2xi64>
  check.expect_eq_const %p, dense<[[0, 0], [1, 2], [3, 4]]> : tensor<3x2xi64>
  %i = stablehlo.dynamic_iota %two, dim = 0 : (tensor<2xi64>) -> tensor<2x2xi64>
  check.expect_eq_const %i, dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>
  %s = stablehlo.real_dynamic_slice %x, %o, %two, %one : (tensor<2x2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x2xi64>
  check.expect_eq_const %s, dense<[[3, 4]]> : tensor<1x2xi64>
  %sz = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %g = "stablehlo.dynamic_gather"(%x, %o, %sz) {dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0, 1]>} : (tensor<2x2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x2xi64>
  check.expect_eq_const %g, dense<[[3, 4]]> : tensor<1x2xi64>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %r = stablehlo.dynamic_reshape %x, %four : (tensor<2x2xi64>, tensor<1xi32>) -> tensor<4xi64>
  check.expect_eq_const %r, dense<[1, 2, 3, 4]> : tensor<4xi64>
  %c = stablehlo.constant dense<[2, 2, 2]> : tensor<3xi64>
  %b = stablehlo.dynamic_broadcast_in_dim %x, %c, dims = [2, 1] : (tensor<2x2xi64>, tensor<3xi64>) -> tensor<2x2x2xi64>
  check.expect_eq_const %b, dense<[[[1, 3], [2, 4]], [[1, 3], [2, 4]]]> : tensor<2x2x2xi64>
  %l = stablehlo.constant dense<1> : tensor<i32>
  %d = stablehlo.set_dimension_size %x, %l, dim = 0 : (tensor<2x2xi64>, tensor<i32>) -> tensor<?x2xi64, #stablehlo.bounds<2, ?>>
  %e = stablehlo.get_dimension_size %d, dim = 0 : (tensor<?x2xi64, #stablehlo.bounds<2, ?>>) -> tensor<i32>
  check.expect_eq_const %e, dense<1> : tensor<i32>
  func.return
}
func.func @old_ones() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %e = stablehlo.einsum %x, %x, config = "ij,kj->ik" : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %e, dense<[[5.0, 11.0], [11.0, 25.0]]> : tensor<2x2xf32>
  %u = stablehlo.unary_einsum %x, config = "ij->ji" : (tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %u, dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>
  %i = stablehlo.constant dense<[1, 0, 1]> : tensor<3xi32>
  %t = "stablehlo.torch_index_select"(%x, %i) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<2x2xf32>, tensor<3xi32>) -> tensor<2x3xf32>
  check.expect_almost_eq_const %t, dense<[[2.0, 1.0, 2.0], [4.0, 3.0, 4.0]]> : tensor<2x3xf32>
  %d = stablehlo.dot %x, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %d, dense<[[7.0, 10.0], [15.0, 22.0]]> : tensor<2x2xf32>
  %h = stablehlo.constant dense<0.5> : tensor<f32>
  %a = chlo.broadcast_add %x, %h {broadcast_dimensions = array<i64>} : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %a, dense<[[1.5, 2.5], [3.5, 4.5]]> : tensor<2x2xf32>
  %m = stablehlo.composite "my.double" %x {decomposition = @double} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %m, dense<[[2.0, 4.0], [6.0, 8.0]]> : tensor<2x2xf32>
  func.return
}
func.func private @double(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.add %x, %x : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
func.func @one_replica() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %r, dense<[1.0, 2.0]> : tensor<2xf32>
  %g = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %g, dense<[1.0, 2.0]> : tensor<2xf32>
  %id = stablehlo.replica_id : tensor<ui32>
  check.expect_eq_const %id, dense<0> : tensor<ui32>
  func.return
}
func.func @gradient_of_batch_norm() {
  %x = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[3.0, 4.0], [1.0, 2.0]]]> : tensor<2x2x2xf64>
  %s = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf64>
  %m = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf64>
  %v = stablehlo.constant dense<[1.0, 1.0]> : tensor<2xf64>
  %g = stablehlo.constant dense<0.1> : tensor<2x2x2xf64>
  %a, %b, %c = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) {epsilon = 0.0 : f32, feature_index = 2 : i64} : (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2x2x2xf64>) -> (tensor<2x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
  check.expect_almost_eq_const %a, dense<0.0> : tensor<2x2x2xf64>
  check.expect_almost_eq_const %b, dense<0.0> : tensor<2xf64>
  check.expect_almost_eq_const %c, dense<[0.4, 0.4]> : tensor<2xf64>
  func.return
}
