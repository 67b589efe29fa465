; made by `make native` from the C beside this
; sha256 779554368b899f4a5b425f43ade6549790a3b34c81aa1e3f56760c1c1593b04d
%struct.anon = type { i64, [56 x i8], i64, [56 x i8], i32, [60 x i8], %struct.anon.0, [40 x i8], i64, [56 x i8], i64, [56 x i8], i64, [56 x i8], i64, [56 x i8], %struct.anon.1, [48 x i8] }
%struct.anon.0 = type { ptr, ptr, i64 }
%struct.anon.1 = type { i64, i64 }
%struct.anon.2 = type { i64, i64, i64, i64, i64, i64, i64, [384 x ptr], i32 }
%struct.numpy_allocator = type { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr }
%struct.anon.3 = type { i32, i32, i64, ptr, ptr }
%struct.timespec = type { i64, i64 }
%struct.block = type { i64, i64, ptr, i64, [4 x i64] }
%struct.array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32, ptr, ptr, ptr }
%struct.description = type { i64, i64, i64, ptr, ptr, ptr, ptr, i64, ptr, ptr, i64, ptr, ptr }
%struct.frame = type { i64, i64, i64 }
%struct.tensor = type { ptr, i64, i64, ptr, i64, i64 }
@pool = internal global %struct.anon zeroinitializer, align 64
@memory = internal global %struct.anon.2 zeroinitializer, align 64
@memory_allocator = global %struct.numpy_allocator { [127 x i8] c"planish\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00", i8 1, ptr null, ptr @numpy_malloc, ptr @numpy_calloc, ptr @numpy_realloc, ptr @numpy_free }, align 8
@memory_capsule_name = constant [12 x i8] c"mem_handler\00", align 1
@numpy.0 = internal global ptr null, align 8
@numpy.1 = internal global ptr null, align 8
@numpy.2 = internal global ptr null, align 8
@numpy.3 = internal global ptr null, align 8
@library = internal global %struct.anon.3 zeroinitializer, align 8
define void @pool_reset() nounwind {
  call void @llvm.memset.p0.i64(ptr align 64 @pool, i8 0, i64 576, i1 false)
  store i64 4294967295, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0), align 64
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @pool_worker() nounwind {
  %1 = alloca i64, align 8
  store i64 -1, ptr %1, align 8
  %2 = call fastcc i64 @nanoseconds()
  br label %3
3:
  %.0 = phi i64 [ %2, %0 ], [ %8, %7 ], [ %.1, %23 ]
  %4 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 12) seq_cst, align 64
  %.not = icmp eq i64 %4, 0
  br i1 %.not, label %5, label %24
5:
  %6 = call fastcc i32 @take(ptr %1)
  %.not7 = icmp eq i32 %6, 0
  br i1 %.not7, label %9, label %7
7:
  %8 = call fastcc i64 @nanoseconds()
  br label %3
9:
  %.06 = phi i32 [ %12, %11 ], [ 0, %5 ]
  %10 = icmp ult i32 %.06, 32
  br i1 %10, label %11, label %13
11:
  call void @llvm.x86.sse2.pause()
  %12 = add nuw nsw i32 %.06, 1
  br label %9
13:
  %14 = call fastcc i64 @nanoseconds()
  %15 = sub nsw i64 %14, %.0
  %16 = icmp sgt i64 %15, 1000000
  br i1 %16, label %17, label %19
17:
  call fastcc void @sleep(ptr %1)
  %18 = call fastcc i64 @nanoseconds()
  br label %23
19:
  %20 = icmp sgt i64 %15, 50000
  br i1 %20, label %21, label %23
21:
  %22 = call i32 @sched_yield()
  br label %23
23:
  %.1 = phi i64 [ %18, %17 ], [ %.0, %21 ], [ %.0, %19 ]
  br label %3
24:
  ret void
}
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
define internal fastcc i32 @take(ptr %0) nounwind {
  br label %2
2:
  %3 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0) seq_cst, align 64
  %4 = lshr i64 %3, 32
  %5 = and i64 %3, 4294967295
  %6 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 2) monotonic, align 16
  %.not = icmp ult i64 %5, %6
  br i1 %.not, label %7, label %31
7:
  %8 = load i64, ptr %0, align 8
  %.not29 = icmp eq i64 %4, %8
  br i1 %.not29, label %21, label %9
9:
  %10 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 14) seq_cst, align 64
  %11 = lshr i64 %10, 32
  %12 = icmp eq i64 %11, %4
  %13 = and i64 %10, 4294967295
  %14 = icmp ne i64 %13, 0
  %or.cond = and i1 %12, %14
  br i1 %or.cond, label %15, label %31
15:
  %16 = add i64 %10, -1
  %17 = cmpxchg ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 14), i64 %10, i64 %16 seq_cst seq_cst, align 8
  %18 = extractvalue { i64, i1 } %17, 1
  br i1 %18, label %19, label %20
19:
  store i64 %4, ptr %0, align 8
  br label %20
20:
  br label %2
21:
  %22 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 0) monotonic, align 64
  %23 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 1) monotonic, align 8
  %24 = add i64 %3, 1
  %25 = cmpxchg ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0), i64 %3, i64 %24 seq_cst seq_cst, align 8
  %26 = extractvalue { i64, i1 } %25, 1
  br i1 %26, label %27, label %2
27:
  %28 = inttoptr i64 %23 to ptr
  %29 = inttoptr i64 %22 to ptr
  call void %29(ptr %28, i64 %5)
  %30 = atomicrmw add ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 2), i64 1 seq_cst, align 8
  br label %31
31:
  %.0 = phi i32 [ 1, %27 ], [ 0, %2 ], [ 0, %9 ]
  ret i32 %.0
}
define internal fastcc void @sleep(ptr %0) nounwind {
  %2 = atomicrmw add ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 10), i64 1 seq_cst, align 8
  %3 = load atomic i32, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 4) seq_cst, align 64
  %4 = call fastcc i32 @take(ptr %0)
  %.not = icmp eq i32 %4, 0
  br i1 %.not, label %5, label %9
5:
  %6 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 12) seq_cst, align 64
  %.not7 = icmp eq i64 %6, 0
  br i1 %.not7, label %7, label %9
7:
  %8 = call fastcc i64 @futex(i32 128, i32 %3)
  br label %9
9:
  %10 = atomicrmw add ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 10), i64 -1 seq_cst, align 8
  ret void
}
declare i32 @sched_yield()
define void @pool_run(ptr %0, ptr %1, i64 %2, i64 %3, i64 %4) nounwind {
  %6 = alloca i64, align 8
  %7 = icmp ult i64 %2, 2
  %8 = icmp ult i64 %4, 2
  %or.cond = or i1 %7, %8
  br i1 %or.cond, label %12, label %9
9:
  %10 = cmpxchg ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 8), i64 0, i64 1 seq_cst seq_cst, align 8
  %11 = extractvalue { i64, i1 } %10, 1
  br i1 %11, label %17, label %12
12:
  br label %13
13:
  %.0 = phi i64 [ 0, %12 ], [ %16, %15 ]
  %14 = icmp ult i64 %.0, %2
  br i1 %14, label %15, label %51
15:
  call void %0(ptr %1, i64 %.0)
  %16 = add i64 %.0, 1
  br label %13
17:
  %18 = ptrtoint ptr %0 to i64
  store atomic i64 %18, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 0) monotonic, align 64
  %19 = ptrtoint ptr %1 to i64
  store atomic i64 %19, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 1) monotonic, align 8
  store atomic i64 %2, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 6, i32 2) monotonic, align 16
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 2) monotonic, align 64
  %20 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0) monotonic, align 64
  %21 = add i64 %20, 4294967296
  %22 = and i64 %21, -4294967296
  %23 = lshr i64 %21, 32
  store i64 %23, ptr %6, align 8
  %24 = add i64 %4, -1
  %25 = or i64 %22, %24
  store atomic i64 %25, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 14) seq_cst, align 64
  store atomic i64 %22, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0) seq_cst, align 64
  %26 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 10) seq_cst, align 64
  %.not = icmp eq i64 %26, 0
  br i1 %.not, label %35, label %27
27:
  %28 = call fastcc i32 @worth_waking(i64 %3)
  %.not40 = icmp eq i32 %28, 0
  br i1 %.not40, label %35, label %29
29:
  %30 = atomicrmw add ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 4), i32 1 seq_cst, align 4
  %31 = icmp ult i64 %2, %4
  %. = select i1 %31, i64 %2, i64 %4
  %32 = trunc i64 %. to i32
  %33 = add i32 %32, -1
  %34 = call fastcc i64 @futex(i32 129, i32 %33)
  br label %35
35:
  br label %36
36:
  %37 = call fastcc i32 @take(ptr %6)
  %.not38 = icmp eq i32 %37, 0
  br i1 %.not38, label %38, label %36
38:
  %39 = call fastcc i64 @nanoseconds()
  br label %40
40:
  %41 = load atomic i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 2) seq_cst, align 64
  %.not39 = icmp eq i64 %41, %2
  br i1 %.not39, label %49, label %42
42:
  call void @llvm.x86.sse2.pause()
  %43 = call fastcc i64 @nanoseconds()
  %44 = sub nsw i64 %43, %39
  %45 = icmp sgt i64 %44, 50000
  br i1 %45, label %46, label %48
46:
  %47 = call i32 @sched_yield()
  br label %48
48:
  br label %40
49:
  %50 = or i64 %21, 4294967295
  store atomic i64 %50, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0) seq_cst, align 64
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 8) seq_cst, align 64
  br label %51
51:
  ret void
}
define internal fastcc i32 @worth_waking(i64 %0) nounwind {
  %2 = call fastcc i64 @nanoseconds()
  %3 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 16, i32 0), align 64
  %4 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 16, i32 1), align 8
  %5 = sub nsw i64 %2, %4
  %.neg = sdiv i64 %5, -2
  %6 = add i64 %.neg, %3
  %7 = icmp sgt i64 %6, 0
  %. = select i1 %7, i64 %6, i64 0
  %8 = add nsw i64 %., %0
  store i64 %8, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 16, i32 0), align 64
  store i64 %2, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 16, i32 1), align 8
  %9 = icmp slt i64 %8, 200001
  br i1 %9, label %11, label %10
10:
  store i64 0, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 16, i32 0), align 64
  br label %11
11:
  %.0 = phi i32 [ 1, %10 ], [ 0, %1 ]
  ret i32 %.0
}
define internal fastcc i64 @futex(i32 %0, i32 %1) nounwind {
  %3 = sext i32 %0 to i64
  %4 = zext i32 %1 to i64
  %5 = call i64 (i64, ...) @syscall(i64 202, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 4), i64 %3, i64 %4, ptr null, ptr null, i64 0)
  ret i64 %5
}
define void @memory_after_fork() nounwind {
  store i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0), align 64
  ret void
}
define void @memory_trim(i64 %0) nounwind {
  br label %2
2:
  %3 = cmpxchg ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0), i64 0, i64 1 acquire monotonic, align 8
  %4 = extractvalue { i64, i1 } %3, 1
  br i1 %4, label %lock.exit, label %5
5:
  %6 = call i32 @sched_yield()
  br label %2
lock.exit:
  call fastcc void @drop(i64 %0)
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0) release, align 64
  ret void
}
define internal fastcc void @drop(i64 %0) nounwind {
  br label %2
2:
  %3 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %4 = icmp ugt i64 %3, %0
  br i1 %4, label %5, label %32
5:
  %.010 = phi i32 [ %21, %20 ], [ 0, %2 ]
  %.0 = phi ptr [ %.1, %20 ], [ null, %2 ]
  %6 = icmp ult i32 %.010, 384
  br i1 %6, label %7, label %22
7:
  %8 = zext i32 %.010 to i64
  %9 = getelementptr inbounds %struct.anon.2, ptr @memory, i64 0, i32 7, i64 %8
  %10 = load ptr, ptr %9, align 8
  %.not11 = icmp eq ptr %10, null
  br i1 %.not11, label %20, label %11
11:
  %.not12 = icmp eq ptr %.0, null
  br i1 %.not12, label %19, label %12
12:
  %13 = getelementptr inbounds %struct.block, ptr %10, i64 0, i32 3
  %14 = load i64, ptr %13, align 8
  %15 = load ptr, ptr %.0, align 8
  %16 = getelementptr inbounds %struct.block, ptr %15, i64 0, i32 3
  %17 = load i64, ptr %16, align 8
  %18 = icmp ult i64 %14, %17
  br i1 %18, label %19, label %20
19:
  br label %20
20:
  %.1 = phi ptr [ %9, %19 ], [ %.0, %12 ], [ %.0, %7 ]
  %21 = add nuw nsw i32 %.010, 1
  br label %5
22:
  %.not = icmp eq ptr %.0, null
  br i1 %.not, label %32, label %23
23:
  %24 = load ptr, ptr %.0, align 8
  %.not.i = icmp eq ptr %24, null
  br i1 %.not.i, label %pop.exit, label %25
25:
  %26 = getelementptr inbounds %struct.block, ptr %24, i64 0, i32 2
  %27 = load ptr, ptr %26, align 8
  store ptr %27, ptr %.0, align 8
  %28 = getelementptr inbounds %struct.block, ptr %24, i64 0, i32 1
  %29 = load i64, ptr %28, align 8
  %30 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %31 = sub i64 %30, %29
  store i64 %31, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  br label %pop.exit
pop.exit:
  call fastcc void @delete_block(ptr %24)
  br label %2
32:
  ret void
}
define void @memory_limit(i64 %0) nounwind {
  %2 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 2), align 16
  %3 = icmp eq i64 %2, %0
  br i1 %3, label %5, label %4
4:
  store i64 %0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 2), align 16
  call void @memory_trim(i64 %0)
  br label %5
5:
  ret void
}
define void @memory_statistics(ptr %0) nounwind {
  %2 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 3), align 8
  %3 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %4 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 2), align 16
  %5 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 5), align 8
  %6 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 6), align 16
  store i64 %2, ptr %0, align 8
  %.sroa.2.0..sroa_idx = getelementptr inbounds i8, ptr %0, i64 8
  store i64 %3, ptr %.sroa.2.0..sroa_idx, align 8
  %.sroa.3.0..sroa_idx = getelementptr inbounds i8, ptr %0, i64 16
  store i64 %4, ptr %.sroa.3.0..sroa_idx, align 8
  %.sroa.4.0..sroa_idx = getelementptr inbounds i8, ptr %0, i64 24
  store i64 %5, ptr %.sroa.4.0..sroa_idx, align 8
  %.sroa.5.0..sroa_idx = getelementptr inbounds i8, ptr %0, i64 32
  store i64 %6, ptr %.sroa.5.0..sroa_idx, align 8
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal ptr @numpy_malloc(ptr %0, i64 %1) nounwind {
  %3 = call fastcc ptr @memory_take(i64 %1)
  ret ptr %3
}
define internal ptr @numpy_calloc(ptr %0, i64 %1, i64 %2) nounwind {
  %4 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %1, i64 %2)
  %5 = extractvalue { i64, i1 } %4, 1
  %6 = extractvalue { i64, i1 } %4, 0
  br i1 %5, label %10, label %7
7:
  %8 = call fastcc ptr @memory_take(i64 %6)
  %.not = icmp eq ptr %8, null
  br i1 %.not, label %10, label %9
9:
  call void @llvm.memset.p0.i64(ptr align 1 %8, i8 0, i64 %6, i1 false)
  br label %10
10:
  %.0 = phi ptr [ null, %3 ], [ %8, %9 ], [ null, %7 ]
  ret ptr %.0
}
define internal ptr @numpy_realloc(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = call fastcc ptr @memory_take(i64 %2)
  %5 = icmp ne ptr %4, null
  %6 = icmp ne ptr %1, null
  %or.cond = and i1 %5, %6
  br i1 %or.cond, label %7, label %14
7:
  %8 = getelementptr inbounds i8, ptr %1, i64 -64
  %9 = getelementptr inbounds %struct.block, ptr %8, i64 0, i32 1
  %10 = load i64, ptr %9, align 8
  %11 = icmp ugt i64 %10, 16384
  %.neg = select i1 %11, i64 -4096, i64 -64
  %12 = add i64 %.neg, %10
  %13 = icmp ult i64 %12, %2
  %. = select i1 %13, i64 %12, i64 %2
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %4, ptr align 1 %1, i64 %., i1 false)
  call fastcc void @memory_give(ptr %1)
  br label %14
14:
  ret ptr %4
}
define internal void @numpy_free(ptr %0, ptr %1, i64 %2) nounwind {
  %.not = icmp eq ptr %1, null
  br i1 %.not, label %5, label %4
4:
  call fastcc void @memory_give(ptr %1)
  br label %5
5:
  ret void
}
define void @memory_arrays(ptr %0, ptr %1, ptr %2, ptr %3, i32 %4) nounwind {
  store ptr %0, ptr @numpy.0, align 8
  store ptr %1, ptr @numpy.1, align 8
  store ptr %2, ptr @numpy.2, align 8
  store ptr %3, ptr @numpy.3, align 8
  store i32 %4, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 8), align 8
  ret void
}
define ptr @memory_bytes(i64 %0) nounwind {
  %2 = alloca i64, align 8
  store i64 %0, ptr %2, align 8
  %3 = load ptr, ptr @numpy.3, align 8
  call void @Py_IncRef(ptr %3)
  %4 = load ptr, ptr @numpy.3, align 8
  %5 = call fastcc ptr @new_array(ptr %4, i32 1, ptr %2, i64 %0)
  ret ptr %5
}
declare void @Py_IncRef(ptr)
define internal fastcc ptr @new_array(ptr %0, i32 %1, ptr %2, i64 %3) nounwind {
  %5 = icmp ugt i64 %3, 1023
  %6 = load i32, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 8), align 8
  %7 = icmp ne i32 %6, 0
  %or.cond = select i1 %5, i1 %7, i1 false
  br i1 %or.cond, label %8, label %.thread
8:
  %9 = call fastcc ptr @memory_take(i64 %3)
  %.not = icmp eq ptr %9, null
  br i1 %.not, label %.thread, label %13
.thread:
  %10 = load ptr, ptr @numpy.1, align 8
  %11 = load ptr, ptr @numpy.0, align 8
  %12 = call ptr %10(ptr %11, ptr %0, i32 %1, ptr %2, ptr null, ptr null, i32 0, ptr null)
  br label %25
13:
  %14 = load ptr, ptr @numpy.1, align 8
  %15 = load ptr, ptr @numpy.0, align 8
  %16 = call ptr %14(ptr %15, ptr %0, i32 %1, ptr %2, ptr null, ptr %9, i32 1281, ptr null)
  %.not16 = icmp eq ptr %16, null
  br i1 %.not16, label %17, label %18
17:
  call fastcc void @memory_give(ptr %9)
  br label %25
18:
  %19 = load ptr, ptr @numpy.2, align 8
  call void @Py_IncRef(ptr %19)
  %20 = load ptr, ptr @numpy.2, align 8
  %21 = getelementptr inbounds %struct.array, ptr %16, i64 0, i32 11
  store ptr %20, ptr %21, align 8
  %22 = getelementptr inbounds %struct.array, ptr %16, i64 0, i32 8
  %23 = load i32, ptr %22, align 8
  %24 = or i32 %23, 4
  store i32 %24, ptr %22, align 8
  br label %25
25:
  %.0 = phi ptr [ %16, %18 ], [ null, %17 ], [ %12, %.thread ]
  ret ptr %.0
}
define void @array_words(ptr %0, ptr %1) nounwind {
  %3 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 1
  %4 = load ptr, ptr %3, align 8
  %5 = ptrtoint ptr %4 to i64
  store i64 %5, ptr %1, align 8
  %6 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 2
  %7 = load ptr, ptr %6, align 8
  %8 = ptrtoint ptr %7 to i64
  %9 = getelementptr inbounds i64, ptr %1, i64 1
  store i64 %8, ptr %9, align 8
  %10 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 3
  %11 = load i32, ptr %10, align 8
  %12 = sext i32 %11 to i64
  %13 = getelementptr inbounds i64, ptr %1, i64 2
  store i64 %12, ptr %13, align 8
  %14 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 6
  %15 = load ptr, ptr %14, align 8
  %16 = ptrtoint ptr %15 to i64
  %17 = getelementptr inbounds i64, ptr %1, i64 3
  store i64 %16, ptr %17, align 8
  %18 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 7
  %19 = load ptr, ptr %18, align 8
  %20 = ptrtoint ptr %19 to i64
  %21 = getelementptr inbounds i64, ptr %1, i64 4
  store i64 %20, ptr %21, align 8
  %22 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 8
  %23 = load i32, ptr %22, align 8
  %24 = sext i32 %23 to i64
  %25 = getelementptr inbounds i64, ptr %1, i64 5
  store i64 %24, ptr %25, align 8
  %26 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 4
  %27 = load ptr, ptr %26, align 8
  %28 = ptrtoint ptr %27 to i64
  %29 = getelementptr inbounds i64, ptr %1, i64 6
  store i64 %28, ptr %29, align 8
  %30 = getelementptr inbounds %struct.array, ptr %0, i64 0, i32 5
  %31 = load ptr, ptr %30, align 8
  %32 = ptrtoint ptr %31 to i64
  %33 = getelementptr inbounds i64, ptr %1, i64 7
  store i64 %32, ptr %33, align 8
  ret void
}
define i64 @array_bytes() nounwind {
  ret i64 96
}
define i64 @slow_call(ptr %0, ptr %1) nounwind {
  %3 = call ptr @PyEval_SaveThread()
  %4 = call i64 %0(ptr %1)
  call void @PyEval_RestoreThread(ptr %3)
  ret i64 %4
}
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
define ptr @fast_call(ptr %0, ptr %1, i64 %2) nounwind {
  %4 = alloca [65 x i64], align 16
  %5 = call ptr @PyLong_AsVoidPtr(ptr %0)
  %6 = load ptr, ptr %1, align 8
  %7 = call ptr @PyLong_AsVoidPtr(ptr %6)
  %8 = getelementptr inbounds ptr, ptr %1, i64 1
  %9 = add nsw i64 %2, -1
  %10 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 0
  %11 = load i64, ptr %10, align 8
  %.not = icmp eq i64 %9, %11
  br i1 %.not, label %12, label %fits.exit.thread
12:
  %13 = ptrtoint ptr %7 to i64
  %14 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 2
  %15 = load i64, ptr %14, align 8
  %16 = shl i64 %15, 3
  %17 = alloca i8, i64 %16, align 16
  %18 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 4
  %19 = load ptr, ptr %18, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %17, ptr align 8 %19, i64 %16, i1 false)
  %20 = getelementptr inbounds %struct.frame, ptr %17, i64 0, i32 2
  store i64 %13, ptr %20, align 16
  br label %21
21:
  %.043 = phi i64 [ 0, %12 ], [ %93, %86 ]
  %22 = icmp slt i64 %.043, %9
  br i1 %22, label %23, label %94
23:
  %24 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 5
  %25 = load ptr, ptr %24, align 8
  %26 = getelementptr inbounds ptr, ptr %8, i64 %.043
  %27 = load ptr, ptr %26, align 8
  %28 = getelementptr inbounds %struct.tensor, ptr %25, i64 %.043, i32 4
  %29 = load i64, ptr %28, align 8
  %30 = icmp sgt i64 %29, -1
  %31 = select i1 %30, i32 1281, i32 257
  %32 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 1
  %33 = load ptr, ptr %32, align 8
  %34 = load ptr, ptr @numpy.0, align 8
  %.not.i = icmp eq ptr %33, %34
  br i1 %.not.i, label %35, label %fits.exit.thread
35:
  %36 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 7
  %37 = load ptr, ptr %36, align 8
  %38 = getelementptr inbounds %struct.tensor, ptr %25, i64 %.043, i32 0
  %39 = load ptr, ptr %38, align 8
  %.not34.i = icmp eq ptr %37, %39
  br i1 %.not34.i, label %40, label %fits.exit.thread
40:
  %41 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 8
  %42 = load i32, ptr %41, align 8
  %43 = and i32 %42, %31
  %.not35.i = icmp eq i32 %43, %31
  br i1 %.not35.i, label %44, label %fits.exit.thread
44:
  %45 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 3
  %46 = load i32, ptr %45, align 8
  %47 = sext i32 %46 to i64
  %48 = getelementptr inbounds %struct.tensor, ptr %25, i64 %.043, i32 1
  %49 = load i64, ptr %48, align 8
  %.not36.i = icmp eq i64 %49, %47
  br i1 %.not36.i, label %50, label %fits.exit.thread
50:
  %.pre38.i = phi i64 [ %.pre.i, %84 ], [ %47, %44 ]
  %.033.i = phi i64 [ %85, %84 ], [ 0, %44 ]
  %51 = icmp slt i64 %.033.i, %.pre38.i
  br i1 %51, label %52, label %86
52:
  %53 = getelementptr inbounds %struct.tensor, ptr %25, i64 %.043, i32 3
  %54 = load ptr, ptr %53, align 8
  %55 = getelementptr inbounds i64, ptr %54, i64 %.033.i
  %56 = load i64, ptr %55, align 8
  %57 = icmp sgt i64 %56, -1
  br i1 %57, label %size_of.exit.thread.i, label %size_of.exit.i
size_of.exit.thread.i:
  %58 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 4
  %59 = load ptr, ptr %58, align 8
  %60 = getelementptr inbounds i64, ptr %59, i64 %.033.i
  %61 = load i64, ptr %60, align 8
  br label %81
size_of.exit.i:
  %62 = xor i64 %56, -1
  %63 = getelementptr inbounds i64, ptr %17, i64 %62
  %64 = load i64, ptr %63, align 8
  %65 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 4
  %66 = load ptr, ptr %65, align 8
  %67 = getelementptr inbounds i64, ptr %66, i64 %.033.i
  %68 = load i64, ptr %67, align 8
  %69 = icmp eq i64 %64, -1
  br i1 %69, label %70, label %81
70:
  %71 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 9
  %72 = load ptr, ptr %71, align 8
  %73 = getelementptr inbounds [2 x i64], ptr %72, i64 %62, i64 0
  %74 = load i64, ptr %73, align 8
  %75 = icmp slt i64 %68, %74
  br i1 %75, label %fits.exit.thread, label %76
76:
  %77 = getelementptr inbounds [2 x i64], ptr %72, i64 %62, i64 1
  %78 = load i64, ptr %77, align 8
  %79 = icmp sgt i64 %68, %78
  br i1 %79, label %fits.exit.thread, label %80
80:
  store i64 %68, ptr %63, align 8
  %.pre.pre.i = load i64, ptr %48, align 8
  br label %84
81:
  %82 = phi i64 [ %61, %size_of.exit.thread.i ], [ %68, %size_of.exit.i ]
  %83 = phi i64 [ %56, %size_of.exit.thread.i ], [ %64, %size_of.exit.i ]
  %.not37.i = icmp eq i64 %83, %82
  br i1 %.not37.i, label %84, label %fits.exit.thread
84:
  %.pre.i = phi i64 [ %.pre.pre.i, %80 ], [ %.pre38.i, %81 ]
  %85 = add nuw nsw i64 %.033.i, 1
  br label %50
86:
  %87 = getelementptr inbounds %struct.array, ptr %27, i64 0, i32 2
  %88 = load ptr, ptr %87, align 8
  %89 = ptrtoint ptr %88 to i64
  %90 = getelementptr inbounds %struct.tensor, ptr %25, i64 %.043, i32 2
  %91 = load i64, ptr %90, align 8
  %92 = getelementptr inbounds i64, ptr %17, i64 %91
  store i64 %89, ptr %92, align 8
  %93 = add nuw nsw i64 %.043, 1
  br label %21
94:
  %95 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 12
  %96 = load ptr, ptr %95, align 8
  %.not48 = icmp eq ptr %96, null
  br i1 %.not48, label %98, label %97
97:
  call void %96(ptr %17)
  br label %98
98:
  %99 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 7
  %100 = load i64, ptr %99, align 8
  %.not49 = icmp eq i64 %100, 0
  br i1 %.not49, label %117, label %101
101:
  %102 = call fastcc ptr @memory_take(i64 %100)
  %.not51 = icmp eq ptr %102, null
  br i1 %.not51, label %fits.exit.thread, label %103
103:
  %.042 = phi i64 [ %116, %107 ], [ 0, %101 ]
  %104 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 10
  %105 = load i64, ptr %104, align 8
  %106 = icmp slt i64 %.042, %105
  br i1 %106, label %107, label %117
107:
  %108 = ptrtoint ptr %102 to i64
  %109 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 11
  %110 = load ptr, ptr %109, align 8
  %111 = getelementptr inbounds i64, ptr %110, i64 %.042
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds i64, ptr %17, i64 %112
  %114 = load i64, ptr %113, align 8
  %115 = add nsw i64 %114, %108
  store i64 %115, ptr %113, align 8
  %116 = add nuw nsw i64 %.042, 1
  br label %103
117:
  %.044 = phi ptr [ null, %98 ], [ %102, %103 ]
  %118 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 1
  %119 = load i64, ptr %118, align 8
  %120 = call ptr @PyTuple_New(i64 %119)
  %.not.i45 = icmp eq ptr %120, null
  br i1 %.not.i45, label %outcome.exit, label %121
121:
  %.023.i = phi i64 [ %176, %174 ], [ 0, %117 ]
  %122 = load i64, ptr %118, align 8
  %123 = icmp slt i64 %.023.i, %122
  br i1 %123, label %124, label %177
124:
  %125 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 6
  %126 = load ptr, ptr %125, align 8
  %127 = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 4
  %128 = load i64, ptr %127, align 8
  %129 = icmp sgt i64 %128, -1
  br i1 %129, label %130, label %133
130:
  %131 = getelementptr inbounds ptr, ptr %8, i64 %128
  %132 = load ptr, ptr %131, align 8
  br label %167
133:
  call void @llvm.lifetime.start.p0(i64 520, ptr %4)
  %134 = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 5
  %135 = load i64, ptr %134, align 8
  %.phi.trans.insert.i.i = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 1
  %.pre.i.i = load i64, ptr %.phi.trans.insert.i.i, align 8
  br label %136
136:
  %.018.i.i = phi i64 [ 0, %133 ], [ %151, %size_of.exit.i.i ]
  %.0.i.i = phi i64 [ %135, %133 ], [ %150, %size_of.exit.i.i ]
  %137 = icmp slt i64 %.018.i.i, %.pre.i.i
  br i1 %137, label %138, label %152
138:
  %139 = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 3
  %140 = load ptr, ptr %139, align 8
  %141 = getelementptr inbounds i64, ptr %140, i64 %.018.i.i
  %142 = load i64, ptr %141, align 8
  %143 = icmp sgt i64 %142, -1
  br i1 %143, label %size_of.exit.i.i, label %144
144:
  %145 = xor i64 %142, -1
  %146 = getelementptr inbounds i64, ptr %17, i64 %145
  %147 = load i64, ptr %146, align 8
  br label %size_of.exit.i.i
size_of.exit.i.i:
  %148 = phi i64 [ %147, %144 ], [ %142, %138 ]
  %149 = getelementptr inbounds [65 x i64], ptr %4, i64 0, i64 %.018.i.i
  store i64 %148, ptr %149, align 8
  %150 = mul i64 %.0.i.i, %148
  %151 = add nuw nsw i64 %.018.i.i, 1
  br label %136
152:
  %153 = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 0
  %154 = load ptr, ptr %153, align 8
  call void @Py_IncRef(ptr %154)
  %155 = load ptr, ptr %153, align 8
  %156 = load i64, ptr %.phi.trans.insert.i.i, align 8
  %157 = trunc i64 %156 to i32
  %158 = getelementptr inbounds [65 x i64], ptr %4, i64 0, i64 0
  %159 = call fastcc ptr @new_array(ptr %155, i32 %157, ptr %158, i64 %.0.i.i)
  %.not.i.i = icmp eq ptr %159, null
  br i1 %.not.i.i, label %fresh.exit.i, label %160
160:
  %161 = getelementptr inbounds %struct.array, ptr %159, i64 0, i32 2
  %162 = load ptr, ptr %161, align 8
  %163 = ptrtoint ptr %162 to i64
  %164 = getelementptr inbounds %struct.tensor, ptr %126, i64 %.023.i, i32 2
  %165 = load i64, ptr %164, align 8
  %166 = getelementptr inbounds i64, ptr %17, i64 %165
  store i64 %163, ptr %166, align 8
  br label %fresh.exit.i
fresh.exit.i:
  call void @llvm.lifetime.end.p0(i64 520, ptr %4)
  br label %167
167:
  %168 = phi ptr [ %132, %130 ], [ %159, %fresh.exit.i ]
  %.not25.i = icmp eq ptr %168, null
  br i1 %.not25.i, label %169, label %170
169:
  call void @Py_DecRef(ptr %120)
  br label %outcome.exit
170:
  %171 = load i64, ptr %127, align 8
  %172 = icmp sgt i64 %171, -1
  br i1 %172, label %173, label %174
173:
  call void @Py_IncRef(ptr %168)
  br label %174
174:
  %175 = call i32 @PyTuple_SetItem(ptr %120, i64 %.023.i, ptr %168)
  %176 = add nuw nsw i64 %.023.i, 1
  br label %121
177:
  %178 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 3
  %179 = load ptr, ptr %178, align 8
  %180 = call ptr @PyEval_SaveThread()
  %181 = call i64 %179(ptr %17)
  call void @PyEval_RestoreThread(ptr %180)
  %.not24.i = icmp eq i64 %181, 0
  br i1 %.not24.i, label %outcome.exit, label %182
182:
  call void @Py_DecRef(ptr %120)
  br label %outcome.exit
outcome.exit:
  %.0.i46 = phi ptr [ null, %169 ], [ null, %182 ], [ null, %117 ], [ %120, %177 ]
  %.not50 = icmp eq ptr %.044, null
  br i1 %.not50, label %187, label %183
183:
  call fastcc void @memory_give(ptr %.044)
  br label %187
fits.exit.thread:
  %184 = getelementptr inbounds %struct.description, ptr %5, i64 0, i32 8
  %185 = load ptr, ptr %184, align 8
  %186 = call ptr @PyObject_Vectorcall(ptr %185, ptr %8, i64 %9, ptr null)
  br label %187
187:
  %.0 = phi ptr [ %186, %fits.exit.thread ], [ %.0.i46, %183 ], [ %.0.i46, %outcome.exit ]
  ret ptr %.0
}
declare ptr @PyLong_AsVoidPtr(ptr)
define internal fastcc ptr @memory_take(i64 %0) nounwind {
  %2 = icmp ugt i64 %0, 70368744177664
  br i1 %2, label %43, label %3
3:
  %4 = call fastcc i64 @rounded(i64 %0)
  br label %5
5:
  %6 = cmpxchg ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0), i64 0, i64 1 acquire monotonic, align 8
  %7 = extractvalue { i64, i1 } %6, 1
  br i1 %7, label %lock.exit, label %8
8:
  %9 = call i32 @sched_yield()
  br label %5
lock.exit:
  %10 = call i64 @llvm.ctlz.i64(i64 %4, i1 true)
  %11 = shl nuw nsw i64 %10, 3
  %12 = sub nsw i64 60, %10
  %13 = lshr i64 %4, %12
  %14 = and i64 %13, 7
  %15 = or i64 %11, %14
  %16 = xor i64 %15, 504
  %17 = getelementptr inbounds %struct.anon.2, ptr @memory, i64 0, i32 7, i64 %16
  %18 = load ptr, ptr %17, align 8
  %.not.i = icmp eq ptr %18, null
  br i1 %.not.i, label %pop.exit, label %19
19:
  %20 = getelementptr inbounds %struct.block, ptr %18, i64 0, i32 2
  %21 = load ptr, ptr %20, align 8
  store ptr %21, ptr %17, align 8
  %22 = getelementptr inbounds %struct.block, ptr %18, i64 0, i32 1
  %23 = load i64, ptr %22, align 8
  %24 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %25 = sub i64 %24, %23
  store i64 %25, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %26 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 6), align 16
  %27 = add i64 %26, 1
  store i64 %27, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 6), align 16
  br label %39
pop.exit:
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0) release, align 64
  %28 = call fastcc ptr @new_block(i64 %4)
  %.not = icmp eq ptr %28, null
  br i1 %.not, label %29, label %31
29:
  call void @memory_trim(i64 0)
  %30 = call fastcc ptr @new_block(i64 %4)
  %.not12 = icmp eq ptr %30, null
  br i1 %.not12, label %43, label %31
31:
  %.0 = phi ptr [ %28, %pop.exit ], [ %30, %29 ]
  br label %32
32:
  %33 = cmpxchg ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0), i64 0, i64 1 acquire monotonic, align 8
  %34 = extractvalue { i64, i1 } %33, 1
  br i1 %34, label %lock.exit11, label %35
35:
  %36 = call i32 @sched_yield()
  br label %32
lock.exit11:
  %37 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 5), align 8
  %38 = add i64 %37, 1
  store i64 %38, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 5), align 8
  br label %39
39:
  %.1 = phi ptr [ %18, %19 ], [ %.0, %lock.exit11 ]
  %40 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 3), align 8
  %41 = add i64 %40, %4
  store i64 %41, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 3), align 8
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0) release, align 64
  %42 = getelementptr inbounds i8, ptr %.1, i64 64
  br label %43
43:
  %.010 = phi ptr [ %42, %39 ], [ null, %1 ], [ null, %29 ]
  ret ptr %.010
}
define internal fastcc void @memory_give(ptr %0) nounwind {
  %2 = getelementptr inbounds i8, ptr %0, i64 -64
  %3 = getelementptr inbounds %struct.block, ptr %2, i64 0, i32 1
  %4 = load i64, ptr %3, align 8
  br label %5
5:
  %6 = cmpxchg ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0), i64 0, i64 1 acquire monotonic, align 8
  %7 = extractvalue { i64, i1 } %6, 1
  br i1 %7, label %lock.exit, label %8
8:
  %9 = call i32 @sched_yield()
  br label %5
lock.exit:
  %10 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 3), align 8
  %11 = sub i64 %10, %4
  store i64 %11, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 3), align 8
  %12 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 2), align 16
  %13 = icmp ult i64 %12, %4
  br i1 %13, label %14, label %15
14:
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0) release, align 64
  call fastcc void @delete_block(ptr %2)
  br label %31
15:
  %16 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %17 = sub i64 %12, %4
  %18 = icmp ugt i64 %16, %17
  br i1 %18, label %19, label %20
19:
  call fastcc void @drop(i64 %17)
  %.pre = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  br label %20
20:
  %21 = phi i64 [ %.pre, %19 ], [ %16, %15 ]
  %22 = add i64 %21, %4
  store i64 %22, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 1), align 8
  %23 = load i64, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 4), align 32
  %24 = add i64 %23, 1
  store i64 %24, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 4), align 32
  %25 = getelementptr inbounds %struct.block, ptr %2, i64 0, i32 3
  store i64 %24, ptr %25, align 8
  %26 = getelementptr inbounds %struct.block, ptr %2, i64 0, i32 0
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds %struct.anon.2, ptr @memory, i64 0, i32 7, i64 %27
  %29 = load ptr, ptr %28, align 8
  %30 = getelementptr inbounds %struct.block, ptr %2, i64 0, i32 2
  store ptr %29, ptr %30, align 8
  store ptr %2, ptr %28, align 8
  store atomic i64 0, ptr getelementptr inbounds (%struct.anon.2, ptr @memory, i64 0, i32 0) release, align 64
  br label %31
31:
  ret void
}
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
define i32 @interrupted(ptr %0) nounwind {
  %2 = call fastcc i64 @nanoseconds()
  %3 = getelementptr inbounds %struct.frame, ptr %0, i64 0, i32 1
  %4 = load i64, ptr %3, align 8
  %.not = icmp sgt i64 %2, %4
  br i1 %.not, label %5, label %12
5:
  %6 = add nsw i64 %2, 20000000
  store i64 %6, ptr %3, align 8
  %.not8 = icmp eq i64 %4, 0
  br i1 %.not8, label %12, label %7
7:
  %8 = call i32 @PyGILState_Ensure()
  %9 = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %8)
  %10 = icmp ne i32 %9, 0
  %11 = zext i1 %10 to i32
  br label %12
12:
  %.0 = phi i32 [ %11, %7 ], [ 0, %1 ], [ 0, %5 ]
  ret i32 %.0
}
declare i32 @PyGILState_Ensure()
declare i32 @PyErr_CheckSignals()
declare void @PyGILState_Release(i32)
define void @library_threads(ptr %0, ptr %1) nounwind {
  store ptr %0, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 3), align 8
  store ptr %1, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 4), align 8
  ret void
}
define void @library_enter(i64 %0) nounwind {
  %2 = load ptr, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 3), align 8
  %.not = icmp eq ptr %2, null
  br i1 %.not, label %11, label %3
3:
  call fastcc void @enter()
  %4 = load i64, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 2), align 8
  %5 = add nsw i64 %4, 1
  store i64 %5, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 2), align 8
  %.not2 = icmp eq i64 %4, 0
  br i1 %.not2, label %6, label %10
6:
  %7 = load ptr, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 3), align 8
  %8 = call i32 %7()
  store i32 %8, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 1), align 4
  %9 = trunc i64 %0 to i32
  call fastcc void @tell(i32 %9)
  br label %10
10:
  store atomic i32 0, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 0) seq_cst, align 8
  br label %11
11:
  ret void
}
define internal fastcc void @enter() nounwind {
  br label %1
1:
  %2 = atomicrmw xchg ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 0), i32 1 seq_cst, align 4
  %.not = icmp eq i32 %2, 0
  br i1 %.not, label %4, label %3
3:
  call void @llvm.x86.sse2.pause()
  br label %1
4:
  ret void
}
define internal fastcc void @tell(i32 %0) nounwind {
  %2 = load ptr, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 3), align 8
  %3 = call i32 %2()
  %.not = icmp eq i32 %3, %0
  br i1 %.not, label %6, label %4
4:
  %5 = load ptr, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 4), align 8
  call void %5(i32 %0)
  br label %6
6:
  ret void
}
define void @library_leave() nounwind {
  %1 = load ptr, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 3), align 8
  %.not = icmp eq ptr %1, null
  br i1 %.not, label %8, label %2
2:
  call fastcc void @enter()
  %3 = load i64, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 2), align 8
  %4 = add nsw i64 %3, -1
  store i64 %4, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 2), align 8
  %.not1 = icmp eq i64 %4, 0
  br i1 %.not1, label %5, label %7
5:
  %6 = load i32, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 1), align 4
  call fastcc void @tell(i32 %6)
  br label %7
7:
  store atomic i32 0, ptr getelementptr inbounds (%struct.anon.3, ptr @library, i64 0, i32 0) seq_cst, align 8
  br label %8
8:
  ret void
}
define float @__extendhfsf2(half %0) nounwind {
  %2 = bitcast half %0 to i16
  %3 = and i16 %2, 32767
  %4 = zext i16 %3 to i32
  %.signext = sext i16 %2 to i32
  %5 = and i32 %.signext, -2147483648
  %6 = shl nuw nsw i32 %4, 13
  %7 = bitcast i32 %6 to float
  %8 = fmul float %7, 0x46F0000000000000
  %9 = bitcast float %8 to i32
  %10 = icmp ugt i16 %3, 31743
  %11 = or i32 %6, 2139095040
  %12 = select i1 %10, i32 %11, i32 %9
  %13 = or i32 %12, %5
  %14 = bitcast i32 %13 to float
  ret float %14
}
define half @__truncsfhf2(float %0) nounwind {
  %2 = bitcast float %0 to i32
  %3 = and i32 %2, 2147483647
  %4 = lshr i32 %2, 16
  %5 = and i32 %4, 32768
  %6 = add nuw i32 %3, 4095
  %7 = lshr i32 %2, 13
  %8 = and i32 %7, 1
  %9 = add i32 %6, %8
  %10 = lshr i32 %9, 13
  %11 = add nsw i32 %10, -114688
  %12 = bitcast i32 %3 to float
  %13 = fadd float %12, 5.000000e-01
  %14 = bitcast float %13 to i32
  %15 = add i32 %14, -1056964608
  %16 = icmp ult i32 %3, 947912704
  %. = select i1 %16, i32 %15, i32 %11
  %17 = icmp ult i32 %., 31744
  %.0 = select i1 %17, i32 %., i32 31744
  %18 = icmp ugt i32 %3, 2139095040
  %.1 = select i1 %18, i32 32256, i32 %.0
  %19 = or i32 %.1, %5
  %20 = trunc i32 %19 to i16
  %21 = bitcast i16 %20 to half
  ret half %21
}
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.x86.sse2.pause()
declare i64 @syscall(i64, ...)
define internal fastcc void @delete_block(ptr %0) nounwind {
  %2 = getelementptr inbounds i8, ptr %0, i64 64
  %3 = getelementptr inbounds %struct.block, ptr %0, i64 0, i32 1
  %4 = load i64, ptr %3, align 8
  %5 = icmp ugt i64 %4, 16384
  %.neg = select i1 %5, i64 -4096, i64 -64
  %6 = getelementptr inbounds i8, ptr %2, i64 %.neg
  %7 = icmp ugt i64 %4, 1048575
  br i1 %7, label %8, label %10
8:
  %9 = call i32 @munmap(ptr %6, i64 %4)
  br label %11
10:
  call void @free(ptr %6)
  br label %11
11:
  ret void
}
declare i32 @munmap(ptr, i64)
declare void @free(ptr)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
define internal fastcc i64 @rounded(i64 %0) nounwind {
  %2 = icmp ugt i64 %0, 16320
  %3 = select i1 %2, i64 4096, i64 64
  %4 = add i64 %3, %0
  %5 = icmp ugt i64 %4, 1024
  %spec.select = select i1 %5, i64 %4, i64 1024
  %6 = add i64 %spec.select, -1
  %7 = call i64 @llvm.ctlz.i64(i64 %6, i1 true)
  %8 = sub nsw i64 60, %7
  %9 = and i64 %8, 4294967295
  %notmask = shl nsw i64 -1, %9
  %10 = xor i64 %notmask, -1
  %11 = add i64 %spec.select, %10
  %12 = and i64 %11, %notmask
  ret i64 %12
}
define internal fastcc ptr @new_block(i64 %0) nounwind {
  %2 = icmp ugt i64 %0, 1048575
  br i1 %2, label %3, label %23
3:
  %4 = icmp ugt i64 %0, 2097151
  %5 = select i1 %4, i64 2097152, i64 0
  %6 = add i64 %5, %0
  %7 = call ptr @mmap(ptr null, i64 %6, i32 3, i32 34, i32 -1, i64 0)
  %8 = icmp eq ptr %7, inttoptr (i64 -1 to ptr)
  %.not.i = xor i1 %4, true
  %brmerge.i = or i1 %8, %.not.i
  %.mux.i = select i1 %8, ptr null, ptr %7
  br i1 %brmerge.i, label %mapping.exit, label %9
9:
  %10 = ptrtoint ptr %7 to i64
  %11 = sub i64 0, %10
  %12 = and i64 %11, 2097151
  %13 = sub nsw i64 %5, %12
  %.not21.i = icmp eq i64 %12, 0
  br i1 %.not21.i, label %16, label %14
14:
  %15 = call i32 @munmap(ptr %7, i64 %12)
  br label %16
16:
  %17 = getelementptr inbounds i8, ptr %7, i64 %12
  %.not22.i = icmp eq i64 %13, 0
  br i1 %.not22.i, label %21, label %18
18:
  %19 = getelementptr inbounds i8, ptr %17, i64 %0
  %20 = call i32 @munmap(ptr %19, i64 %13)
  br label %21
21:
  %22 = call i32 @madvise(ptr %17, i64 %0, i32 14)
  br label %mapping.exit
23:
  %24 = icmp ugt i64 %0, 16384
  %25 = select i1 %24, i64 4096, i64 64
  %26 = call ptr @aligned_alloc(i64 %25, i64 %0)
  br label %mapping.exit
mapping.exit:
  %27 = phi ptr [ %26, %23 ], [ %17, %21 ], [ %.mux.i, %3 ]
  %.not = icmp eq ptr %27, null
  br i1 %.not, label %42, label %28
28:
  %29 = icmp ugt i64 %0, 16384
  %30 = select i1 %29, i64 4096, i64 64
  %31 = getelementptr inbounds i8, ptr %27, i64 %30
  %32 = getelementptr inbounds i8, ptr %31, i64 -64
  %33 = call i64 @llvm.ctlz.i64(i64 %0, i1 true)
  %34 = shl nuw nsw i64 %33, 3
  %35 = sub nsw i64 60, %33
  %36 = lshr i64 %0, %35
  %37 = and i64 %36, 7
  %38 = or i64 %34, %37
  %39 = xor i64 %38, 504
  %40 = getelementptr inbounds %struct.block, ptr %32, i64 0, i32 0
  store i64 %39, ptr %40, align 8
  %41 = getelementptr inbounds %struct.block, ptr %32, i64 0, i32 1
  store i64 %0, ptr %41, align 8
  br label %42
42:
  %.0 = phi ptr [ %32, %28 ], [ null, %mapping.exit ]
  ret ptr %.0
}
declare i64 @llvm.ctlz.i64(i64, i1)
declare ptr @aligned_alloc(i64, i64)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @PyTuple_New(i64)
declare void @Py_DecRef(ptr)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @llvm.lifetime.start.p0(i64, ptr)
declare void @llvm.lifetime.end.p0(i64, ptr)
