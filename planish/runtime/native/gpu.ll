; made by `make native` from the C beside this
; sha256 779554368b899f4a5b425f43ade6549790a3b34c81aa1e3f56760c1c1593b04d
%struct.anon = type { i64, [16 x ptr] }
%struct.place = type { ptr, ptr }
%struct.segment = type { i64, i64, ptr, i64, ptr, i64, i64, ptr, i64, i64, i64, i64 }
%struct.graph = type { ptr, ptr, ptr, ptr, i64 }
%struct.launch = type { ptr, [3 x i32], [3 x i32], i32, i32, i64, ptr }
%struct.term = type { i64, i64 }
%struct.node_params = type { ptr, [3 x i32], [3 x i32], i32, ptr, ptr, ptr, ptr }
%struct.gpu_description = type { i64, i64, i64, ptr, ptr, ptr, ptr, i64, ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, %struct.slots }
%struct.slots = type { i64, i64, i64, i64, i64, i64, i64, i64, i64 }
%struct.typed = type { i64, ptr }
%struct.gpu_tensor = type { ptr, ptr, i64, i64, ptr, ptr, ptr }
%struct.anon.0 = type { i64, i64 }
%struct.anon.1 = type { i64, i64 }
@history = internal global %struct.anon zeroinitializer, align 8
define void @gpu_history(ptr %0) nounwind {
  %2 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @history, i64 0, i32 0), align 8
  store i64 %2, ptr %0, align 8
  br label %3
3:
  %.0 = phi i64 [ 0, %1 ], [ %9, %5 ]
  %4 = icmp ult i64 %.0, 16
  br i1 %4, label %5, label %11
5:
  %6 = getelementptr inbounds %struct.anon, ptr @history, i64 0, i32 1, i64 %.0
  %7 = load ptr, ptr %6, align 8
  %8 = ptrtoint ptr %7 to i64
  %9 = add nuw nsw i64 %.0, 1
  %10 = getelementptr inbounds i64, ptr %0, i64 %9
  store i64 %8, ptr %10, align 8
  br label %3
11:
  ret void
}
define i64 @gpu_run(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  store ptr null, ptr %4, align 8
  %6 = call i32 @cuCtxGetCurrent(ptr %4)
  %.not = icmp eq i32 %6, 0
  br i1 %.not, label %7, label %.thread
7:
  %8 = load ptr, ptr %4, align 8
  %9 = getelementptr inbounds %struct.place, ptr %2, i64 0, i32 0
  %10 = load ptr, ptr %9, align 8
  %.not37 = icmp eq ptr %8, %10
  br i1 %.not37, label %.thread34, label %11
11:
  %12 = call i32 @cuCtxSetCurrent(ptr %10)
  %.not44 = icmp eq i32 %12, 0
  br i1 %.not44, label %.thread34, label %.thread
.thread:
  %.03133 = phi i32 [ %12, %11 ], [ %6, %3 ]
  %13 = sext i32 %.03133 to i64
  br label %90
.thread34:
  %14 = atomicrmw add ptr getelementptr inbounds (%struct.anon, ptr @history, i64 0, i32 0), i64 1 seq_cst, align 8
  %15 = srem i64 %14, 16
  %16 = getelementptr inbounds %struct.anon, ptr @history, i64 0, i32 1, i64 %15
  store ptr %0, ptr %16, align 8
  %17 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 5
  %18 = load i64, ptr %17, align 8
  %.not38 = icmp eq i64 %18, 0
  br i1 %.not38, label %19, label %23
19:
  %20 = getelementptr inbounds %struct.place, ptr %2, i64 0, i32 1
  %21 = load ptr, ptr %20, align 8
  %22 = call fastcc i64 @one_by_one(ptr %0, ptr %1, ptr %21)
  br label %90
23:
  %24 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 10
  br label %25
25:
  %26 = cmpxchg ptr %24, i64 0, i64 1 acquire monotonic, align 8
  %27 = extractvalue { i64, i1 } %26, 1
  br i1 %27, label %lock.exit, label %28
28:
  %29 = call i32 @sched_yield()
  br label %25
lock.exit:
  %30 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 8
  %31 = load i64, ptr %30, align 8
  %.not39 = icmp eq i64 %31, 0
  br i1 %.not39, label %lock.exit._crit_edge, label %32
lock.exit._crit_edge:
  %.phi.trans.insert.i.phi.trans.insert = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 6
  %.pre.i.pre = load i64, ptr %.phi.trans.insert.i.phi.trans.insert, align 8
  br label %44
32:
  %33 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 6
  %34 = load i64, ptr %33, align 8
  %.not43 = icmp eq i64 %34, 0
  br i1 %.not43, label %35, label %44
35:
  %36 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 9
  %37 = load i64, ptr %36, align 8
  %38 = add nsw i64 %37, 1
  store i64 %38, ptr %36, align 8
  %39 = icmp slt i64 %37, 1
  br i1 %39, label %40, label %44
40:
  %41 = getelementptr inbounds %struct.place, ptr %2, i64 0, i32 1
  %42 = load ptr, ptr %41, align 8
  %43 = call fastcc i64 @one_by_one(ptr %0, ptr %1, ptr %42)
  br label %89
44:
  %45 = phi i64 [ %.pre.i.pre, %lock.exit._crit_edge ], [ 0, %35 ], [ %34, %32 ]
  br label %46
46:
  %.017.i = phi i64 [ 0, %44 ], [ %70, %69 ]
  %47 = icmp slt i64 %.017.i, %45
  br i1 %47, label %48, label %made_for.exit.thread
made_for.exit.thread:
  store ptr null, ptr %5, align 8
  br label %71
48:
  %49 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 7
  %50 = load ptr, ptr %49, align 8
  %51 = getelementptr inbounds %struct.graph, ptr %50, i64 %.017.i
  %.phi.trans.insert18.i = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 3
  %.pre19.i = load i64, ptr %.phi.trans.insert18.i, align 8
  br label %52
52:
  %.0.i = phi i64 [ 0, %48 ], [ %67, %66 ]
  %53 = icmp slt i64 %.0.i, %.pre19.i
  br i1 %53, label %54, label %.critedge.i
54:
  %55 = getelementptr inbounds %struct.graph, ptr %50, i64 %.017.i, i32 1
  %56 = load ptr, ptr %55, align 8
  %57 = getelementptr inbounds i64, ptr %56, i64 %.0.i
  %58 = load i64, ptr %57, align 8
  %59 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 4
  %60 = load ptr, ptr %59, align 8
  %61 = getelementptr inbounds i64, ptr %60, i64 %.0.i
  %62 = load i64, ptr %61, align 8
  %63 = getelementptr inbounds i64, ptr %1, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = icmp eq i64 %58, %64
  br i1 %65, label %66, label %.critedge.i
66:
  %67 = add nuw nsw i64 %.0.i, 1
  br label %52
.critedge.i:
  %68 = icmp eq i64 %.0.i, %.pre19.i
  br i1 %68, label %made_for.exit, label %69
69:
  %70 = add nuw nsw i64 %.017.i, 1
  br label %46
made_for.exit:
  store ptr %51, ptr %5, align 8
  %.not42 = icmp eq ptr %50, null
  br i1 %.not42, label %71, label %77
71:
  br i1 %.not39, label %89, label %72
72:
  %73 = load i64, ptr %17, align 8
  %74 = icmp eq i64 %45, %73
  br i1 %74, label %75, label %89
75:
  %76 = call fastcc i64 @set_anew(ptr %0, ptr %1, ptr %5)
  %.not41 = icmp eq i64 %76, 0
  br i1 %.not41, label %._crit_edge, label %89
._crit_edge:
  %.pre = load ptr, ptr %5, align 8
  br label %77
77:
  %78 = phi ptr [ %.pre, %._crit_edge ], [ %51, %made_for.exit ]
  %79 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 11
  %80 = load i64, ptr %79, align 8
  %81 = add nsw i64 %80, 1
  store i64 %81, ptr %79, align 8
  %82 = getelementptr inbounds %struct.graph, ptr %78, i64 0, i32 4
  store i64 %81, ptr %82, align 8
  %83 = getelementptr inbounds %struct.graph, ptr %78, i64 0, i32 0
  %84 = load ptr, ptr %83, align 8
  %85 = getelementptr inbounds %struct.place, ptr %2, i64 0, i32 1
  %86 = load ptr, ptr %85, align 8
  %87 = call i32 @cuGraphLaunch(ptr %84, ptr %86)
  %88 = sext i32 %87 to i64
  br label %89
89:
  %.1 = phi i64 [ %43, %40 ], [ %88, %77 ], [ %76, %75 ], [ -1, %72 ], [ -1, %71 ]
  store atomic i64 0, ptr %24 release, align 8
  br label %90
90:
  %.030 = phi i64 [ %13, %.thread ], [ %.1, %89 ], [ %22, %19 ]
  ret i64 %.030
}
declare i32 @cuCtxGetCurrent(ptr)
declare i32 @cuCtxSetCurrent(ptr)
define internal fastcc i64 @one_by_one(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca [256 x i64], align 16
  %5 = alloca [256 x ptr], align 16
  br label %6
6:
  %.025 = phi i64 [ 0, %3 ], [ %60, %59 ]
  %7 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 0
  %8 = load i64, ptr %7, align 8
  %9 = icmp slt i64 %.025, %8
  br i1 %9, label %10, label %61
10:
  %11 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 2
  %12 = load ptr, ptr %11, align 8
  br label %13
13:
  %.0.i = phi i64 [ 0, %10 ], [ %29, %25 ]
  %14 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 5
  %15 = load i64, ptr %14, align 8
  %16 = icmp slt i64 %.0.i, %15
  br i1 %16, label %17, label %fill.exit
17:
  %18 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 6
  %19 = load ptr, ptr %18, align 8
  %20 = getelementptr inbounds %struct.term, ptr %19, i64 %.0.i
  %.sroa.0.0.copyload.i = load i64, ptr %20, align 8
  %.sroa.3.0..sroa_idx.i = getelementptr inbounds i8, ptr %20, i64 8
  %.sroa.3.0.copyload.i = load i64, ptr %.sroa.3.0..sroa_idx.i, align 8
  %21 = icmp slt i64 %.sroa.0.0.copyload.i, 0
  br i1 %21, label %25, label %22
22:
  %23 = getelementptr inbounds i64, ptr %1, i64 %.sroa.0.0.copyload.i
  %24 = load i64, ptr %23, align 8
  br label %25
25:
  %26 = phi i64 [ %24, %22 ], [ 0, %17 ]
  %27 = add nsw i64 %.sroa.3.0.copyload.i, %26
  %28 = getelementptr inbounds [256 x i64], ptr %4, i64 0, i64 %.0.i
  store i64 %27, ptr %28, align 8
  %29 = add nuw nsw i64 %.0.i, 1
  br label %13
fill.exit:
  %30 = phi i64 [ %.pre, %32 ], [ %15, %13 ]
  %.024 = phi i64 [ %35, %32 ], [ 0, %13 ]
  %31 = icmp slt i64 %.024, %30
  br i1 %31, label %32, label %36
32:
  %33 = getelementptr inbounds [256 x i64], ptr %4, i64 0, i64 %.024
  %34 = getelementptr inbounds [256 x ptr], ptr %5, i64 0, i64 %.024
  store ptr %33, ptr %34, align 8
  %35 = add nuw nsw i64 %.024, 1
  %.pre = load i64, ptr %14, align 8
  br label %fill.exit
36:
  %37 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 0
  %38 = load ptr, ptr %37, align 8
  %39 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 1, i64 0
  %40 = load i32, ptr %39, align 8
  %41 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 1, i64 1
  %42 = load i32, ptr %41, align 4
  %43 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 1, i64 2
  %44 = load i32, ptr %43, align 8
  %45 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 2, i64 0
  %46 = load i32, ptr %45, align 4
  %47 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 2, i64 1
  %48 = load i32, ptr %47, align 4
  %49 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 2, i64 2
  %50 = load i32, ptr %49, align 4
  %51 = getelementptr inbounds %struct.launch, ptr %12, i64 %.025, i32 3
  %52 = load i32, ptr %51, align 8
  %53 = getelementptr inbounds [256 x ptr], ptr %5, i64 0, i64 0
  %54 = call i32 @cuLaunchKernel(ptr %38, i32 %40, i32 %42, i32 %44, i32 %46, i32 %48, i32 %50, i32 %52, ptr %2, ptr %53, ptr null)
  %.not = icmp eq i32 %54, 0
  br i1 %.not, label %59, label %55
55:
  %56 = shl i64 %.025, 32
  %57 = sext i32 %54 to i64
  %58 = or i64 %56, %57
  br label %61
59:
  %60 = add nuw nsw i64 %.025, 1
  br label %6
61:
  %.0 = phi i64 [ %58, %55 ], [ 0, %6 ]
  ret i64 %.0
}
define internal fastcc i64 @set_anew(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca [256 x i64], align 16
  %5 = alloca [256 x ptr], align 16
  %6 = alloca %struct.node_params, align 8
  %7 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 7
  %8 = load ptr, ptr %7, align 8
  %.phi.trans.insert = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 6
  %.pre = load i64, ptr %.phi.trans.insert, align 8
  br label %9
9:
  %.068 = phi i64 [ 1, %3 ], [ %18, %11 ]
  %.064 = phi ptr [ %8, %3 ], [ %spec.select, %11 ]
  %10 = icmp slt i64 %.068, %.pre
  br i1 %10, label %11, label %19
11:
  %12 = getelementptr inbounds %struct.graph, ptr %8, i64 %.068
  %13 = getelementptr inbounds %struct.graph, ptr %8, i64 %.068, i32 4
  %14 = load i64, ptr %13, align 8
  %15 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 4
  %16 = load i64, ptr %15, align 8
  %17 = icmp slt i64 %14, %16
  %spec.select = select i1 %17, ptr %12, ptr %.064
  %18 = add nuw nsw i64 %.068, 1
  br label %9
19:
  %20 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 3
  %21 = load ptr, ptr %20, align 8
  br label %22
22:
  %.066 = phi i64 [ 0, %19 ], [ %30, %26 ]
  %23 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 3
  %24 = load i64, ptr %23, align 8
  %25 = icmp slt i64 %.066, %24
  br i1 %25, label %26, label %31
26:
  %27 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 1
  %28 = load ptr, ptr %27, align 8
  %29 = getelementptr inbounds i64, ptr %28, i64 %.066
  store i64 0, ptr %29, align 8
  %30 = add nuw nsw i64 %.066, 1
  br label %22
31:
  %.067 = phi ptr [ %68, %110 ], [ %21, %22 ]
  %.065 = phi i64 [ %111, %110 ], [ 0, %22 ]
  %32 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 0
  %33 = load i64, ptr %32, align 8
  %34 = icmp slt i64 %.065, %33
  br i1 %34, label %35, label %112
35:
  %36 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 2
  %37 = load ptr, ptr %36, align 8
  br label %38
38:
  %.0.i = phi i64 [ 0, %35 ], [ %54, %50 ]
  %39 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 5
  %40 = load i64, ptr %39, align 8
  %41 = icmp slt i64 %.0.i, %40
  br i1 %41, label %42, label %fill.exit
42:
  %43 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 6
  %44 = load ptr, ptr %43, align 8
  %45 = getelementptr inbounds %struct.term, ptr %44, i64 %.0.i
  %.sroa.0.0.copyload.i = load i64, ptr %45, align 8
  %.sroa.3.0..sroa_idx.i = getelementptr inbounds i8, ptr %45, i64 8
  %.sroa.3.0.copyload.i = load i64, ptr %.sroa.3.0..sroa_idx.i, align 8
  %46 = icmp slt i64 %.sroa.0.0.copyload.i, 0
  br i1 %46, label %50, label %47
47:
  %48 = getelementptr inbounds i64, ptr %1, i64 %.sroa.0.0.copyload.i
  %49 = load i64, ptr %48, align 8
  br label %50
50:
  %51 = phi i64 [ %49, %47 ], [ 0, %42 ]
  %52 = add nsw i64 %.sroa.3.0.copyload.i, %51
  %53 = getelementptr inbounds [256 x i64], ptr %4, i64 0, i64 %.0.i
  store i64 %52, ptr %53, align 8
  %54 = add nuw nsw i64 %.0.i, 1
  br label %38
fill.exit:
  %55 = phi i64 [ %.pre70, %57 ], [ %40, %38 ]
  %.063 = phi i32 [ %64, %57 ], [ 1, %38 ]
  %.062 = phi i64 [ %66, %57 ], [ 0, %38 ]
  %56 = icmp slt i64 %.062, %55
  br i1 %56, label %57, label %67
57:
  %58 = getelementptr inbounds i64, ptr %.067, i64 %.062
  %59 = load i64, ptr %58, align 8
  %60 = getelementptr inbounds [256 x i64], ptr %4, i64 0, i64 %.062
  %61 = load i64, ptr %60, align 8
  %62 = icmp eq i64 %59, %61
  %63 = zext i1 %62 to i32
  %64 = and i32 %.063, %63
  store i64 %61, ptr %58, align 8
  %65 = getelementptr inbounds [256 x ptr], ptr %5, i64 0, i64 %.062
  store ptr %60, ptr %65, align 8
  %66 = add nuw nsw i64 %.062, 1
  %.pre70 = load i64, ptr %39, align 8
  br label %fill.exit
67:
  %68 = getelementptr inbounds i64, ptr %.067, i64 %55
  %.not = icmp eq i32 %.063, 0
  br i1 %.not, label %69, label %110
69:
  %70 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 0
  %71 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 0
  %72 = load ptr, ptr %71, align 8
  store ptr %72, ptr %70, align 8
  %73 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 1, i64 0
  %74 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 1, i64 0
  %75 = load i32, ptr %74, align 8
  store i32 %75, ptr %73, align 8
  %76 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 1, i64 1
  %77 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 1, i64 1
  %78 = load i32, ptr %77, align 4
  store i32 %78, ptr %76, align 4
  %79 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 1, i64 2
  %80 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 1, i64 2
  %81 = load i32, ptr %80, align 8
  store i32 %81, ptr %79, align 8
  %82 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 2, i64 0
  %83 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 2, i64 0
  %84 = load i32, ptr %83, align 4
  store i32 %84, ptr %82, align 4
  %85 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 2, i64 1
  %86 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 2, i64 1
  %87 = load i32, ptr %86, align 4
  store i32 %87, ptr %85, align 8
  %88 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 2, i64 2
  %89 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 2, i64 2
  %90 = load i32, ptr %89, align 4
  store i32 %90, ptr %88, align 4
  %91 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 3
  %92 = getelementptr inbounds %struct.launch, ptr %37, i64 %.065, i32 3
  %93 = load i32, ptr %92, align 8
  store i32 %93, ptr %91, align 8
  %94 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 4
  %95 = getelementptr inbounds [256 x ptr], ptr %5, i64 0, i64 0
  store ptr %95, ptr %94, align 8
  %96 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 5
  store ptr null, ptr %96, align 8
  %97 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 6
  store ptr null, ptr %97, align 8
  %98 = getelementptr inbounds %struct.node_params, ptr %6, i64 0, i32 7
  store ptr null, ptr %98, align 8
  %99 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 0
  %100 = load ptr, ptr %99, align 8
  %101 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 2
  %102 = load ptr, ptr %101, align 8
  %103 = getelementptr inbounds ptr, ptr %102, i64 %.065
  %104 = load ptr, ptr %103, align 8
  %105 = call i32 @cuGraphExecKernelNodeSetParams_v2(ptr %100, ptr %104, ptr %6)
  %.not69 = icmp eq i32 %105, 0
  br i1 %.not69, label %110, label %106
106:
  %107 = shl i64 %.065, 32
  %108 = sext i32 %105 to i64
  %109 = or i64 %107, %108
  br label %127
110:
  %111 = add nuw nsw i64 %.065, 1
  br label %31
112:
  %.0 = phi i64 [ %125, %115 ], [ 0, %31 ]
  %113 = load i64, ptr %23, align 8
  %114 = icmp slt i64 %.0, %113
  br i1 %114, label %115, label %126
115:
  %116 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 4
  %117 = load ptr, ptr %116, align 8
  %118 = getelementptr inbounds i64, ptr %117, i64 %.0
  %119 = load i64, ptr %118, align 8
  %120 = getelementptr inbounds i64, ptr %1, i64 %119
  %121 = load i64, ptr %120, align 8
  %122 = getelementptr inbounds %struct.graph, ptr %.064, i64 0, i32 1
  %123 = load ptr, ptr %122, align 8
  %124 = getelementptr inbounds i64, ptr %123, i64 %.0
  store i64 %121, ptr %124, align 8
  %125 = add nuw nsw i64 %.0, 1
  br label %112
126:
  store ptr %.064, ptr %2, align 8
  br label %127
127:
  %.061 = phi i64 [ %109, %106 ], [ 0, %126 ]
  ret i64 %.061
}
declare i32 @cuGraphLaunch(ptr, ptr)
define void @gpu_add(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca %struct.graph, align 8
  %5 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 10
  br label %6
6:
  %7 = cmpxchg ptr %5, i64 0, i64 1 acquire monotonic, align 8
  %8 = extractvalue { i64, i1 } %7, 1
  br i1 %8, label %lock.exit, label %9
9:
  %10 = call i32 @sched_yield()
  br label %6
lock.exit:
  %11 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 7
  %12 = load ptr, ptr %11, align 8
  %13 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 6
  %14 = load i64, ptr %13, align 8
  call void @llvm.memset.p0.i64(ptr align 8 %4, i8 0, i64 40, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %2, ptr align 8 %4, i64 40, i1 false)
  %15 = load i64, ptr %13, align 8
  %16 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 5
  %17 = load i64, ptr %16, align 8
  %18 = icmp slt i64 %15, %17
  br i1 %18, label %19, label %22
19:
  %20 = getelementptr inbounds %struct.graph, ptr %12, i64 %14
  %21 = add nsw i64 %15, 1
  store i64 %21, ptr %13, align 8
  br label %35
22:
  %23 = load ptr, ptr %11, align 8
  br label %24
24:
  %.022 = phi ptr [ %23, %22 ], [ %spec.select, %26 ]
  %.0 = phi i64 [ 1, %22 ], [ %33, %26 ]
  %25 = icmp slt i64 %.0, %15
  br i1 %25, label %26, label %34
26:
  %27 = getelementptr inbounds %struct.graph, ptr %23, i64 %.0
  %28 = getelementptr inbounds %struct.graph, ptr %23, i64 %.0, i32 4
  %29 = load i64, ptr %28, align 8
  %30 = getelementptr inbounds %struct.graph, ptr %.022, i64 0, i32 4
  %31 = load i64, ptr %30, align 8
  %32 = icmp slt i64 %29, %31
  %spec.select = select i1 %32, ptr %27, ptr %.022
  %33 = add nuw nsw i64 %.0, 1
  br label %24
34:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %2, ptr align 8 %.022, i64 40, i1 false)
  br label %35
35:
  %.2 = phi ptr [ %20, %19 ], [ %.022, %34 ]
  %36 = getelementptr inbounds %struct.segment, ptr %0, i64 0, i32 11
  %37 = load i64, ptr %36, align 8
  %38 = add nsw i64 %37, 1
  store i64 %38, ptr %36, align 8
  %39 = getelementptr inbounds %struct.graph, ptr %1, i64 0, i32 4
  store i64 %38, ptr %39, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %.2, ptr align 8 %1, i64 40, i1 false)
  store atomic i64 0, ptr %5 release, align 8
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define ptr @gpu_call(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = alloca ptr, align 8
  %5 = alloca ptr, align 8
  %6 = call ptr @PyLong_AsVoidPtr(ptr %0)
  %7 = getelementptr inbounds ptr, ptr %1, i64 1
  %8 = add nsw i64 %2, -1
  %9 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 0
  %10 = load i64, ptr %9, align 8
  %.not = icmp eq i64 %8, %10
  br i1 %.not, label %11, label %fits.exit.thread
11:
  %12 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 2
  %13 = load i64, ptr %12, align 8
  %14 = shl i64 %13, 3
  %15 = alloca i8, i64 %14, align 16
  %16 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 3
  %17 = load ptr, ptr %16, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %15, ptr align 8 %17, i64 %14, i1 false)
  br label %18
18:
  %.082 = phi i64 [ 0, %11 ], [ %62, %52 ]
  %19 = icmp slt i64 %.082, %8
  br i1 %19, label %20, label %63
20:
  %21 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 4
  %22 = load ptr, ptr %21, align 8
  %23 = getelementptr inbounds ptr, ptr %7, i64 %.082
  %24 = load ptr, ptr %23, align 8
  %25 = getelementptr inbounds %struct.typed, ptr %24, i64 0, i32 1
  %26 = load ptr, ptr %25, align 8
  %27 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 13
  %28 = load ptr, ptr %27, align 8
  %.not.i = icmp eq ptr %26, %28
  br i1 %.not.i, label %29, label %fits.exit.thread
29:
  %30 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 2
  %31 = load i64, ptr %30, align 8
  %32 = getelementptr inbounds i8, ptr %24, i64 %31
  %33 = load ptr, ptr %32, align 8
  %34 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 15
  %35 = load ptr, ptr %34, align 8
  %.not18.i = icmp eq ptr %33, %35
  br i1 %.not18.i, label %36, label %fits.exit.thread
36:
  %37 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 4
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr inbounds i8, ptr %24, i64 %38
  %40 = load ptr, ptr %39, align 8
  %41 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 1
  %42 = load i64, ptr %41, align 8
  %43 = getelementptr inbounds i8, ptr %24, i64 %42
  %44 = load ptr, ptr %43, align 8
  %45 = getelementptr inbounds %struct.gpu_tensor, ptr %22, i64 %.082, i32 0
  %46 = load ptr, ptr %45, align 8
  %.not19.i = icmp eq ptr %44, %46
  br i1 %.not19.i, label %47, label %fits.exit.thread
47:
  %48 = getelementptr inbounds %struct.gpu_tensor, ptr %22, i64 %.082, i32 1
  %49 = load ptr, ptr %48, align 8
  %.not20.i = icmp eq ptr %40, %49
  br i1 %.not20.i, label %52, label %50
50:
  %51 = call i32 @PyObject_RichCompareBool(ptr %40, ptr %49, i32 2)
  %.not21.i = icmp eq i32 %51, 1
  br i1 %.not21.i, label %52, label %fits.exit.thread
52:
  %53 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 0
  %54 = load i64, ptr %53, align 8
  %55 = getelementptr inbounds i8, ptr %24, i64 %54
  %56 = load ptr, ptr %55, align 8
  %57 = call ptr @PyLong_AsVoidPtr(ptr %56)
  %58 = ptrtoint ptr %57 to i64
  %59 = getelementptr inbounds %struct.gpu_tensor, ptr %22, i64 %.082, i32 2
  %60 = load i64, ptr %59, align 8
  %61 = getelementptr inbounds i64, ptr %15, i64 %60
  store i64 %58, ptr %61, align 8
  %62 = add nuw nsw i64 %.082, 1
  br label %18
63:
  %64 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 1
  %65 = load i64, ptr %64, align 8
  %66 = call ptr @PyTuple_New(i64 %65)
  %.not99 = icmp eq ptr %66, null
  br i1 %.not99, label %202, label %67
67:
  %.081 = phi i64 [ %128, %126 ], [ 0, %63 ]
  %68 = load i64, ptr %64, align 8
  %69 = icmp slt i64 %.081, %68
  br i1 %69, label %70, label %129
70:
  %71 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 5
  %72 = load ptr, ptr %71, align 8
  %73 = getelementptr inbounds %struct.gpu_tensor, ptr %72, i64 %.081
  %74 = getelementptr inbounds %struct.gpu_tensor, ptr %72, i64 %.081, i32 3
  %75 = load i64, ptr %74, align 8
  %76 = icmp sgt i64 %75, -1
  br i1 %76, label %77, label %80
77:
  %78 = getelementptr inbounds ptr, ptr %7, i64 %75
  %79 = load ptr, ptr %78, align 8
  br label %fresh.exit
80:
  %81 = call fastcc ptr @taken(ptr %6, ptr %73)
  %.not.i85 = icmp eq ptr %81, null
  br i1 %.not.i85, label %.thread, label %82
82:
  %83 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 13
  %84 = load ptr, ptr %83, align 8
  %85 = call ptr @PyType_GenericAlloc(ptr %84, i64 0)
  %.not28.i = icmp eq ptr %85, null
  br i1 %.not28.i, label %120, label %86
86:
  %87 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 0
  %88 = load i64, ptr %87, align 8
  %89 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 5
  %90 = load i64, ptr %89, align 8
  %91 = getelementptr inbounds i8, ptr %81, i64 %90
  %92 = load ptr, ptr %91, align 8
  call void @Py_IncRef(ptr %92)
  %93 = getelementptr inbounds i8, ptr %85, i64 %88
  store ptr %92, ptr %93, align 8
  %94 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 1
  %95 = load i64, ptr %94, align 8
  %96 = getelementptr inbounds %struct.gpu_tensor, ptr %73, i64 0, i32 0
  %97 = load ptr, ptr %96, align 8
  call void @Py_IncRef(ptr %97)
  %98 = getelementptr inbounds i8, ptr %85, i64 %95
  store ptr %97, ptr %98, align 8
  %99 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 2
  %100 = load i64, ptr %99, align 8
  %101 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 15
  %102 = load ptr, ptr %101, align 8
  call void @Py_IncRef(ptr %102)
  %103 = getelementptr inbounds i8, ptr %85, i64 %100
  store ptr %102, ptr %103, align 8
  %104 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 4
  %105 = load i64, ptr %104, align 8
  %106 = getelementptr inbounds %struct.gpu_tensor, ptr %72, i64 %.081, i32 1
  %107 = load ptr, ptr %106, align 8
  call void @Py_IncRef(ptr %107)
  %108 = getelementptr inbounds i8, ptr %85, i64 %105
  store ptr %107, ptr %108, align 8
  %109 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 3
  %110 = load i64, ptr %109, align 8
  call void @Py_IncRef(ptr %81)
  %111 = getelementptr inbounds i8, ptr %85, i64 %110
  store ptr %81, ptr %111, align 8
  %112 = load i64, ptr %89, align 8
  %113 = getelementptr inbounds i8, ptr %81, i64 %112
  %114 = load ptr, ptr %113, align 8
  %115 = call ptr @PyLong_AsVoidPtr(ptr %114)
  %116 = ptrtoint ptr %115 to i64
  %117 = getelementptr inbounds %struct.gpu_tensor, ptr %72, i64 %.081, i32 2
  %118 = load i64, ptr %117, align 8
  %119 = getelementptr inbounds i64, ptr %15, i64 %118
  store i64 %116, ptr %119, align 8
  br label %120
120:
  call void @Py_DecRef(ptr %81)
  br label %fresh.exit
fresh.exit:
  %121 = phi ptr [ %79, %77 ], [ %85, %120 ]
  %.not104 = icmp eq ptr %121, null
  br i1 %.not104, label %.thread, label %122
122:
  %123 = load i64, ptr %74, align 8
  %124 = icmp sgt i64 %123, -1
  br i1 %124, label %125, label %126
125:
  call void @Py_IncRef(ptr %121)
  br label %126
126:
  %127 = call i32 @PyTuple_SetItem(ptr %66, i64 %.081, ptr %121)
  %128 = add nuw nsw i64 %.081, 1
  br label %67
129:
  %130 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 6
  %131 = load ptr, ptr %130, align 8
  %.not100 = icmp eq ptr %131, null
  br i1 %.not100, label %155, label %132
132:
  %133 = call fastcc ptr @taken(ptr %6, ptr %131)
  %.not103 = icmp eq ptr %133, null
  br i1 %.not103, label %.thread, label %134
134:
  %135 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 20, i32 5
  %136 = load i64, ptr %135, align 8
  %137 = getelementptr inbounds i8, ptr %133, i64 %136
  %138 = load ptr, ptr %137, align 8
  %139 = call ptr @PyLong_AsVoidPtr(ptr %138)
  %140 = ptrtoint ptr %139 to i64
  br label %141
141:
  %.077 = phi i64 [ 0, %134 ], [ %154, %145 ]
  %142 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 7
  %143 = load i64, ptr %142, align 8
  %144 = icmp slt i64 %.077, %143
  br i1 %144, label %145, label %155
145:
  %146 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 8
  %147 = load ptr, ptr %146, align 8
  %148 = getelementptr inbounds %struct.anon.0, ptr %147, i64 %.077, i32 1
  %149 = load i64, ptr %148, align 8
  %150 = add nsw i64 %149, %140
  %151 = getelementptr inbounds %struct.anon.0, ptr %147, i64 %.077, i32 0
  %152 = load i64, ptr %151, align 8
  %153 = getelementptr inbounds i64, ptr %15, i64 %152
  store i64 %150, ptr %153, align 8
  %154 = add nuw nsw i64 %.077, 1
  br label %141
155:
  %.079 = phi ptr [ null, %129 ], [ %133, %141 ]
  br label %156
156:
  %.076 = phi i64 [ 0, %155 ], [ %170, %160 ]
  %157 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 9
  %158 = load i64, ptr %157, align 8
  %159 = icmp slt i64 %.076, %158
  br i1 %159, label %160, label %171
160:
  %161 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 10
  %162 = load ptr, ptr %161, align 8
  %163 = getelementptr inbounds %struct.anon.1, ptr %162, i64 %.076, i32 1
  %164 = load i64, ptr %163, align 8
  %165 = getelementptr inbounds i64, ptr %15, i64 %164
  %166 = load i64, ptr %165, align 8
  %167 = getelementptr inbounds %struct.anon.1, ptr %162, i64 %.076, i32 0
  %168 = load i64, ptr %167, align 8
  %169 = getelementptr inbounds i64, ptr %15, i64 %168
  store i64 %166, ptr %169, align 8
  %170 = add nuw nsw i64 %.076, 1
  br label %156
171:
  %172 = call ptr @PyEval_SaveThread()
  %173 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 11
  %174 = load ptr, ptr %173, align 8
  %175 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 12
  %176 = load ptr, ptr %175, align 8
  %177 = call i64 @gpu_run(ptr %174, ptr %15, ptr %176)
  call void @PyEval_RestoreThread(ptr %172)
  switch i64 %177, label %186 [
    i64 -1, label %178
    i64 0, label %196
  ]
178:
  %179 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 17
  %180 = load ptr, ptr %179, align 8
  call void @llvm.lifetime.start.p0(i64 8, ptr %5)
  %181 = call ptr @PyLong_FromVoidPtr(ptr %15)
  store ptr %181, ptr %5, align 8
  %.not.i87 = icmp eq ptr %181, null
  br i1 %.not.i87, label %told.exit.thread, label %182
182:
  %183 = call ptr @PyObject_Vectorcall(ptr %180, ptr %5, i64 1, ptr null)
  %.pr.i = load ptr, ptr %5, align 8
  %.not5.i = icmp eq ptr %.pr.i, null
  br i1 %.not5.i, label %185, label %184
184:
  call void @Py_DecRef(ptr %.pr.i)
  br label %185
185:
  %.not6.i = icmp eq ptr %183, null
  br i1 %.not6.i, label %told.exit.thread, label %told.exit
told.exit.thread:
  call void @llvm.lifetime.end.p0(i64 8, ptr %5)
  br label %196
told.exit:
  call void @Py_DecRef(ptr %183)
  call void @llvm.lifetime.end.p0(i64 8, ptr %5)
  br label %171
186:
  %187 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 18
  %188 = load ptr, ptr %187, align 8
  call void @llvm.lifetime.start.p0(i64 8, ptr %4)
  %189 = inttoptr i64 %177 to ptr
  %190 = call ptr @PyLong_FromVoidPtr(ptr %189)
  store ptr %190, ptr %4, align 8
  %.not.i88 = icmp eq ptr %190, null
  br i1 %.not.i88, label %told.exit92, label %191
191:
  %192 = call ptr @PyObject_Vectorcall(ptr %188, ptr %4, i64 1, ptr null)
  %.pr.i89 = load ptr, ptr %4, align 8
  %.not5.i90 = icmp eq ptr %.pr.i89, null
  br i1 %.not5.i90, label %194, label %193
193:
  call void @Py_DecRef(ptr %.pr.i89)
  br label %194
194:
  %.not6.i91 = icmp eq ptr %192, null
  br i1 %.not6.i91, label %told.exit92, label %195
195:
  call void @Py_DecRef(ptr %192)
  br label %told.exit92
told.exit92:
  call void @llvm.lifetime.end.p0(i64 8, ptr %4)
  br label %196
196:
  %.184 = phi ptr [ null, %told.exit92 ], [ %66, %171 ], [ null, %told.exit.thread ]
  %.1 = phi ptr [ %66, %told.exit92 ], [ null, %171 ], [ %66, %told.exit.thread ]
  %.not101 = icmp eq ptr %.079, null
  br i1 %.not101, label %.thread, label %197
197:
  call void @Py_DecRef(ptr %.079)
  br label %.thread
.thread:
  %.198 = phi ptr [ %.1, %197 ], [ %.1, %196 ], [ %66, %fresh.exit ], [ %66, %132 ], [ %66, %80 ]
  %.18497 = phi ptr [ %.184, %197 ], [ %.184, %196 ], [ null, %fresh.exit ], [ null, %132 ], [ null, %80 ]
  %.not102 = icmp eq ptr %.198, null
  br i1 %.not102, label %202, label %198
198:
  call void @Py_DecRef(ptr %.198)
  br label %202
fits.exit.thread:
  %199 = getelementptr inbounds %struct.gpu_description, ptr %6, i64 0, i32 19
  %200 = load ptr, ptr %199, align 8
  %201 = call ptr @PyObject_Vectorcall(ptr %200, ptr %7, i64 %8, ptr null)
  br label %202
202:
  %.0 = phi ptr [ %201, %fits.exit.thread ], [ null, %63 ], [ %.18497, %198 ], [ %.18497, %.thread ]
  ret ptr %.0
}
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyTuple_New(i64)
declare void @Py_IncRef(ptr)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
define internal fastcc ptr @taken(ptr %0, ptr %1) nounwind {
  %3 = getelementptr inbounds %struct.gpu_tensor, ptr %1, i64 0, i32 6
  %4 = load ptr, ptr %3, align 8
  %5 = call i64 @PyList_Size(ptr %4)
  %6 = add nsw i64 %5, -1
  %7 = icmp slt i64 %5, 1
  br i1 %7, label %8, label %13
8:
  %9 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 16
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds %struct.gpu_tensor, ptr %1, i64 0, i32 4
  %12 = call ptr @PyObject_Vectorcall(ptr %10, ptr %11, i64 1, ptr null)
  br label %39
13:
  %14 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 14
  %15 = load ptr, ptr %14, align 8
  %16 = call ptr @PyType_GenericAlloc(ptr %15, i64 0)
  %.not = icmp eq ptr %16, null
  br i1 %.not, label %39, label %17
17:
  %18 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 20, i32 5
  %19 = load i64, ptr %18, align 8
  %20 = load ptr, ptr %3, align 8
  %21 = call ptr @PyList_GetItem(ptr %20, i64 %6)
  call void @Py_IncRef(ptr %21)
  %22 = getelementptr inbounds i8, ptr %16, i64 %19
  store ptr %21, ptr %22, align 8
  %23 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 20, i32 6
  %24 = load i64, ptr %23, align 8
  %25 = load ptr, ptr %3, align 8
  call void @Py_IncRef(ptr %25)
  %26 = getelementptr inbounds i8, ptr %16, i64 %24
  store ptr %25, ptr %26, align 8
  %27 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 20, i32 7
  %28 = load i64, ptr %27, align 8
  %29 = getelementptr inbounds %struct.gpu_tensor, ptr %1, i64 0, i32 4
  %30 = load ptr, ptr %29, align 8
  call void @Py_IncRef(ptr %30)
  %31 = getelementptr inbounds i8, ptr %16, i64 %28
  store ptr %30, ptr %31, align 8
  %32 = getelementptr inbounds %struct.gpu_description, ptr %0, i64 0, i32 20, i32 8
  %33 = load i64, ptr %32, align 8
  %34 = getelementptr inbounds %struct.gpu_tensor, ptr %1, i64 0, i32 5
  %35 = load ptr, ptr %34, align 8
  call void @Py_IncRef(ptr %35)
  %36 = getelementptr inbounds i8, ptr %16, i64 %33
  store ptr %35, ptr %36, align 8
  %37 = load ptr, ptr %3, align 8
  %38 = call i32 @PyList_SetSlice(ptr %37, i64 %6, i64 %5, ptr null)
  br label %39
39:
  %.0 = phi ptr [ %12, %8 ], [ %16, %17 ], [ null, %13 ]
  ret ptr %.0
}
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @sched_yield()
declare i32 @cuGraphExecKernelNodeSetParams_v2(ptr, ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare void @llvm.lifetime.start.p0(i64, ptr)
declare void @llvm.lifetime.end.p0(i64, ptr)
