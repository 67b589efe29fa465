; made by `make native` from the C beside this
; sha256 faa56d948ba33c339e8b4282cae258965ad62887cbca788077c4d0ee8fdc61b1
%struct.anon = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64, i64, i64 }
%struct.pending = type { ptr, i64, [2 x i64] }
%struct.record = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 }
%struct.timespec = type { i64, i64 }
@mpi = internal global %struct.anon zeroinitializer, align 8
@pending = internal global [64 x %struct.pending] zeroinitializer, align 16
@under_way = internal global i64 0, align 8
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
  %.not76.i = icmp eq i32 %38, 0
  br i1 %.not76.i, label %39, label %run.exit
39:
  %40 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 8
  %41 = load i64, ptr %40, align 8
  %42 = icmp eq i64 %41, 1
  br i1 %42, label %43, label %47
43:
  %44 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 2
  %45 = load i64, ptr %44, align 8
  %.not75.i = icmp eq i64 %45, 4
  br i1 %.not75.i, label %47, label %46
46:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %21, ptr align 1 %18, i64 %32, i1 false)
  br label %run.exit
47:
  %48 = getelementptr inbounds %struct.pending, ptr %26, i64 0, i32 0
  store ptr %8, ptr %48, align 16
  %49 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %25, i32 2, i64 0
  %50 = getelementptr inbounds %struct.record, ptr %.pre.i, i64 %.0.i, i32 2
  %51 = load i64, ptr %50, align 8
  %.not72.i = icmp eq i64 %51, 4
  br i1 %.not72.i, label %.thread.i, label %52
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
  br i1 %.not.i.i, label %119, label %permute.exit.thread79.i
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
  %.071.in.i = phi i32 [ %99, %92 ], [ %84, %78 ], [ %77, %69 ], [ %68, %62 ], [ %61, %53 ], [ %136, %127 ]
  %.not73.i = icmp eq i32 %.071.in.i, 0
  br i1 %.not73.i, label %permute.exit.thread.i, label %permute.exit.thread79.i
permute.exit.thread79.i:
  %.071.in82.i = phi i32 [ %.071.in.i, %permute.exit.i ], [ %118, %109 ]
  %.071.i = sext i32 %.071.in82.i to i64
  store i64 0, ptr %35, align 8
  %137 = call fastcc i32 @fail(ptr %8, i64 %.071.i)
  br label %run.exit
permute.exit.thread.i:
  %.not74.i = icmp eq i64 %25, 0
  br i1 %.not74.i, label %138, label %140
138:
  %139 = call fastcc i32 @finish(ptr %26)
  br label %run.exit
140:
  %141 = shl i64 1, %25
  %142 = load i64, ptr @under_way, align 8
  %143 = or i64 %142, %141
  store i64 %143, ptr @under_way, align 8
  br label %run.exit
run.exit:
  %.0.i8 = phi i32 [ 0, %46 ], [ %137, %permute.exit.thread79.i ], [ 0, %140 ], [ %139, %138 ], [ 1, %37 ]
  %144 = sext i32 %.0.i8 to i64
  %145 = getelementptr inbounds i64, ptr %0, i64 5
  store i64 %144, ptr %145, align 8
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
  %4 = ptrtoint ptr %0 to i64
  %5 = sub i64 %4, ptrtoint (ptr @pending to i64)
  %6 = ashr exact i64 %5, 5
  %7 = shl i64 1, %6
  %8 = xor i64 %7, -1
  %9 = load i64, ptr @under_way, align 8
  %10 = and i64 %9, %8
  store i64 %10, ptr @under_way, align 8
  br label %11
11:
  %.09 = phi i32 [ 0, %1 ], [ %.0.i, %await.exit ]
  %.0 = phi i64 [ 0, %1 ], [ %62, %await.exit ]
  %12 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 1
  %13 = load i64, ptr %12, align 8
  %14 = icmp slt i64 %.0, %13
  %.not = icmp eq i32 %.09, 0
  %15 = select i1 %14, i1 %.not, i1 false
  br i1 %15, label %16, label %63
16:
  %17 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 0
  %18 = load ptr, ptr %17, align 8
  %19 = getelementptr inbounds %struct.pending, ptr %0, i64 0, i32 2, i64 %.0
  call void @llvm.lifetime.start.p0(i64 128, ptr %2)
  call void @llvm.lifetime.start.p0(i64 4, ptr %3)
  br label %20
20:
  %.024.i = phi i64 [ 0, %16 ], [ %.226.i, %60 ]
  %.021.i = phi i64 [ 0, %16 ], [ %.3.i, %60 ]
  %.020.i = phi i32 [ 1, %16 ], [ %61, %60 ]
  %.019.i = phi i64 [ 0, %16 ], [ %.2.i, %60 ]
  store i32 0, ptr %3, align 4
  %21 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 7), align 8
  %22 = getelementptr inbounds [16 x i64], ptr %2, i64 0, i64 0
  %23 = call i32 %21(ptr %19, ptr %3, ptr %22)
  %.not.i = icmp eq i32 %23, 0
  br i1 %.not.i, label %27, label %24
24:
  %25 = sext i32 %23 to i64
  %26 = call fastcc i32 @fail(ptr %18, i64 %25)
  br label %await.exit
27:
  %28 = load i32, ptr %3, align 4
  %.not27.i = icmp eq i32 %28, 0
  br i1 %.not27.i, label %39, label %29
29:
  %.not31.i = icmp eq i64 %.019.i, 0
  br i1 %.not31.i, label %await.exit, label %30
30:
  %31 = call fastcc i64 @nanoseconds()
  %32 = sub nsw i64 %31, %.019.i
  %33 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %34 = add nsw i64 %33, %32
  store i64 %34, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %35 = call fastcc i64 @processor_nanoseconds()
  %36 = sub nsw i64 %35, %.024.i
  %37 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  %38 = add nsw i64 %37, %36
  store i64 %38, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  br label %await.exit
39:
  %40 = and i32 %.020.i, 31
  %.not28.i = icmp eq i32 %40, 0
  br i1 %.not28.i, label %41, label %60
41:
  %42 = call fastcc i64 @nanoseconds()
  %.not29.i = icmp eq i64 %.019.i, 0
  br i1 %.not29.i, label %43, label %45
43:
  %44 = call fastcc i64 @processor_nanoseconds()
  br label %45
45:
  %.125.i = phi i64 [ %.024.i, %41 ], [ %44, %43 ]
  %.122.i = phi i64 [ %.021.i, %41 ], [ %42, %43 ]
  %.1.i = phi i64 [ %.019.i, %41 ], [ %42, %43 ]
  %46 = sub nsw i64 %42, %.1.i
  %47 = icmp sgt i64 %46, 50000
  br i1 %47, label %48, label %50
48:
  %49 = call i32 @sched_yield()
  br label %50
50:
  %51 = sub nsw i64 %42, %.122.i
  %52 = icmp sgt i64 %51, 20000000
  br i1 %52, label %53, label %55
53:
  %54 = call fastcc i32 @signalled()
  %.not30.i = icmp eq i32 %54, 0
  br i1 %.not30.i, label %55, label %await.exit
55:
  %.223.i = phi i64 [ %.122.i, %50 ], [ %42, %53 ]
  %56 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 11), align 8
  %57 = icmp sgt i64 %46, %56
  br i1 %57, label %58, label %60
58:
  %59 = call fastcc i32 @fail(ptr %18, i64 -1)
  br label %await.exit
60:
  %.226.i = phi i64 [ %.024.i, %39 ], [ %.125.i, %55 ]
  %.3.i = phi i64 [ %.021.i, %39 ], [ %.223.i, %55 ]
  %.2.i = phi i64 [ %.019.i, %39 ], [ %.1.i, %55 ]
  %61 = add nuw nsw i32 %.020.i, 1
  br label %20
await.exit:
  %.0.i = phi i32 [ %26, %24 ], [ %59, %58 ], [ 0, %30 ], [ 0, %29 ], [ 1, %53 ]
  call void @llvm.lifetime.end.p0(i64 128, ptr %2)
  call void @llvm.lifetime.end.p0(i64 4, ptr %3)
  %62 = add nuw nsw i64 %.0, 1
  br label %11
63:
  store i64 0, ptr %12, align 8
  ret i32 %.09
}
define void @collective_poll(ptr %0, i64 %1) nounwind {
  %3 = alloca [16 x i64], align 16
  %4 = alloca i32, align 4
  %5 = load i64, ptr @under_way, align 8
  %.not = icmp eq i64 %5, 0
  br i1 %.not, label %18, label %6
6:
  %7 = call i64 @llvm.cttz.i64(i64 %5, i1 true)
  br label %8
8:
  %.0 = phi i64 [ 0, %6 ], [ %17, %12 ]
  %9 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %7, i32 1
  %10 = load i64, ptr %9, align 8
  %11 = icmp slt i64 %.0, %10
  br i1 %11, label %12, label %18
12:
  %13 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 7), align 8
  %14 = getelementptr inbounds [64 x %struct.pending], ptr @pending, i64 0, i64 %7, i32 2, i64 %.0
  %15 = getelementptr inbounds [16 x i64], ptr %3, i64 0, i64 0
  %16 = call i32 %13(ptr %14, ptr %4, ptr %15)
  %17 = add nuw nsw i64 %.0, 1
  br label %8
18:
  ret void
}
declare i64 @llvm.cttz.i64(i64, i1)
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
