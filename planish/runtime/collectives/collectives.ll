; made by `make native` from the C beside this
; sha256 e41df767ec8bd9734039f0e851db211cecca702e5b9222caf7c99f823756ea8e
%struct.anon = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64, i64, i64 }
%struct.pending = type { ptr, i64, [2 x i64] }
%struct.record = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 }
%struct.timespec = type { i64, i64 }
@mpi = internal global %struct.anon zeroinitializer, align 8
@pending = internal global [64 x %struct.pending] zeroinitializer, align 16
define void @collectives_connect(ptr %0, i64 %1) nounwind {
  br label %3
3:
  %.0 = phi i32 [ 0, %2 ], [ %10, %5 ]
  %4 = icmp ult i32 %.0, 9
  br i1 %4, label %5, label %11
5:
  %6 = zext i32 %.0 to i64
  %7 = getelementptr inbounds i64, ptr %0, i64 %6
  %8 = load i64, ptr %7, align 8
  %9 = getelementptr inbounds i64, ptr @mpi, i64 %6
  store i64 %8, ptr %9, align 8
  %10 = add nuw nsw i32 %.0, 1
  br label %3
11:
  store i64 %1, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 11), align 8
  ret void
}
define void @collectives_patience(i64 %0) nounwind {
  store i64 %0, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 11), align 8
  ret void
}
define void @collectives_error(ptr %0, ptr %1) nounwind {
  store ptr %0, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 9), align 8
  store ptr %1, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 10), align 8
  ret void
}
define void @collectives_table(ptr %0, i64 %1) nounwind {
  store i64 0, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 13), align 8
  store ptr %0, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 12), align 8
  store i64 %1, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 13), align 8
  ret void
}
define void @collectives_statistics(ptr %0) nounwind {
  %2 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 14), align 8
  store i64 %2, ptr %0, align 8
  %3 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %4 = getelementptr inbounds i64, ptr %0, i64 1
  store i64 %3, ptr %4, align 8
  %5 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  %6 = getelementptr inbounds i64, ptr %0, i64 2
  store i64 %5, ptr %6, align 8
  ret void
}
define void @collective(ptr %0, i64 %1) nounwind {
  %3 = getelementptr inbounds i64, ptr %0, i64 2
  %4 = load i64, ptr %3, align 8
  %5 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 13), align 8
  %6 = and i64 %5, %4
  %.pre.i = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 12), align 8
  br label %7
7:
  %.0.i = phi i64 [ %6, %2 ], [ %16, %14 ]
  %8 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i
  %9 = getelementptr inbounds %struct.record, ptr %8, i64 0, i32 0
  %10 = load i64, ptr %9, align 8
  %11 = icmp eq i64 %10, %4
  br i1 %11, label %find.exit, label %12
12:
  %.not.i = icmp eq i64 %10, 0
  br i1 %.not.i, label %13, label %14
13:
  call void @llvm.trap()
  unreachable
14:
  %15 = add nsw i64 %.0.i, 1
  %16 = and i64 %15, %5
  br label %7
find.exit:
  %17 = load i64, ptr %0, align 8
  %18 = inttoptr i64 %17 to ptr
  %19 = getelementptr inbounds i64, ptr %0, i64 1
  %20 = load i64, ptr %19, align 8
  %21 = inttoptr i64 %20 to ptr
  %22 = getelementptr inbounds i64, ptr %0, i64 3
  %23 = load i64, ptr %22, align 8
  %24 = getelementptr inbounds i64, ptr %0, i64 4
  %25 = load i64, ptr %24, align 8
  %26 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25
  %27 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 6
  %28 = load i64, ptr %27, align 8
  %29 = mul nsw i64 %28, %23
  %30 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 7
  %31 = load i64, ptr %30, align 8
  %32 = mul nsw i64 %31, %23
  %33 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 14), align 8
  %34 = add nsw i64 %33, 1
  store i64 %34, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 14), align 8
  %35 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25, i32 1
  %36 = load i64, ptr %35, align 8
  %.not.i6 = icmp eq i64 %36, 0
  br i1 %.not.i6, label %39, label %37
37:
  %38 = call fastcc i32 @finish(ptr %26)
  %.not75.i = icmp eq i32 %38, 0
  br i1 %.not75.i, label %39, label %run.exit
39:
  %40 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 8
  %41 = load i64, ptr %40, align 8
  %42 = icmp eq i64 %41, 1
  br i1 %42, label %43, label %47
43:
  %44 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 2
  %45 = load i64, ptr %44, align 8
  %.not74.i = icmp eq i64 %45, 4
  br i1 %.not74.i, label %47, label %46
46:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %21, ptr align 1 %18, i64 %32, i1 false)
  br label %run.exit
47:
  %48 = getelementptr inbounds %struct.pending, ptr %26, i64 0, i32 0
  store ptr %8, ptr %48, align 16
  %49 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25, i32 2, i64 0
  %50 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 2
  %51 = load i64, ptr %50, align 8
  %.not71.i = icmp eq i64 %51, 4
  br i1 %.not71.i, label %.thread.i, label %52
52:
  store i64 1, ptr %35, align 8
  %.pr.i = load i64, ptr %50, align 8
  switch i64 %.pr.i, label %.thread.i [
    i64 0, label %53
    i64 1, label %62
    i64 2, label %69
    i64 3, label %78
    i64 5, label %85
  ]
53:
  %54 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 0), align 8
  %55 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %56 = load i64, ptr %55, align 8
  %57 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 5
  %58 = load i64, ptr %57, align 8
  %59 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %60 = load i64, ptr %59, align 8
  %61 = call i32 %54(ptr %18, ptr %21, i64 %29, i64 %56, i64 %58, i64 %60, ptr %49)
  br label %permute.exit.i
62:
  %63 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 1), align 8
  %64 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %65 = load i64, ptr %64, align 8
  %66 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %67 = load i64, ptr %66, align 8
  %68 = call i32 %63(ptr %18, i64 %29, i64 %65, ptr %21, i64 %29, i64 %65, i64 %67, ptr %49)
  br label %permute.exit.i
69:
  %70 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 2), align 8
  %71 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %72 = load i64, ptr %71, align 8
  %73 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 5
  %74 = load i64, ptr %73, align 8
  %75 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %76 = load i64, ptr %75, align 8
  %77 = call i32 %70(ptr %18, ptr %21, i64 %29, i64 %72, i64 %74, i64 %76, ptr %49)
  br label %permute.exit.i
78:
  %79 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 3), align 8
  %80 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %81 = load i64, ptr %80, align 8
  %82 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %83 = load i64, ptr %82, align 8
  %84 = call i32 %79(ptr %18, i64 %29, i64 %81, ptr %21, i64 %29, i64 %81, i64 %83, ptr %49)
  br label %permute.exit.i
85:
  %86 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 9
  %87 = load i64, ptr %86, align 8
  %88 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 10
  %89 = load i64, ptr %88, align 8
  %90 = icmp eq i64 %87, %89
  br i1 %90, label %91, label %92
91:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %21, ptr align 1 %18, i64 %32, i1 false)
  %.pre.i7 = load i64, ptr %88, align 8
  br label %92
92:
  %93 = phi i64 [ %.pre.i7, %91 ], [ %89, %85 ]
  %94 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 4), align 8
  %95 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %96 = load i64, ptr %95, align 8
  %97 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %98 = load i64, ptr %97, align 8
  %99 = call i32 %94(ptr %21, i64 %29, i64 %96, i64 %93, i64 %98, ptr %49)
  br label %permute.exit.i
.thread.i:
  %100 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 11
  %101 = load i64, ptr %100, align 8
  %102 = icmp slt i64 %101, 0
  br i1 %102, label %103, label %104
103:
  call void @llvm.memset.p0.i64(ptr align 1 %21, i8 0, i64 %32, i1 false)
  br label %119
104:
  %105 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 9
  %106 = load i64, ptr %105, align 8
  %107 = icmp eq i64 %101, %106
  br i1 %107, label %108, label %109
108:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %21, ptr align 1 %18, i64 %32, i1 false)
  br label %119
109:
  %110 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 6), align 8
  %111 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %114 = load i64, ptr %113, align 8
  %115 = load i64, ptr %35, align 8
  %116 = add nsw i64 %115, 1
  store i64 %116, ptr %35, align 8
  %117 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25, i32 2, i64 %115
  %118 = call i32 %110(ptr %21, i64 %32, i64 %112, i64 %101, i64 4711, i64 %114, ptr %117)
  %.not.i.i = icmp eq i32 %118, 0
  br i1 %.not.i.i, label %119, label %permute.exit.thread78.i
119:
  %120 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 12
  %121 = load i64, ptr %120, align 8
  %122 = icmp slt i64 %121, 0
  br i1 %122, label %permute.exit.thread.i, label %123
123:
  %124 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 9
  %125 = load i64, ptr %124, align 8
  %126 = icmp eq i64 %121, %125
  br i1 %126, label %permute.exit.thread.i, label %127
127:
  %128 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 5), align 8
  %129 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 4
  %130 = load i64, ptr %129, align 8
  %131 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 3
  %132 = load i64, ptr %131, align 8
  %133 = load i64, ptr %35, align 8
  %134 = add nsw i64 %133, 1
  store i64 %134, ptr %35, align 8
  %135 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25, i32 2, i64 %133
  %136 = call i32 %128(ptr %18, i64 %32, i64 %130, i64 %121, i64 4711, i64 %132, ptr %135)
  br label %permute.exit.i
permute.exit.i:
  %.070.in.i = phi i32 [ %99, %92 ], [ %84, %78 ], [ %77, %69 ], [ %68, %62 ], [ %61, %53 ], [ %136, %127 ]
  %.not72.i = icmp eq i32 %.070.in.i, 0
  br i1 %.not72.i, label %permute.exit.thread.i, label %permute.exit.thread78.i
permute.exit.thread78.i:
  %.070.in81.i = phi i32 [ %.070.in.i, %permute.exit.i ], [ %118, %109 ]
  %.070.i = sext i32 %.070.in81.i to i64
  store i64 0, ptr %35, align 8
  %137 = call fastcc i32 @fail(ptr %8, i64 %.070.i)
  br label %run.exit
permute.exit.thread.i:
  %.not73.i = icmp eq i64 %25, 0
  br i1 %.not73.i, label %138, label %run.exit
138:
  %139 = call fastcc i32 @finish(ptr %26)
  br label %run.exit
run.exit:
  %.0.i8 = phi i32 [ 0, %46 ], [ %137, %permute.exit.thread78.i ], [ 1, %37 ], [ %139, %138 ], [ 0, %permute.exit.thread.i ]
  %140 = sext i32 %.0.i8 to i64
  %141 = getelementptr inbounds i64, ptr %0, i64 5
  store i64 %140, ptr %141, align 8
  ret void
}
define void @collective_wait(ptr %0, i64 %1) nounwind {
  %3 = getelementptr inbounds i64, ptr %0, i64 2
  %4 = load i64, ptr %3, align 8
  %5 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %4
  %6 = call fastcc i32 @finish(ptr %5)
  %7 = sext i32 %6 to i64
  %8 = getelementptr inbounds i64, ptr %0, i64 3
  store i64 %7, ptr %8, align 8
  ret void
}
define internal fastcc i32 @finish(ptr %0) nounwind {
  %2 = alloca [16 x i64], align 16
  %3 = alloca i32, align 4
  br label %4
4:
  %.08 = phi i32 [ 0, %1 ], [ %.0.i, %await.exit ]
  %.0 = phi i64 [ 0, %1 ], [ %55, %await.exit ]
  %5 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 1
  %6 = load i64, ptr %5, align 8
  %7 = icmp slt i64 %.0, %6
  %.not = icmp eq i32 %.08, 0
  %8 = select i1 %7, i1 %.not, i1 false
  br i1 %8, label %9, label %56
9:
  %10 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 0
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 2, i64 %.0
  call void @llvm.lifetime.start.p0(i64 128, ptr %2)
  call void @llvm.lifetime.start.p0(i64 4, ptr %3)
  br label %13
13:
  %.024.i = phi i64 [ 0, %9 ], [ %.226.i, %53 ]
  %.021.i = phi i64 [ 0, %9 ], [ %.3.i, %53 ]
  %.020.i = phi i32 [ 1, %9 ], [ %54, %53 ]
  %.019.i = phi i64 [ 0, %9 ], [ %.2.i, %53 ]
  store i32 0, ptr %3, align 4
  %14 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 7), align 8
  %15 = getelementptr inbounds [16 x i64], ptr %2, i64 0, i64 0
  %16 = call i32 %14(ptr %12, ptr %3, ptr %15)
  %.not.i = icmp eq i32 %16, 0
  br i1 %.not.i, label %20, label %17
17:
  %18 = sext i32 %16 to i64
  %19 = call fastcc i32 @fail(ptr %11, i64 %18)
  br label %await.exit
20:
  %21 = load i32, ptr %3, align 4
  %.not27.i = icmp eq i32 %21, 0
  br i1 %.not27.i, label %32, label %22
22:
  %.not31.i = icmp eq i64 %.019.i, 0
  br i1 %.not31.i, label %await.exit, label %23
23:
  %24 = call fastcc i64 @nanoseconds()
  %25 = sub nsw i64 %24, %.019.i
  %26 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %27 = add nsw i64 %26, %25
  store i64 %27, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %28 = call fastcc i64 @processor_nanoseconds()
  %29 = sub nsw i64 %28, %.024.i
  %30 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  %31 = add nsw i64 %30, %29
  store i64 %31, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  br label %await.exit
32:
  %33 = and i32 %.020.i, 31
  %.not28.i = icmp eq i32 %33, 0
  br i1 %.not28.i, label %34, label %53
34:
  %35 = call fastcc i64 @nanoseconds()
  %.not29.i = icmp eq i64 %.019.i, 0
  br i1 %.not29.i, label %36, label %38
36:
  %37 = call fastcc i64 @processor_nanoseconds()
  br label %38
38:
  %.125.i = phi i64 [ %.024.i, %34 ], [ %37, %36 ]
  %.122.i = phi i64 [ %.021.i, %34 ], [ %35, %36 ]
  %.1.i = phi i64 [ %.019.i, %34 ], [ %35, %36 ]
  %39 = sub nsw i64 %35, %.1.i
  %40 = icmp sgt i64 %39, 50000
  br i1 %40, label %41, label %43
41:
  %42 = call i32 @sched_yield()
  br label %43
43:
  %44 = sub nsw i64 %35, %.122.i
  %45 = icmp sgt i64 %44, 20000000
  br i1 %45, label %46, label %48
46:
  %47 = call fastcc i32 @signalled()
  %.not30.i = icmp eq i32 %47, 0
  br i1 %.not30.i, label %48, label %await.exit
48:
  %.223.i = phi i64 [ %.122.i, %43 ], [ %35, %46 ]
  %49 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 11), align 8
  %50 = icmp sgt i64 %39, %49
  br i1 %50, label %51, label %53
51:
  %52 = call fastcc i32 @fail(ptr %11, i64 -1)
  br label %await.exit
53:
  %.226.i = phi i64 [ %.024.i, %32 ], [ %.125.i, %48 ]
  %.3.i = phi i64 [ %.021.i, %32 ], [ %.223.i, %48 ]
  %.2.i = phi i64 [ %.019.i, %32 ], [ %.1.i, %48 ]
  %54 = add nuw nsw i32 %.020.i, 1
  br label %13
await.exit:
  %.0.i = phi i32 [ %19, %17 ], [ %52, %51 ], [ 0, %23 ], [ 0, %22 ], [ 1, %46 ]
  call void @llvm.lifetime.end.p0(i64 128, ptr %2)
  call void @llvm.lifetime.end.p0(i64 4, ptr %3)
  %55 = add nuw nsw i64 %.0, 1
  br label %4
56:
  store i64 0, ptr %5, align 8
  ret i32 %.08
}
define void @collective_index(ptr %0, i64 %1) nounwind {
  %3 = getelementptr inbounds i64, ptr %0, i64 1
  %4 = load i64, ptr %3, align 8
  %5 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 13), align 8
  %6 = and i64 %5, %4
  %.pre.i = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 12), align 8
  br label %7
7:
  %.0.i = phi i64 [ %6, %2 ], [ %15, %13 ]
  %8 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 0
  %9 = load i64, ptr %8, align 8
  %10 = icmp eq i64 %9, %4
  br i1 %10, label %find.exit, label %11
11:
  %.not.i = icmp eq i64 %9, 0
  br i1 %.not.i, label %12, label %13
12:
  call void @llvm.trap()
  unreachable
13:
  %14 = add nsw i64 %.0.i, 1
  %15 = and i64 %14, %5
  br label %7
find.exit:
  %16 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 9
  %17 = load i64, ptr %16, align 8
  %18 = load i64, ptr %0, align 8
  %19 = inttoptr i64 %18 to ptr
  store i64 %17, ptr %19, align 8
  %20 = getelementptr inbounds i64, ptr %0, i64 2
  store i64 0, ptr %20, align 8
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal fastcc i32 @fail(ptr %0, i64 %1) nounwind {
  %3 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 8), align 8
  %4 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 1
  %5 = load i64, ptr %4, align 8
  call void %3(i64 %5, i64 %1)
  %6 = call i32 @PyGILState_Ensure()
  %7 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 9), align 8
  %8 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 10), align 8
  call void @PyErr_SetObject(ptr %7, ptr %8)
  call void @PyGILState_Release(i32 %6)
  ret i32 1
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @PyGILState_Ensure()
declare void @PyErr_SetObject(ptr, ptr)
declare void @PyGILState_Release(i32)
declare void @llvm.trap()
define internal fastcc i64 @nanoseconds() nounwind {
  %1 = alloca %struct.timespec, align 8
  %2 = call i32 @clock_gettime(i32 1, ptr %1)
  %3 = getelementptr inbounds %struct.timespec, ptr %1, i64 0, i32 0
  %4 = load i64, ptr %3, align 8
  %5 = mul nsw i64 %4, 1000000000
  %6 = getelementptr inbounds %struct.timespec, ptr %1, i64 0, i32 1
  %7 = load i64, ptr %6, align 8
  %8 = add nsw i64 %5, %7
  ret i64 %8
}
define internal fastcc i64 @processor_nanoseconds() nounwind {
  %1 = alloca %struct.timespec, align 8
  %2 = call i32 @clock_gettime(i32 3, ptr %1)
  %3 = getelementptr inbounds %struct.timespec, ptr %1, i64 0, i32 0
  %4 = load i64, ptr %3, align 8
  %5 = mul nsw i64 %4, 1000000000
  %6 = getelementptr inbounds %struct.timespec, ptr %1, i64 0, i32 1
  %7 = load i64, ptr %6, align 8
  %8 = add nsw i64 %5, %7
  ret i64 %8
}
declare i32 @sched_yield()
define internal fastcc i32 @signalled() nounwind {
  %1 = call i32 @PyGILState_Ensure()
  %2 = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %1)
  %3 = icmp ne i32 %2, 0
  %4 = zext i1 %3 to i32
  ret i32 %4
}
declare i32 @clock_gettime(i32, ptr)
declare i32 @PyErr_CheckSignals()
declare void @llvm.lifetime.start.p0(i64, ptr)
declare void @llvm.lifetime.end.p0(i64, ptr)
