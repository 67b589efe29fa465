// Operations that jax rarely writes, in MLIR's generic spelling; a test prints them in the pretty one and reads both.
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x2xf32>, tensor<2x2xf32>, tensor<i32>, tensor<2xi64>, tensor<f32>, tensor<4x?xf32>, tensor<2xcomplex<f32>>, tensor<2xui64>, tensor<i1>) -> tensor<2x2xf32>, sym_name = "main"}> ({
  ^bb0(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>, %i: tensor<i32>, %s: tensor<2xi64>, %f: tensor<f32>, %q: tensor<4x?xf32>, %c: tensor<2xcomplex<f32>>, %u: tensor<2xui64>, %p: tensor<i1>):
    %0 = "stablehlo.cholesky"(%a) <{lower = true}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %1 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = "stablehlo.fft"(%c) <{fft_length = array<i64: 2>, fft_type = #stablehlo<fft_type FFT>}> : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
    %3 = "stablehlo.reduce_precision"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = "stablehlo.rng"(%f, %f, %s) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}> : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x2xf32>
    %5:2 = "stablehlo.rng_bit_generator"(%u) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    %6 = "stablehlo.get_dimension_size"(%q) <{dimension = 1 : i64}> : (tensor<4x?xf32>) -> tensor<i32>
    %7 = "stablehlo.dynamic_iota"(%s) <{iota_dimension = 1 : i64}> : (tensor<2xi64>) -> tensor<?x?xf32>
    %8 = "stablehlo.dynamic_pad"(%a, %f, %s, %s, %s) : (tensor<2x2xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
    %9 = "stablehlo.dynamic_broadcast_in_dim"(%a, %s) <{broadcast_dimensions = array<i64: 0, 1>, known_expanding_dimensions = array<i64: 0>}> : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %10 = "stablehlo.dynamic_reshape"(%a, %s) : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    %11 = "stablehlo.real_dynamic_slice"(%a, %s, %s, %s) : (tensor<2x2xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
    %12 = "stablehlo.dynamic_gather"(%a, %s, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0, 1]>, indices_are_sorted = true}> : (tensor<2x2xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x?xf32>
    %13 = "stablehlo.torch_index_select"(%a, %s) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<2x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
    %14 = "stablehlo.einsum"(%a, %b) <{einsum_config = "ij,jk->ik"}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %15 = "stablehlo.unary_einsum"(%a) <{einsum_config = "ij->ji"}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %16 = "stablehlo.broadcast"(%f) <{broadcast_sizes = array<i64: 2, 2>}> : (tensor<f32>) -> tensor<2x2xf32>
    %17 = "stablehlo.dot"(%a, %b) <{precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %18 = "stablehlo.dot_general"(%a, %b) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %19 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = "stablehlo.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%z) : (tensor<f32>) -> ()
    }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %20 = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %21 = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %22 = "stablehlo.partition_id"() : () -> tensor<ui32>
    %23 = "stablehlo.create_token"() : () -> !stablehlo.token
    %24 = "stablehlo.after_all"(%23, %23) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
    %25 = "stablehlo.tuple"(%a, %f) : (tensor<2x2xf32>, tensor<f32>) -> tuple<tensor<2x2xf32>, tensor<f32>>
    %26 = "stablehlo.get_tuple_element"(%25) <{index = 0 : i32}> : (tuple<tensor<2x2xf32>, tensor<f32>>) -> tensor<2x2xf32>
    %27 = "stablehlo.if"(%p) ({
      "stablehlo.return"(%a) : (tensor<2x2xf32>) -> ()
    }, {
      "stablehlo.return"(%b) : (tensor<2x2xf32>) -> ()
    }) : (tensor<i1>) -> tensor<2x2xf32>
    %28:2 = "stablehlo.optimization_barrier"(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>)
    %29 = "stablehlo.clamp"(%f, %a, %f) : (tensor<f32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %30 = "stablehlo.select"(%p, %a, %b) : (tensor<i1>, tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %31 = "stablehlo.compare"(%a, %b) <{comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
    %32 = "stablehlo.complex"(%f, %f) : (tensor<f32>, tensor<f32>) -> tensor<complex<f32>>
    %33 = "stablehlo.real"(%c) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %34 = "stablehlo.slice"(%a) <{limit_indices = array<i64: 2, 2>, start_indices = array<i64: 0, 1>, strides = array<i64: 1, 1>}> : (tensor<2x2xf32>) -> tensor<2x1xf32>
    %35 = "stablehlo.custom_call"(%a) <{api_version = 1 : i32, backend_config = "x", call_target_name = "Sharding", has_side_effect = false}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %36 = "stablehlo.composite"(%a) <{composite_attributes = {n = 1 : i64}, decomposition = @part, name = "my.part", version = 1 : i32}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %37 = "chlo.broadcast_add"(%a, %f) <{broadcast_dimensions = array<i64>}> : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    %38 = "chlo.broadcast_compare"(%a, %b) <{comparison_direction = #chlo<comparison_direction LT>}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
    %39 = "chlo.constant_like"(%a) <{value = 1.500000e+00 : f32}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %40:2 = "chlo.top_k"(%a) <{k = 1 : i64}> : (tensor<2x2xf32>) -> (tensor<2x1xf32>, tensor<2x1xi32>)
    %41 = "chlo.next_after"(%a, %b) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %42 = "stablehlo.batch_norm_inference"(%a, %33, %33, %33, %33) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    %43 = "stablehlo.set_dimension_size"(%a, %i) <{dimension = 0 : i64}> : (tensor<2x2xf32>, tensor<i32>) -> tensor<?x2xf32, #stablehlo.bounds<2, ?>>
    %44:2 = "stablehlo.while"(%i, %a) ({
    ^bb0(%x: tensor<i32>, %y: tensor<2x2xf32>):
      %z = "stablehlo.compare"(%x, %i) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%z) : (tensor<i1>) -> ()
    }, {
    ^bb0(%x: tensor<i32>, %y: tensor<2x2xf32>):
      "stablehlo.return"(%x, %y) : (tensor<i32>, tensor<2x2xf32>) -> ()
    }) : (tensor<i32>, tensor<2x2xf32>) -> (tensor<i32>, tensor<2x2xf32>)
    %45 = "stablehlo.exponential"(%a) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %46 = "stablehlo.pad"(%a, %f) <{edge_padding_high = array<i64: 0, -1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 0, 1>}> : (tensor<2x2xf32>, tensor<f32>) -> tensor<3x2xf32>
    "func.return"(%0) : (tensor<2x2xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x2xf32>) -> tensor<2x2xf32>, sym_name = "part", sym_visibility = "private"}> ({
  ^bb0(%x: tensor<2x2xf32>):
    "func.return"(%x) : (tensor<2x2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
