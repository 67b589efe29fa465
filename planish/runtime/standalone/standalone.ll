; made by `make native` from the C beside this
; sha256 cda6fda2bcb4f3ca375ede2715f23c087eb49b975d159571362d735a8cc680c9
%struct.anon = type { i64, [56 x i8], i64, [56 x i8], i32, [60 x i8], %struct.anon.0, [40 x i8], i64, [56 x i8], i64, [56 x i8], i64, [56 x i8], i64, [56 x i8], %struct.anon.1, [48 x i8] }
%struct.anon.0 = type { ptr, ptr, i64 }
%struct.anon.1 = type { i64, i64 }
%struct.timespec = type { i64, i64 }
%struct.planish_model = type { %struct.file, %struct.file, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64, ptr, i64, ptr, i64, i64, ptr, ptr, ptr, ptr, i32, i64, ptr }
%struct.file = type { ptr, i64 }
%struct.arena = type { ptr, i64 }
%struct.planish_port = type { ptr, i32, i32, ptr }
%struct.planish_error = type { i32, [508 x i8] }
%struct.cursor = type { ptr, ptr }
%struct.named_size = type { ptr, i64, i64, i64 }
%struct.planish_tensor = type { ptr, i32, i32, [64 x i64], ptr, i64 }
%struct.frame = type { i64, i64, i64 }
%struct.port = type { i64, i64, i64, ptr }
%struct.planish_axis = type { ptr, i64, i64 }
@pool = internal global %struct.anon zeroinitializer, align 64
@.str = private constant [58 x i8] c"planish_load takes a folder and a place for the model%s%s\00", align 1
@.str.1 = private constant [1 x i8] zeroinitializer, align 1
@.str.2 = private constant [19 x i8] c"no memory for %s%s\00", align 1
@.str.3 = private constant [9 x i8] c"plan.bin\00", align 1
@.str.4 = private constant [52 x i8] c"weights.bin is damaged, its digest does not fit%s%s\00", align 1
@.str.5 = private constant [58 x i8] c"planish_run takes a model, its inputs and its outputs%s%s\00", align 1
@workers = internal global i64 0, align 8
@.str.6 = private constant [24 x i8] c"no memory for a run%s%s\00", align 1
@.str.7 = private constant [6 x i8] c"%s/%s\00", align 1
@.str.8 = private constant [39 x i8] c"the name of the folder is too long%s%s\00", align 1
@.str.9 = private constant [20 x i8] c"%s cannot be read%s\00", align 1
@.str.10 = private constant [26 x i8] c"%s is no compiled model%s\00", align 1
@.str.11 = private constant [48 x i8] c"%s was compiled by another version of planish%s\00", align 1
@.str.12 = private constant [68 x i8] c", whose folders this library does not read: compile the model again\00", align 1
@.str.13 = private constant [50 x i8] c"%s/plan.bin is damaged, its digest does not fit%s\00", align 1
@.str.14 = private constant [9 x i8] c"model.so\00", align 1
@.str.15 = private constant [50 x i8] c"%s/model.so is damaged, its digest does not fit%s\00", align 1
@.str.16 = private constant [12 x i8] c"weights.bin\00", align 1
@.str.17 = private constant [51 x i8] c"%s/weights.bin is damaged, it has another length%s\00", align 1
@.str.18 = private constant [59 x i8] c"the model was compiled for %s, and this processor lacks %s\00", align 1
@.str.19 = private constant [65 x i8] c"the model was compiled for %s, and this system does not allow %s\00", align 1
@.str.20 = private constant [4 x i8] c"AMX\00", align 1
@.str.21 = private constant [12 x i8] c"%s/model.so\00", align 1
@.str.22 = private constant [24 x i8] c"%s cannot be loaded: %s\00", align 1
@.str.23 = private constant [4 x i8] c"run\00", align 1
@.str.24 = private constant [6 x i8] c"sizes\00", align 1
@sha_constants = internal constant [64 x i32] [i32 1116352408, i32 1899447441, i32 -1245643825, i32 -373957723, i32 961987163, i32 1508970993, i32 -1841331548, i32 -1424204075, i32 -670586216, i32 310598401, i32 607225278, i32 1426881987, i32 1925078388, i32 -2132889090, i32 -1680079193, i32 -1046744716, i32 -459576895, i32 -272742522, i32 264347078, i32 604807628, i32 770255983, i32 1249150122, i32 1555081692, i32 1996064986, i32 -1740746414, i32 -1473132947, i32 -1341970488, i32 -1084653625, i32 -958395405, i32 -710438585, i32 113926993, i32 338241895, i32 666307205, i32 773529912, i32 1294757372, i32 1396182291, i32 1695183700, i32 1986661051, i32 -2117940946, i32 -1838011259, i32 -1564481375, i32 -1474664885, i32 -1035236496, i32 -949202525, i32 -778901479, i32 -694614492, i32 -200395387, i32 275423344, i32 430227734, i32 506948616, i32 659060556, i32 883997877, i32 958139571, i32 1322822218, i32 1537002063, i32 1747873779, i32 1955562222, i32 2024104815, i32 -2067236844, i32 -1933114872, i32 -1866530822, i32 -1538233109, i32 -1090935817, i32 -965641998], align 16
@workers_lock = internal global i64 0, align 8
@pool_is_ready = internal global i1 false, align 8
@.str.25 = private constant [6 x i8] c"input\00", align 1
@.str.26 = private constant [22 x i8] c"input %s is missing%s\00", align 1
@.str.27 = private constant [8 x i8] c"%s%.48s\00", align 1
@.str.28 = private constant [3 x i8] c", \00", align 1
@.str.29 = private constant [37 x i8] c"the model has no %s %.64s; it has %s\00", align 1
@.str.30 = private constant [14 x i8] c"at that place\00", align 1
@.str.31 = private constant [5 x i8] c"%s%s\00", align 1
@.str.32 = private constant [57 x i8] c"has %ld for the size %.48s, which is %ld in another axis\00", align 1
@.str.33 = private constant [15 x i8] c"input %.80s %s\00", align 1
@.str.34 = private constant [23 x i8] c"input %s has no data%s\00", align 1
@.str.35 = private constant [48 x i8] c"input %s has fewer bytes than its shape needs%s\00", align 1
@.str.36 = private constant [68 x i8] c"input %s does not start at a multiple of the size of its elements%s\00", align 1
@.str.37 = private constant [22 x i8] c"is %s, %s is expected\00", align 1
@.str.38 = private constant [4 x i8] c"%s[\00", align 1
@.str.39 = private constant [6 x i8] c"%s%ld\00", align 1
@.str.40 = private constant [20 x i8] c"%s%.24s in %ld..%ld\00", align 1
@.str.41 = private constant [2 x i8] c"]\00", align 1
@dtype_names = internal constant [17 x ptr] [ptr @.str.43, ptr @.str.44, ptr @.str.45, ptr @.str.46, ptr @.str.47, ptr @.str.48, ptr @.str.49, ptr @.str.50, ptr @.str.51, ptr @.str.52, ptr @.str.53, ptr @.str.54, ptr @.str.55, ptr @.str.56, ptr @.str.57, ptr @.str.58, ptr @.str.59], align 16
@.str.42 = private constant [9 x i8] c"no dtype\00", align 1
@.str.43 = private constant [8 x i8] c"nothing\00", align 1
@.str.44 = private constant [8 x i8] c"float32\00", align 1
@.str.45 = private constant [6 x i8] c"uint8\00", align 1
@.str.46 = private constant [5 x i8] c"int8\00", align 1
@.str.47 = private constant [7 x i8] c"uint16\00", align 1
@.str.48 = private constant [6 x i8] c"int16\00", align 1
@.str.49 = private constant [6 x i8] c"int32\00", align 1
@.str.50 = private constant [6 x i8] c"int64\00", align 1
@.str.51 = private constant [5 x i8] c"text\00", align 1
@.str.52 = private constant [5 x i8] c"bool\00", align 1
@.str.53 = private constant [8 x i8] c"float16\00", align 1
@.str.54 = private constant [8 x i8] c"float64\00", align 1
@.str.55 = private constant [7 x i8] c"uint32\00", align 1
@.str.56 = private constant [7 x i8] c"uint64\00", align 1
@.str.57 = private constant [10 x i8] c"complex64\00", align 1
@.str.58 = private constant [11 x i8] c"complex128\00", align 1
@.str.59 = private constant [9 x i8] c"bfloat16\00", align 1
@.str.60 = private constant [7 x i8] c"output\00", align 1
@.str.61 = private constant [31 x i8] c"needs %lu bytes, there are %lu\00", align 1
@.str.62 = private constant [13 x i8] c"output %s %s\00", align 1
@.str.63 = private constant [26 x i8] c"no memory for output %s%s\00", align 1
@.str.64 = private constant [69 x i8] c"the data of the inputs asks for a size that is out of its bounds%s%s\00", align 1
@.str.65 = private constant [45 x i8] c"the plan stopped: the model needs Python%s%s\00", align 1
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
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
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
define void @planish_free(ptr %0) nounwind {
  %.not = icmp eq ptr %0, null
  br i1 %.not, label %63, label %2
2:
  %3 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 23
  %4 = load ptr, ptr %3, align 8
  br label %5
5:
  %.034 = phi ptr [ %4, %2 ], [ %8, %6 ]
  %.not36 = icmp eq ptr %.034, null
  br i1 %.not36, label %12, label %6
6:
  %7 = getelementptr inbounds %struct.arena, ptr %.034, i64 0, i32 0
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds %struct.arena, ptr %.034, i64 0, i32 1
  %10 = load i64, ptr %9, align 8
  %11 = call i32 @munmap(ptr %.034, i64 %10)
  br label %5
12:
  %.033 = phi i64 [ %22, %19 ], [ 0, %5 ]
  %13 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %14 = load ptr, ptr %13, align 8
  %.not37 = icmp eq ptr %14, null
  br i1 %.not37, label %.critedge, label %15
15:
  %16 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 15
  %17 = load i64, ptr %16, align 8
  %18 = icmp slt i64 %.033, %17
  br i1 %18, label %19, label %.critedge
19:
  %20 = getelementptr inbounds %struct.planish_port, ptr %14, i64 %.033, i32 3
  %21 = load ptr, ptr %20, align 8
  call void @free(ptr %21)
  %22 = add nuw nsw i64 %.033, 1
  br label %12
.critedge:
  br label %23
23:
  %.0 = phi i64 [ 0, %.critedge ], [ %33, %30 ]
  %24 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %25 = load ptr, ptr %24, align 8
  %.not38 = icmp eq ptr %25, null
  br i1 %.not38, label %.critedge35, label %26
26:
  %27 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %28 = load i64, ptr %27, align 8
  %29 = icmp slt i64 %.0, %28
  br i1 %29, label %30, label %.critedge35
30:
  %31 = getelementptr inbounds %struct.planish_port, ptr %25, i64 %.0, i32 3
  %32 = load ptr, ptr %31, align 8
  call void @free(ptr %32)
  %33 = add nuw nsw i64 %.0, 1
  br label %23
.critedge35:
  %34 = load ptr, ptr %13, align 8
  call void @free(ptr %34)
  %35 = load ptr, ptr %24, align 8
  call void @free(ptr %35)
  %36 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 17
  %37 = load ptr, ptr %36, align 8
  call void @free(ptr %37)
  %38 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 18
  %39 = load ptr, ptr %38, align 8
  call void @free(ptr %39)
  %40 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 9
  %41 = load ptr, ptr %40, align 8
  call void @free(ptr %41)
  %42 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 14
  %43 = load ptr, ptr %42, align 8
  call void @free(ptr %43)
  %44 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 5
  %45 = load ptr, ptr %44, align 8
  %.not39 = icmp eq ptr %45, null
  br i1 %.not39, label %48, label %46
46:
  %47 = call i32 @dlclose(ptr %45)
  br label %48
48:
  %49 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1, i32 0
  %50 = load ptr, ptr %49, align 8
  %.not40 = icmp eq ptr %50, null
  br i1 %.not40, label %55, label %51
51:
  %52 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1, i32 1
  %53 = load i64, ptr %52, align 8
  %54 = call i32 @munmap(ptr %50, i64 %53)
  br label %55
55:
  %56 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 0, i32 0
  %57 = load ptr, ptr %56, align 8
  %.not41 = icmp eq ptr %57, null
  br i1 %.not41, label %62, label %58
58:
  %59 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 0, i32 1
  %60 = load i64, ptr %59, align 8
  %61 = call i32 @munmap(ptr %57, i64 %60)
  br label %62
62:
  call void @free(ptr %0)
  br label %63
63:
  ret void
}
declare i32 @munmap(ptr, i64)
declare void @free(ptr)
declare i32 @dlclose(ptr)
define i32 @planish_load(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca %struct.planish_error, align 4
  %.not = icmp eq ptr %2, null
  br i1 %.not, label %6, label %5
5:
  call void @llvm.memset.p0.i64(ptr align 4 %4, i8 0, i64 512, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %2, ptr align 4 %4, i64 512, i1 false)
  br label %6
6:
  %7 = icmp ne ptr %1, null
  %8 = icmp ne ptr %0, null
  %or.cond = and i1 %7, %8
  br i1 %or.cond, label %11, label %9
9:
  %10 = call fastcc i32 @refuse(ptr %2, i32 5, ptr getelementptr inbounds ([58 x i8], ptr @.str, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %23
11:
  store ptr null, ptr %1, align 8
  %12 = call ptr @calloc(i64 1, i64 208)
  %.not30 = icmp eq ptr %12, null
  br i1 %.not30, label %13, label %15
13:
  %14 = call fastcc i32 @refuse(ptr %2, i32 6, ptr getelementptr inbounds ([19 x i8], ptr @.str.2, i64 0, i64 0), ptr %0, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %23
15:
  %16 = getelementptr inbounds %struct.planish_model, ptr %12, i64 0, i32 0
  %17 = call fastcc i32 @map_file(ptr %16, ptr %0, ptr getelementptr inbounds ([9 x i8], ptr @.str.3, i64 0, i64 0), ptr %2)
  %.not31 = icmp eq i32 %17, 0
  br i1 %.not31, label %18, label %.thread27
18:
  %19 = call fastcc i32 @read_plan(ptr %12, ptr %0, ptr %2)
  %.not32 = icmp eq i32 %19, 0
  br i1 %.not32, label %20, label %.thread27
20:
  %21 = call fastcc i32 @load_code(ptr %12, ptr %0, ptr %2)
  %.not33 = icmp eq i32 %21, 0
  br i1 %.not33, label %22, label %.thread27
.thread27:
  %.129 = phi i32 [ %21, %20 ], [ %19, %18 ], [ %17, %15 ]
  call void @planish_free(ptr %12)
  br label %23
22:
  store ptr %12, ptr %1, align 8
  br label %23
23:
  %.025 = phi i32 [ %.129, %.thread27 ], [ 0, %22 ], [ %14, %13 ], [ %10, %9 ]
  ret i32 %.025
}
define internal fastcc i32 @refuse(ptr %0, i32 %1, ptr %2, ptr %3, ptr %4) nounwind {
  %.not = icmp eq ptr %0, null
  br i1 %.not, label %10, label %6
6:
  %7 = getelementptr inbounds %struct.planish_error, ptr %0, i64 0, i32 0
  store i32 %1, ptr %7, align 4
  %8 = getelementptr inbounds %struct.planish_error, ptr %0, i64 0, i32 1, i64 0
  %9 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %8, i64 508, ptr %2, ptr %3, ptr %4)
  br label %10
10:
  ret i32 %1
}
declare ptr @calloc(i64, i64)
define internal fastcc i32 @map_file(ptr %0, ptr %1, ptr %2, ptr %3) nounwind {
  %5 = alloca [4096 x i8], align 16
  %6 = getelementptr inbounds [4096 x i8], ptr %5, i64 0, i64 0
  %7 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %6, i64 4096, ptr getelementptr inbounds ([6 x i8], ptr @.str.7, i64 0, i64 0), ptr %1, ptr %2)
  %8 = icmp sgt i32 %7, 4095
  br i1 %8, label %9, label %11
9:
  %10 = call fastcc i32 @refuse(ptr %3, i32 1, ptr getelementptr inbounds ([39 x i8], ptr @.str.8, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %29
11:
  %12 = call i32 (ptr, i32, ...) @open(ptr %6, i32 524288)
  %13 = icmp slt i32 %12, 0
  br i1 %13, label %.thread20, label %14
14:
  %15 = call i64 @lseek(i32 %12, i64 0, i32 2)
  %16 = icmp sgt i64 %15, 0
  br i1 %16, label %20, label %17
17:
  %18 = call i32 @close(i32 %12)
  %19 = icmp slt i64 %15, 0
  br i1 %19, label %.thread20, label %27
20:
  %21 = call ptr @mmap(ptr null, i64 %15, i32 1, i32 2, i32 %12, i64 0)
  %22 = getelementptr inbounds %struct.file, ptr %0, i64 0, i32 0
  %23 = icmp eq ptr %21, inttoptr (i64 -1 to ptr)
  %spec.store.select = select i1 %23, ptr null, ptr %21
  store ptr %spec.store.select, ptr %22, align 8
  %24 = call i32 @close(i32 %12)
  %25 = load ptr, ptr %22, align 8
  %.not = icmp eq ptr %25, null
  br i1 %.not, label %.thread20, label %27
.thread20:
  %26 = call fastcc i32 @refuse(ptr %3, i32 1, ptr getelementptr inbounds ([20 x i8], ptr @.str.9, i64 0, i64 0), ptr %6, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %29
27:
  %28 = getelementptr inbounds %struct.file, ptr %0, i64 0, i32 1
  store i64 %15, ptr %28, align 8
  br label %29
29:
  %.0 = phi i32 [ %10, %9 ], [ %26, %.thread20 ], [ 0, %27 ]
  ret i32 %.0
}
define internal fastcc i32 @read_plan(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca %struct.cursor, align 8
  %5 = alloca %struct.file, align 8
  %6 = getelementptr inbounds %struct.cursor, ptr %4, i64 0, i32 0
  %7 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 0, i32 0
  %8 = load ptr, ptr %7, align 8
  store ptr %8, ptr %6, align 8
  %9 = getelementptr inbounds %struct.cursor, ptr %4, i64 0, i32 1
  %10 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 0, i32 1
  %11 = load i64, ptr %10, align 8
  %12 = lshr i64 %11, 3
  %13 = getelementptr inbounds i64, ptr %8, i64 %12
  store ptr %13, ptr %9, align 8
  %14 = icmp ult i64 %11, 48
  br i1 %14, label %next.exit.thread, label %next.exit
next.exit:
  %15 = getelementptr inbounds i64, ptr %8, i64 1
  store ptr %15, ptr %6, align 8
  %16 = load i64, ptr %8, align 8
  %.not = icmp eq i64 %16, 749976234617826416
  br i1 %.not, label %18, label %next.exit.thread
next.exit.thread:
  %17 = call fastcc i32 @refuse(ptr %2, i32 1, ptr getelementptr inbounds ([26 x i8], ptr @.str.10, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %218
18:
  %19 = icmp ugt i64 %11, 15
  br i1 %19, label %next.exit108, label %next.exit108.thread
next.exit108:
  %20 = getelementptr inbounds i64, ptr %8, i64 2
  store ptr %20, ptr %6, align 8
  %21 = load i64, ptr %15, align 8
  %.not121 = icmp eq i64 %21, 3
  br i1 %.not121, label %23, label %next.exit108.thread
next.exit108.thread:
  %22 = call fastcc i32 @refuse(ptr %2, i32 3, ptr getelementptr inbounds ([48 x i8], ptr @.str.11, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([68 x i8], ptr @.str.12, i64 0, i64 0))
  br label %218
23:
  %24 = call fastcc ptr @many(ptr %4, i64 4)
  %25 = load ptr, ptr %6, align 8
  %26 = load ptr, ptr %7, align 8
  %27 = load i64, ptr %10, align 8
  %28 = getelementptr inbounds i8, ptr %26, i64 %27
  %29 = ptrtoint ptr %28 to i64
  %30 = ptrtoint ptr %25 to i64
  %31 = sub i64 %29, %30
  %32 = call fastcc i32 @has_digest(ptr %25, i64 %31, ptr %24)
  %.not122 = icmp eq i32 %32, 0
  br i1 %.not122, label %33, label %35
33:
  %34 = call fastcc i32 @refuse(ptr %2, i32 2, ptr getelementptr inbounds ([50 x i8], ptr @.str.13, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %218
35:
  %36 = call fastcc ptr @text(ptr %4)
  %37 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 2
  store ptr %36, ptr %37, align 8
  %38 = call fastcc ptr @text(ptr %4)
  %39 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 3
  store ptr %38, ptr %39, align 8
  %40 = call fastcc i32 @check_processor(ptr %0, ptr %4, ptr %2)
  %.not123 = icmp eq i32 %40, 0
  br i1 %.not123, label %41, label %218
41:
  %42 = load ptr, ptr %6, align 8
  %43 = load ptr, ptr %9, align 8
  %44 = icmp ult ptr %42, %43
  br i1 %44, label %45, label %next.exit109
45:
  %46 = getelementptr inbounds i64, ptr %42, i64 1
  store ptr %46, ptr %6, align 8
  %47 = load i64, ptr %42, align 8
  br label %next.exit109
next.exit109:
  %48 = phi i64 [ %47, %45 ], [ 0, %41 ]
  %49 = call fastcc ptr @many(ptr %4, i64 4)
  call void @llvm.memset.p0.i64(ptr align 8 %5, i8 0, i64 16, i1 false)
  %50 = call fastcc i32 @map_file(ptr %5, ptr %1, ptr getelementptr inbounds ([9 x i8], ptr @.str.14, i64 0, i64 0), ptr %2)
  %.not124 = icmp eq i32 %50, 0
  br i1 %.not124, label %51, label %218
51:
  %52 = getelementptr inbounds %struct.file, ptr %5, i64 0, i32 1
  %53 = load i64, ptr %52, align 8
  %54 = icmp eq i64 %53, %48
  br i1 %54, label %55, label %60
55:
  %56 = getelementptr inbounds %struct.file, ptr %5, i64 0, i32 0
  %57 = load ptr, ptr %56, align 8
  %58 = call fastcc i32 @has_digest(ptr %57, i64 %48, ptr %49)
  %59 = icmp ne i32 %58, 0
  br label %60
60:
  %61 = phi i1 [ false, %51 ], [ %59, %55 ]
  %62 = getelementptr inbounds %struct.file, ptr %5, i64 0, i32 0
  %63 = load ptr, ptr %62, align 8
  %.not125 = icmp eq ptr %63, null
  br i1 %.not125, label %67, label %64
64:
  %65 = load i64, ptr %52, align 8
  %66 = call i32 @munmap(ptr %63, i64 %65)
  br label %67
67:
  br i1 %61, label %70, label %68
68:
  %69 = call fastcc i32 @refuse(ptr %2, i32 2, ptr getelementptr inbounds ([50 x i8], ptr @.str.15, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %218
70:
  %71 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1
  %72 = call fastcc i32 @map_file(ptr %71, ptr %1, ptr getelementptr inbounds ([12 x i8], ptr @.str.16, i64 0, i64 0), ptr %2)
  %.not126 = icmp eq i32 %72, 0
  br i1 %.not126, label %73, label %218
73:
  %74 = load ptr, ptr %6, align 8
  %75 = load ptr, ptr %9, align 8
  %76 = icmp ult ptr %74, %75
  br i1 %76, label %77, label %next.exit110
77:
  %78 = getelementptr inbounds i64, ptr %74, i64 1
  store ptr %78, ptr %6, align 8
  %79 = load i64, ptr %74, align 8
  br label %next.exit110
next.exit110:
  %80 = phi i64 [ %79, %77 ], [ 0, %73 ]
  %81 = call fastcc ptr @many(ptr %4, i64 4)
  %82 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 4
  store ptr %81, ptr %82, align 8
  %83 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1, i32 1
  %84 = load i64, ptr %83, align 8
  %.not127 = icmp eq i64 %84, %80
  br i1 %.not127, label %87, label %85
85:
  %86 = call fastcc i32 @refuse(ptr %2, i32 2, ptr getelementptr inbounds ([51 x i8], ptr @.str.17, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %218
87:
  %88 = load ptr, ptr %6, align 8
  %89 = load ptr, ptr %9, align 8
  %90 = icmp ult ptr %88, %89
  br i1 %90, label %91, label %next.exit111
91:
  %92 = getelementptr inbounds i64, ptr %88, i64 1
  store ptr %92, ptr %6, align 8
  %93 = load i64, ptr %88, align 8
  br label %next.exit111
next.exit111:
  %94 = phi i64 [ %93, %91 ], [ 0, %87 ]
  %95 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 8
  store i64 %94, ptr %95, align 8
  %96 = call fastcc ptr @many(ptr %4, i64 %94)
  %.not128 = icmp eq ptr %96, null
  br i1 %.not128, label %.thread, label %98
.thread:
  %97 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 9
  store ptr null, ptr %97, align 8
  br label %105
98:
  %99 = load i64, ptr %95, align 8
  %100 = call ptr @calloc(i64 %99, i64 8)
  %101 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 9
  store ptr %100, ptr %101, align 8
  %.not135 = icmp eq ptr %100, null
  br i1 %.not135, label %105, label %102
102:
  %103 = load i64, ptr %95, align 8
  %104 = shl i64 %103, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %100, ptr align 8 %96, i64 %104, i1 false)
  br label %105
105:
  %106 = phi ptr [ %97, %.thread ], [ %101, %102 ], [ %101, %98 ]
  %107 = load ptr, ptr %6, align 8
  %108 = load ptr, ptr %9, align 8
  %109 = icmp ult ptr %107, %108
  br i1 %109, label %110, label %next.exit112
110:
  %111 = getelementptr inbounds i64, ptr %107, i64 1
  store ptr %111, ptr %6, align 8
  %112 = load i64, ptr %107, align 8
  br label %next.exit112
next.exit112:
  %113 = phi ptr [ %111, %110 ], [ %107, %105 ]
  %114 = phi i64 [ %112, %110 ], [ 0, %105 ]
  %115 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 10
  store i64 %114, ptr %115, align 8
  %116 = icmp ult ptr %113, %108
  br i1 %116, label %117, label %next.exit113
117:
  %118 = getelementptr inbounds i64, ptr %113, i64 1
  store ptr %118, ptr %6, align 8
  %119 = load i64, ptr %113, align 8
  br label %next.exit113
next.exit113:
  %120 = phi i64 [ %119, %117 ], [ 0, %next.exit112 ]
  %121 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 11
  store i64 %120, ptr %121, align 8
  %122 = call fastcc ptr @many(ptr %4, i64 %120)
  %123 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 12
  store ptr %122, ptr %123, align 8
  %124 = load ptr, ptr %6, align 8
  %125 = load ptr, ptr %9, align 8
  %126 = icmp ult ptr %124, %125
  br i1 %126, label %127, label %next.exit114
127:
  %128 = getelementptr inbounds i64, ptr %124, i64 1
  store ptr %128, ptr %6, align 8
  %129 = load i64, ptr %124, align 8
  br label %next.exit114
next.exit114:
  %130 = phi i64 [ %129, %127 ], [ 0, %next.exit113 ]
  br label %131
131:
  %.0106 = phi i64 [ %130, %next.exit114 ], [ %155, %154 ]
  %132 = icmp sgt i64 %.0106, 0
  br i1 %132, label %133, label %156
133:
  %134 = load ptr, ptr %6, align 8
  %135 = load ptr, ptr %9, align 8
  %136 = icmp ult ptr %134, %135
  br i1 %136, label %137, label %next.exit115
137:
  %138 = getelementptr inbounds i64, ptr %134, i64 1
  store ptr %138, ptr %6, align 8
  %139 = load i64, ptr %134, align 8
  br label %next.exit115
next.exit115:
  %140 = phi ptr [ %138, %137 ], [ %134, %133 ]
  %141 = phi i64 [ %139, %137 ], [ 0, %133 ]
  %142 = icmp ult ptr %140, %135
  br i1 %142, label %143, label %next.exit116
143:
  %144 = getelementptr inbounds i64, ptr %140, i64 1
  store ptr %144, ptr %6, align 8
  %145 = load i64, ptr %140, align 8
  br label %next.exit116
next.exit116:
  %146 = phi i64 [ %145, %143 ], [ 0, %next.exit115 ]
  %147 = load ptr, ptr %106, align 8
  %.not134 = icmp eq ptr %147, null
  br i1 %.not134, label %154, label %148
148:
  %149 = getelementptr inbounds %struct.file, ptr %71, i64 0, i32 0
  %150 = load ptr, ptr %149, align 8
  %151 = ptrtoint ptr %150 to i64
  %152 = add nsw i64 %146, %151
  %153 = getelementptr inbounds i64, ptr %147, i64 %141
  store i64 %152, ptr %153, align 8
  br label %154
154:
  %155 = add nsw i64 %.0106, -1
  br label %131
156:
  %157 = load ptr, ptr %6, align 8
  %158 = load ptr, ptr %9, align 8
  %159 = icmp ult ptr %157, %158
  br i1 %159, label %160, label %next.exit117
160:
  %161 = getelementptr inbounds i64, ptr %157, i64 1
  store ptr %161, ptr %6, align 8
  %162 = load i64, ptr %157, align 8
  br label %next.exit117
next.exit117:
  %163 = phi i64 [ %162, %160 ], [ 0, %156 ]
  %164 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 13
  store i64 %163, ptr %164, align 8
  %165 = add i64 %163, 1
  %166 = call ptr @calloc(i64 %165, i64 32)
  %167 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 14
  store ptr %166, ptr %167, align 8
  br label %168
168:
  %169 = phi ptr [ %.pr, %next.exit120 ], [ %166, %next.exit117 ]
  %.0107 = phi i64 [ %196, %next.exit120 ], [ 0, %next.exit117 ]
  %.not129 = icmp eq ptr %169, null
  br i1 %.not129, label %.critedge, label %170
170:
  %171 = load i64, ptr %164, align 8
  %172 = icmp slt i64 %.0107, %171
  br i1 %172, label %173, label %.critedge
173:
  %174 = call fastcc ptr @text(ptr %4)
  %175 = load ptr, ptr %167, align 8
  %176 = getelementptr inbounds %struct.named_size, ptr %175, i64 %.0107
  %177 = load ptr, ptr %6, align 8
  %178 = load ptr, ptr %9, align 8
  %179 = icmp ult ptr %177, %178
  br i1 %179, label %180, label %next.exit118
180:
  %181 = getelementptr inbounds i64, ptr %177, i64 1
  store ptr %181, ptr %6, align 8
  %182 = load i64, ptr %177, align 8
  br label %next.exit118
next.exit118:
  %183 = phi ptr [ %181, %180 ], [ %177, %173 ]
  %184 = phi i64 [ %182, %180 ], [ 0, %173 ]
  %185 = icmp ult ptr %183, %178
  br i1 %185, label %186, label %next.exit119
186:
  %187 = getelementptr inbounds i64, ptr %183, i64 1
  store ptr %187, ptr %6, align 8
  %188 = load i64, ptr %183, align 8
  br label %next.exit119
next.exit119:
  %189 = phi ptr [ %187, %186 ], [ %183, %next.exit118 ]
  %190 = phi i64 [ %188, %186 ], [ 0, %next.exit118 ]
  %191 = icmp ult ptr %189, %178
  br i1 %191, label %192, label %next.exit120
192:
  %193 = getelementptr inbounds i64, ptr %189, i64 1
  store ptr %193, ptr %6, align 8
  %194 = load i64, ptr %189, align 8
  br label %next.exit120
next.exit120:
  %195 = phi i64 [ %194, %192 ], [ 0, %next.exit119 ]
  store ptr %174, ptr %176, align 8
  %.sroa.2.0..sroa_idx = getelementptr inbounds i8, ptr %176, i64 8
  store i64 %184, ptr %.sroa.2.0..sroa_idx, align 8
  %.sroa.3.0..sroa_idx = getelementptr inbounds i8, ptr %176, i64 16
  store i64 %190, ptr %.sroa.3.0..sroa_idx, align 8
  %.sroa.4.0..sroa_idx = getelementptr inbounds i8, ptr %176, i64 24
  store i64 %195, ptr %.sroa.4.0..sroa_idx, align 8
  %196 = add nuw nsw i64 %.0107, 1
  %.pr = load ptr, ptr %167, align 8
  br label %168
.critedge:
  %197 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 15
  %198 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %199 = call fastcc ptr @read_ports(ptr %4, ptr %197, ptr %198)
  %200 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 17
  store ptr %199, ptr %200, align 8
  %201 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %202 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %203 = call fastcc ptr @read_ports(ptr %4, ptr %201, ptr %202)
  %204 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 18
  store ptr %203, ptr %204, align 8
  %205 = load ptr, ptr %106, align 8
  %.not130 = icmp eq ptr %205, null
  br i1 %.not130, label %216, label %206
206:
  %207 = load ptr, ptr %167, align 8
  %.not131 = icmp eq ptr %207, null
  br i1 %.not131, label %216, label %208
208:
  %209 = load ptr, ptr %200, align 8
  %210 = icmp ne ptr %209, null
  %211 = icmp ne ptr %203, null
  %or.cond = select i1 %210, i1 %211, i1 false
  br i1 %or.cond, label %212, label %216
212:
  %213 = load ptr, ptr %198, align 8
  %.not132 = icmp eq ptr %213, null
  br i1 %.not132, label %216, label %214
214:
  %215 = load ptr, ptr %202, align 8
  %.not133 = icmp eq ptr %215, null
  br i1 %.not133, label %216, label %218
216:
  %217 = call fastcc i32 @refuse(ptr %2, i32 6, ptr getelementptr inbounds ([19 x i8], ptr @.str.2, i64 0, i64 0), ptr %1, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %218
218:
  %.0 = phi i32 [ %17, %next.exit.thread ], [ %22, %next.exit108.thread ], [ %86, %85 ], [ %217, %216 ], [ %69, %68 ], [ %34, %33 ], [ %40, %35 ], [ %50, %next.exit109 ], [ %72, %70 ], [ 0, %214 ]
  ret i32 %.0
}
define internal fastcc i32 @load_code(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca [4200 x i8], align 16
  %5 = getelementptr inbounds [4200 x i8], ptr %4, i64 0, i64 0
  %6 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %5, i64 4200, ptr getelementptr inbounds ([12 x i8], ptr @.str.21, i64 0, i64 0), ptr %1)
  %7 = call ptr @dlopen(ptr %5, i32 2)
  %8 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 5
  store ptr %7, ptr %8, align 8
  %.not = icmp eq ptr %7, null
  br i1 %.not, label %9, label %12
9:
  %10 = call ptr @dlerror()
  %11 = call fastcc i32 @refuse(ptr %2, i32 1, ptr getelementptr inbounds ([24 x i8], ptr @.str.22, i64 0, i64 0), ptr %5, ptr %10)
  br label %23
12:
  %13 = call ptr @dlsym(ptr %7, ptr getelementptr inbounds ([4 x i8], ptr @.str.23, i64 0, i64 0))
  %14 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 6
  store ptr %13, ptr %14, align 8
  %15 = load ptr, ptr %8, align 8
  %16 = call ptr @dlsym(ptr %15, ptr getelementptr inbounds ([6 x i8], ptr @.str.24, i64 0, i64 0))
  %17 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 7
  store ptr %16, ptr %17, align 8
  %18 = load ptr, ptr %14, align 8
  %19 = icmp ne ptr %18, null
  %20 = icmp ne ptr %16, null
  %or.cond = select i1 %19, i1 %20, i1 false
  br i1 %or.cond, label %23, label %21
21:
  %22 = call fastcc i32 @refuse(ptr %2, i32 1, ptr getelementptr inbounds ([26 x i8], ptr @.str.10, i64 0, i64 0), ptr %5, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %23
23:
  %.0 = phi i32 [ %22, %21 ], [ %11, %9 ], [ 0, %12 ]
  ret i32 %.0
}
define i32 @planish_verify(ptr %0, ptr %1) nounwind {
  %3 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1, i32 0
  %4 = load ptr, ptr %3, align 8
  %5 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 1, i32 1
  %6 = load i64, ptr %5, align 8
  %7 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 4
  %8 = load ptr, ptr %7, align 8
  %9 = call fastcc i32 @has_digest(ptr %4, i64 %6, ptr %8)
  %.not = icmp eq i32 %9, 0
  br i1 %.not, label %10, label %12
10:
  %11 = call fastcc i32 @refuse(ptr %1, i32 2, ptr getelementptr inbounds ([52 x i8], ptr @.str.4, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %12
12:
  %.0 = phi i32 [ %11, %10 ], [ 0, %2 ]
  ret i32 %.0
}
define internal fastcc i32 @has_digest(ptr %0, i64 %1, ptr %2) nounwind {
  %4 = alloca [8 x i32], align 16
  %5 = alloca [128 x i8], align 16
  %6 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 0
  store i32 1779033703, ptr %6, align 16
  %7 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 1
  store i32 -1150833019, ptr %7, align 4
  %8 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 2
  store i32 1013904242, ptr %8, align 8
  %9 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 3
  store i32 -1521486534, ptr %9, align 4
  %10 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 4
  store i32 1359893119, ptr %10, align 16
  %11 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 5
  store i32 -1694144372, ptr %11, align 4
  %12 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 6
  store i32 528734635, ptr %12, align 8
  %13 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 7
  store i32 1541459225, ptr %13, align 4
  %14 = lshr i64 %1, 6
  %15 = and i64 %1, 63
  %16 = icmp ult i64 %15, 56
  %17 = select i1 %16, i64 64, i64 128
  br label %18
18:
  %.032 = phi i64 [ 0, %3 ], [ %23, %20 ]
  %19 = icmp ult i64 %.032, %14
  br i1 %19, label %20, label %24
20:
  %21 = shl i64 %.032, 6
  %22 = getelementptr inbounds i8, ptr %0, i64 %21
  call fastcc void @sha_block(ptr %6, ptr %22)
  %23 = add i64 %.032, 1
  br label %18
24:
  %25 = getelementptr inbounds [128 x i8], ptr %5, i64 0, i64 0
  call void @llvm.memset.p0.i64(ptr align 16 %25, i8 0, i64 128, i1 false)
  %26 = and i64 %1, -64
  %27 = getelementptr inbounds i8, ptr %0, i64 %26
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %25, ptr align 1 %27, i64 %15, i1 false)
  %28 = getelementptr inbounds [128 x i8], ptr %5, i64 0, i64 %15
  store i8 -128, ptr %28, align 1
  br label %29
29:
  %.031 = phi i32 [ 0, %24 ], [ %41, %31 ]
  %30 = icmp ult i32 %.031, 8
  br i1 %30, label %31, label %42
31:
  %32 = shl i64 %1, 3
  %33 = shl nsw i32 %.031, 3
  %34 = zext i32 %33 to i64
  %35 = lshr i64 %32, %34
  %36 = trunc i64 %35 to i8
  %37 = zext i32 %.031 to i64
  %38 = xor i64 %37, -1
  %39 = add nsw i64 %17, %38
  %40 = getelementptr inbounds [128 x i8], ptr %5, i64 0, i64 %39
  store i8 %36, ptr %40, align 1
  %41 = add nuw nsw i32 %.031, 1
  br label %29
42:
  %.030 = phi i64 [ %48, %45 ], [ 0, %29 ]
  %43 = lshr exact i64 %17, 6
  %44 = icmp ult i64 %.030, %43
  br i1 %44, label %45, label %49
45:
  %46 = shl i64 %.030, 6
  %47 = getelementptr inbounds [128 x i8], ptr %5, i64 0, i64 %46
  call fastcc void @sha_block(ptr %6, ptr %47)
  %48 = add i64 %.030, 1
  br label %42
49:
  %.029 = phi i32 [ %65, %51 ], [ 1, %42 ]
  %.0 = phi i32 [ %66, %51 ], [ 0, %42 ]
  %50 = icmp ult i32 %.0, 32
  br i1 %50, label %51, label %67
51:
  %52 = lshr i32 %.0, 2
  %53 = zext i32 %52 to i64
  %54 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 %53
  %55 = load i32, ptr %54, align 4
  %56 = shl i32 %.0, 3
  %.not = and i32 %56, 24
  %57 = xor i32 %.not, 24
  %58 = lshr i32 %55, %57
  %59 = zext i32 %.0 to i64
  %60 = getelementptr inbounds i8, ptr %2, i64 %59
  %61 = load i8, ptr %60, align 1
  %62 = trunc i32 %58 to i8
  %63 = icmp eq i8 %61, %62
  %64 = zext i1 %63 to i32
  %65 = and i32 %.029, %64
  %66 = add nuw nsw i32 %.0, 1
  br label %49
67:
  ret i32 %.029
}
define i32 @interrupted(ptr %0) nounwind {
  ret i32 0
}
define i64 @planish_inputs(ptr %0, ptr %1) nounwind {
  %.not = icmp eq ptr %1, null
  br i1 %.not, label %6, label %3
3:
  %4 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %5 = load ptr, ptr %4, align 8
  store ptr %5, ptr %1, align 8
  br label %6
6:
  %7 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 15
  %8 = load i64, ptr %7, align 8
  ret i64 %8
}
define i64 @planish_outputs(ptr %0, ptr %1) nounwind {
  %.not = icmp eq ptr %1, null
  br i1 %.not, label %6, label %3
3:
  %4 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %5 = load ptr, ptr %4, align 8
  store ptr %5, ptr %1, align 8
  br label %6
6:
  %7 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %8 = load i64, ptr %7, align 8
  ret i64 %8
}
define ptr @planish_compiled_by(ptr %0) nounwind {
  %2 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 2
  %3 = load ptr, ptr %2, align 8
  ret ptr %3
}
define ptr @planish_target(ptr %0) nounwind {
  %2 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 3
  %3 = load ptr, ptr %2, align 8
  ret ptr %3
}
define void @planish_threads(ptr %0, i32 %1) nounwind {
  %3 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 21
  store atomic i32 %1, ptr %3 monotonic, align 8
  ret void
}
define void @planish_release(ptr %0) nounwind {
  %2 = getelementptr inbounds %struct.planish_tensor, ptr %0, i64 0, i32 4
  %3 = load ptr, ptr %2, align 8
  call void @free(ptr %3)
  store ptr null, ptr %2, align 8
  %4 = getelementptr inbounds %struct.planish_tensor, ptr %0, i64 0, i32 5
  store i64 0, ptr %4, align 8
  ret void
}
define i32 @planish_run(ptr %0, ptr %1, i64 %2, ptr %3, i64 %4, ptr %5) nounwind {
  %7 = alloca %struct.planish_error, align 4
  %.not = icmp eq ptr %5, null
  br i1 %.not, label %9, label %8
8:
  call void @llvm.memset.p0.i64(ptr align 4 %7, i8 0, i64 512, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %5, ptr align 4 %7, i64 512, i1 false)
  br label %9
9:
  %.not84 = icmp eq ptr %0, null
  br i1 %.not84, label %16, label %10
10:
  %11 = icmp eq i64 %2, 0
  %12 = icmp ne ptr %1, null
  %or.cond = or i1 %11, %12
  br i1 %or.cond, label %13, label %16
13:
  %14 = icmp eq i64 %4, 0
  %15 = icmp ne ptr %3, null
  %or.cond74 = or i1 %14, %15
  br i1 %or.cond74, label %18, label %16
16:
  %17 = call fastcc i32 @refuse(ptr %5, i32 5, ptr getelementptr inbounds ([58 x i8], ptr @.str.5, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %84
18:
  %19 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 21
  %20 = load atomic i32, ptr %19 monotonic, align 8
  %.not85 = icmp eq i32 %20, 0
  br i1 %.not85, label %21, label %23
21:
  %22 = call fastcc i32 @cores()
  store atomic i32 %22, ptr %19 monotonic, align 8
  br label %23
23:
  %.073 = phi i32 [ %20, %18 ], [ %22, %21 ]
  %24 = load atomic i64, ptr @workers seq_cst, align 8
  %25 = zext i32 %.073 to i64
  %26 = add nsw i64 %25, -1
  %27 = icmp slt i64 %24, %26
  br i1 %27, label %28, label %29
28:
  call fastcc void @start_workers(i64 %26)
  br label %29
29:
  %30 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 8
  %31 = load i64, ptr %30, align 8
  %32 = shl i64 %31, 3
  %33 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %34 = load i64, ptr %33, align 8
  %35 = shl i64 %34, 3
  %36 = add i64 %35, 8
  %37 = add i64 %32, %36
  %38 = call ptr @calloc(i64 1, i64 %37)
  %.not86 = icmp eq ptr %38, null
  br i1 %.not86, label %39, label %41
39:
  %40 = call fastcc i32 @refuse(ptr %5, i32 6, ptr getelementptr inbounds ([24 x i8], ptr @.str.6, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %84
41:
  %42 = getelementptr inbounds i8, ptr %38, i64 %32
  %43 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 9
  %44 = load ptr, ptr %43, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %38, ptr align 8 %44, i64 %32, i1 false)
  %45 = getelementptr inbounds %struct.frame, ptr %38, i64 0, i32 2
  store i64 %25, ptr %45, align 8
  %46 = call fastcc i32 @take_inputs(ptr %0, ptr %1, i64 %2, ptr %38, ptr %5)
  %.not87 = icmp eq i32 %46, 0
  br i1 %.not87, label %47, label %.thread80
47:
  %48 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 7
  %49 = load ptr, ptr %48, align 8
  %50 = call i64 %49(ptr %38)
  %51 = call fastcc i32 @place_outputs(ptr %0, ptr %3, i64 %4, ptr %38, ptr %5)
  %.not88 = icmp eq i32 %51, 0
  br i1 %.not88, label %52, label %.thread80
52:
  %53 = call fastcc ptr @take_arena(ptr %0)
  %.not89 = icmp eq ptr %53, null
  br i1 %.not89, label %54, label %56
54:
  %55 = call fastcc i32 @refuse(ptr %5, i32 6, ptr getelementptr inbounds ([24 x i8], ptr @.str.6, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %56
56:
  %.2 = phi i32 [ 0, %52 ], [ %55, %54 ]
  %.not90 = icmp eq i32 %.2, 0
  br i1 %.not90, label %57, label %74
57:
  %.069 = phi i64 [ %71, %61 ], [ 0, %56 ]
  %58 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 11
  %59 = load i64, ptr %58, align 8
  %60 = icmp slt i64 %.069, %59
  br i1 %60, label %61, label %72
61:
  %62 = ptrtoint ptr %53 to i64
  %63 = add nsw i64 %62, 4096
  %64 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 12
  %65 = load ptr, ptr %64, align 8
  %66 = getelementptr inbounds i64, ptr %65, i64 %.069
  %67 = load i64, ptr %66, align 8
  %68 = getelementptr inbounds i64, ptr %38, i64 %67
  %69 = load i64, ptr %68, align 8
  %70 = add nsw i64 %69, %63
  store i64 %70, ptr %68, align 8
  %71 = add nuw nsw i64 %.069, 1
  br label %57
72:
  %73 = call fastcc i32 @compute(ptr %0, ptr %38, ptr %42, ptr %3, i64 %4, ptr %5)
  br label %74
74:
  %.3 = phi i32 [ %.2, %56 ], [ %73, %72 ]
  br i1 %.not89, label %.thread80, label %75
75:
  call fastcc void @give_arena(ptr %0, ptr %53)
  br label %.thread80
.thread80:
  %.383 = phi i32 [ %.3, %75 ], [ %.3, %74 ], [ %51, %47 ], [ %46, %41 ]
  br label %76
76:
  %.0 = phi i64 [ 0, %.thread80 ], [ %82, %79 ]
  %77 = load i64, ptr %33, align 8
  %78 = icmp slt i64 %.0, %77
  br i1 %78, label %79, label %83
79:
  %80 = getelementptr inbounds ptr, ptr %42, i64 %.0
  %81 = load ptr, ptr %80, align 8
  call void @free(ptr %81)
  %82 = add nuw nsw i64 %.0, 1
  br label %76
83:
  call void @free(ptr %38)
  br label %84
84:
  %.072 = phi i32 [ %.383, %83 ], [ %40, %39 ], [ %17, %16 ]
  ret i32 %.072
}
define internal fastcc i32 @cores() nounwind {
  %1 = alloca [16 x i64], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %1, i8 0, i64 128, i1 false)
  %2 = getelementptr inbounds [16 x i64], ptr %1, i64 0, i64 0
  %3 = call i32 @sched_getaffinity(i32 0, i64 128, ptr %2)
  %.not = icmp eq i32 %3, 0
  br i1 %.not, label %4, label %15
4:
  %.07 = phi i32 [ %12, %6 ], [ 0, %0 ]
  %.0 = phi i32 [ %13, %6 ], [ 0, %0 ]
  %5 = icmp ult i32 %.0, 16
  br i1 %5, label %6, label %14
6:
  %7 = zext i32 %.0 to i64
  %8 = getelementptr inbounds [16 x i64], ptr %1, i64 0, i64 %7
  %9 = load i64, ptr %8, align 8
  %10 = call i64 @llvm.ctpop.i64(i64 %9)
  %11 = trunc i64 %10 to i32
  %12 = add i32 %.07, %11
  %13 = add nuw nsw i32 %.0, 1
  br label %4
14:
  %.not9 = icmp eq i32 %.07, 0
  %.07. = select i1 %.not9, i32 1, i32 %.07
  br label %15
15:
  %.08 = phi i32 [ %.07., %14 ], [ 1, %0 ]
  ret i32 %.08
}
define internal fastcc void @start_workers(i64 %0) nounwind {
  %2 = alloca [16 x i64], align 16
  %3 = alloca [16 x i64], align 16
  %4 = alloca i64, align 8
  call fastcc void @enter_lock(ptr @workers_lock)
  %.b = load i1, ptr @pool_is_ready, align 1
  %5 = zext i1 %.b to i64
  %.not = icmp eq i64 %5, 0
  br i1 %.not, label %6, label %7
6:
  call void @llvm.memset.p0.i64(ptr align 64 @pool, i8 0, i64 576, i1 false)
  store i64 4294967295, ptr getelementptr inbounds (%struct.anon, ptr @pool, i64 0, i32 0), align 64
  br label %7
7:
  store i1 true, ptr @pool_is_ready, align 1
  %8 = getelementptr inbounds [16 x i64], ptr %2, i64 0, i64 0
  call void @llvm.memset.p0.i64(ptr align 16 %8, i8 -1, i64 128, i1 false)
  %9 = getelementptr inbounds [16 x i64], ptr %3, i64 0, i64 0
  %10 = call i32 @pthread_sigmask(i32 2, ptr %8, ptr %9)
  %.pre = load i64, ptr @workers, align 8
  br label %11
11:
  %12 = phi i64 [ %20, %16 ], [ %.pre, %7 ]
  %13 = icmp slt i64 %12, %0
  br i1 %13, label %14, label %.critedge
14:
  %15 = call i32 @pthread_create(ptr %4, ptr null, ptr @work, ptr null)
  %.not1 = icmp eq i32 %15, 0
  br i1 %.not1, label %16, label %.critedge
16:
  %17 = load i64, ptr %4, align 8
  %18 = call i32 @pthread_detach(i64 %17)
  %19 = load i64, ptr @workers, align 8
  %20 = add nsw i64 %19, 1
  store i64 %20, ptr @workers, align 8
  br label %11
.critedge:
  %21 = call i32 @pthread_sigmask(i32 2, ptr %9, ptr null)
  store atomic i64 0, ptr @workers_lock release, align 8
  ret void
}
define internal fastcc i32 @take_inputs(ptr %0, ptr %1, i64 %2, ptr %3, ptr %4) nounwind {
  br label %6
6:
  %.042 = phi i64 [ 0, %5 ], [ %23, %22 ]
  %7 = icmp ult i64 %.042, %2
  br i1 %7, label %8, label %24
8:
  %9 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %10 = load ptr, ptr %9, align 8
  %11 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 15
  %12 = load i64, ptr %11, align 8
  %13 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 %.042
  %14 = call fastcc i64 @port_of(ptr %10, i64 %12, ptr %13, i64 %.042)
  %15 = icmp slt i64 %14, 0
  br i1 %15, label %16, label %20
16:
  %17 = load ptr, ptr %9, align 8
  %18 = load i64, ptr %11, align 8
  %19 = call fastcc i32 @unknown(ptr %13, ptr getelementptr inbounds ([6 x i8], ptr @.str.25, i64 0, i64 0), ptr %17, i64 %18, ptr %4)
  br label %49
20:
  %21 = call fastcc i32 @take_input(ptr %0, i64 %14, ptr %13, ptr %3, ptr %4)
  %.not43 = icmp eq i32 %21, 0
  br i1 %.not43, label %22, label %49
22:
  %23 = add i64 %.042, 1
  br label %6
24:
  %.040 = phi i64 [ %48, %47 ], [ 0, %6 ]
  %25 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 15
  %26 = load i64, ptr %25, align 8
  %27 = icmp slt i64 %.040, %26
  br i1 %27, label %28, label %49
28:
  %.039 = phi i32 [ %38, %31 ], [ 0, %24 ]
  %.0 = phi i64 [ %39, %31 ], [ 0, %24 ]
  %29 = icmp ult i64 %.0, %2
  %.not = icmp eq i32 %.039, 0
  %30 = select i1 %29, i1 %.not, i1 false
  br i1 %30, label %31, label %40
31:
  %32 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %33 = load ptr, ptr %32, align 8
  %34 = load i64, ptr %25, align 8
  %35 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 %.0
  %36 = call fastcc i64 @port_of(ptr %33, i64 %34, ptr %35, i64 %.0)
  %37 = icmp eq i64 %36, %.040
  %38 = zext i1 %37 to i32
  %39 = add i64 %.0, 1
  br label %28
40:
  br i1 %.not, label %41, label %47
41:
  %42 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %43 = load ptr, ptr %42, align 8
  %44 = getelementptr inbounds %struct.planish_port, ptr %43, i64 %.040, i32 0
  %45 = load ptr, ptr %44, align 8
  %46 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([22 x i8], ptr @.str.26, i64 0, i64 0), ptr %45, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %49
47:
  %48 = add nuw nsw i64 %.040, 1
  br label %24
49:
  %.041 = phi i32 [ %19, %16 ], [ %46, %41 ], [ %21, %20 ], [ 0, %24 ]
  ret i32 %.041
}
define internal fastcc i32 @place_outputs(ptr %0, ptr %1, i64 %2, ptr %3, ptr %4) nounwind {
  %6 = alloca [120 x i8], align 16
  br label %7
7:
  %.028 = phi i64 [ 0, %5 ], [ %37, %36 ]
  %8 = icmp ult i64 %.028, %2
  br i1 %8, label %9, label %38
9:
  %10 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %13 = load i64, ptr %12, align 8
  %14 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 %.028
  %15 = call fastcc i64 @port_of(ptr %11, i64 %13, ptr %14, i64 %.028)
  %16 = icmp slt i64 %15, 0
  br i1 %16, label %17, label %21
17:
  %18 = load ptr, ptr %10, align 8
  %19 = load i64, ptr %12, align 8
  %20 = call fastcc i32 @unknown(ptr %14, ptr getelementptr inbounds ([7 x i8], ptr @.str.60, i64 0, i64 0), ptr %18, i64 %19, ptr %4)
  br label %38
21:
  %22 = call fastcc i64 @bytes_of(ptr %0, i64 %15, ptr %3, i32 0, ptr null)
  %23 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 %.028, i32 4
  %24 = load ptr, ptr %23, align 8
  %.not = icmp eq ptr %24, null
  br i1 %.not, label %36, label %25
25:
  %26 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 %.028, i32 5
  %27 = load i64, ptr %26, align 8
  %28 = icmp ult i64 %27, %22
  br i1 %28, label %29, label %36
29:
  %30 = getelementptr inbounds [120 x i8], ptr %6, i64 0, i64 0
  %31 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %30, i64 120, ptr getelementptr inbounds ([31 x i8], ptr @.str.61, i64 0, i64 0), i64 %22, i64 %27)
  %32 = load ptr, ptr %10, align 8
  %33 = getelementptr inbounds %struct.planish_port, ptr %32, i64 %15, i32 0
  %34 = load ptr, ptr %33, align 8
  %35 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([13 x i8], ptr @.str.62, i64 0, i64 0), ptr %34, ptr %30)
  br label %38
36:
  %37 = add i64 %.028, 1
  br label %7
38:
  %.0 = phi i32 [ %20, %17 ], [ %35, %29 ], [ 0, %7 ]
  ret i32 %.0
}
define internal fastcc ptr @take_arena(ptr %0) nounwind {
  %2 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 22
  call fastcc void @enter_lock(ptr %2)
  %3 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 23
  %4 = load ptr, ptr %3, align 8
  %.not = icmp eq ptr %4, null
  br i1 %.not, label %.critedge, label %5
5:
  %6 = getelementptr inbounds %struct.arena, ptr %4, i64 0, i32 0
  %7 = load ptr, ptr %6, align 8
  store ptr %7, ptr %3, align 8
  store atomic i64 0, ptr %2 release, align 8
  br label %16
.critedge:
  store atomic i64 0, ptr %2 release, align 8
  %8 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 10
  %9 = load i64, ptr %8, align 8
  %10 = add i64 %9, 4096
  %11 = call ptr @mmap(ptr null, i64 %10, i32 3, i32 34, i32 -1, i64 0)
  %12 = icmp eq ptr %11, inttoptr (i64 -1 to ptr)
  br i1 %12, label %16, label %13
13:
  %14 = call i32 @madvise(ptr %11, i64 %10, i32 14)
  %15 = getelementptr inbounds %struct.arena, ptr %11, i64 0, i32 1
  store i64 %10, ptr %15, align 8
  br label %16
16:
  %.0 = phi ptr [ %11, %13 ], [ %4, %5 ], [ null, %.critedge ]
  ret ptr %.0
}
define internal fastcc i32 @compute(ptr %0, ptr %1, ptr %2, ptr %3, i64 %4, ptr %5) nounwind {
  br label %7
7:
  %.081 = phi i64 [ 0, %6 ], [ %50, %49 ]
  %8 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 16
  %9 = load i64, ptr %8, align 8
  %10 = icmp slt i64 %.081, %9
  br i1 %10, label %11, label %51
11:
  %12 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 18
  %13 = load ptr, ptr %12, align 8
  %14 = getelementptr inbounds %struct.port, ptr %13, i64 %.081, i32 2
  %15 = load i64, ptr %14, align 8
  %.not91 = icmp eq i64 %15, 0
  br i1 %.not91, label %16, label %49
16:
  %.083 = phi i64 [ %30, %29 ], [ 0, %11 ]
  %.082 = phi ptr [ %.1, %29 ], [ null, %11 ]
  %17 = icmp ult i64 %.083, %4
  %.not92 = icmp eq ptr %.082, null
  %18 = select i1 %17, i1 %.not92, i1 false
  br i1 %18, label %19, label %31
19:
  %20 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %21 = load ptr, ptr %20, align 8
  %22 = load i64, ptr %8, align 8
  %23 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.083
  %24 = call fastcc i64 @port_of(ptr %21, i64 %22, ptr %23, i64 %.083)
  %25 = icmp eq i64 %24, %.081
  br i1 %25, label %26, label %29
26:
  %27 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.083, i32 4
  %28 = load ptr, ptr %27, align 8
  br label %29
29:
  %.1 = phi ptr [ %28, %26 ], [ null, %19 ]
  %30 = add i64 %.083, 1
  br label %16
31:
  br i1 %.not92, label %32, label %.thread
32:
  %33 = call fastcc i64 @bytes_of(ptr %0, i64 %.081, ptr %1, i32 0, ptr null)
  %34 = add i64 %33, 64
  %35 = and i64 %34, -64
  %36 = call ptr @aligned_alloc(i64 64, i64 %35)
  %37 = getelementptr inbounds ptr, ptr %2, i64 %.081
  store ptr %36, ptr %37, align 8
  %.not93 = icmp eq ptr %36, null
  br i1 %.not93, label %38, label %.thread
38:
  %39 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %40 = load ptr, ptr %39, align 8
  %41 = getelementptr inbounds %struct.planish_port, ptr %40, i64 %.081, i32 0
  %42 = load ptr, ptr %41, align 8
  %43 = call fastcc i32 @refuse(ptr %5, i32 6, ptr getelementptr inbounds ([26 x i8], ptr @.str.63, i64 0, i64 0), ptr %42, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %108
.thread:
  %.286 = phi ptr [ %36, %32 ], [ %.082, %31 ]
  %44 = ptrtoint ptr %.286 to i64
  %45 = load ptr, ptr %12, align 8
  %46 = getelementptr inbounds %struct.port, ptr %45, i64 %.081, i32 1
  %47 = load i64, ptr %46, align 8
  %48 = getelementptr inbounds i64, ptr %1, i64 %47
  store i64 %44, ptr %48, align 8
  br label %49
49:
  %50 = add nuw nsw i64 %.081, 1
  br label %7
51:
  %52 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 6
  %53 = load ptr, ptr %52, align 8
  %54 = call i64 %53(ptr %1)
  %.mask = and i64 %54, -4294967296
  %55 = icmp eq i64 %.mask, 8589934592
  br i1 %55, label %56, label %58
56:
  %57 = call fastcc i32 @refuse(ptr %5, i32 5, ptr getelementptr inbounds ([69 x i8], ptr @.str.64, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %108
58:
  %.not = icmp eq i64 %54, 0
  br i1 %.not, label %61, label %59
59:
  %60 = call fastcc i32 @refuse(ptr %5, i32 1, ptr getelementptr inbounds ([45 x i8], ptr @.str.65, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %108
61:
  %.084 = phi i64 [ %107, %105 ], [ 0, %58 ]
  %62 = icmp ult i64 %.084, %4
  br i1 %62, label %63, label %108
63:
  %64 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %65 = load ptr, ptr %64, align 8
  %66 = load i64, ptr %8, align 8
  %67 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084
  %68 = call fastcc i64 @port_of(ptr %65, i64 %66, ptr %67, i64 %.084)
  %69 = load ptr, ptr %64, align 8
  %70 = getelementptr inbounds %struct.planish_port, ptr %69, i64 %68, i32 1
  %71 = load i32, ptr %70, align 8
  %72 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084, i32 1
  store i32 %71, ptr %72, align 8
  %73 = load ptr, ptr %64, align 8
  %74 = getelementptr inbounds %struct.planish_port, ptr %73, i64 %68, i32 2
  %75 = load i32, ptr %74, align 4
  %76 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084, i32 2
  store i32 %75, ptr %76, align 4
  %77 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084, i32 3, i64 0
  %78 = call fastcc i64 @bytes_of(ptr %0, i64 %68, ptr %1, i32 1, ptr %77)
  %79 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 18
  %80 = load ptr, ptr %79, align 8
  %81 = getelementptr inbounds %struct.port, ptr %80, i64 %68, i32 1
  %82 = load i64, ptr %81, align 8
  %83 = getelementptr inbounds i64, ptr %1, i64 %82
  %84 = load i64, ptr %83, align 8
  %85 = inttoptr i64 %84 to ptr
  %86 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084, i32 4
  %87 = load ptr, ptr %86, align 8
  %.not88 = icmp eq ptr %87, null
  br i1 %.not88, label %88, label %.thread87
88:
  %89 = getelementptr inbounds ptr, ptr %2, i64 %68
  %90 = load ptr, ptr %89, align 8
  store ptr %90, ptr %86, align 8
  store ptr null, ptr %89, align 8
  %91 = load ptr, ptr %86, align 8
  %.not89 = icmp eq ptr %91, null
  br i1 %.not89, label %92, label %.thread87
92:
  %93 = add i64 %78, 64
  %94 = and i64 %93, -64
  %95 = call ptr @aligned_alloc(i64 64, i64 %94)
  store ptr %95, ptr %86, align 8
  %.not90 = icmp eq ptr %95, null
  br i1 %.not90, label %96, label %.thread87
96:
  %97 = load ptr, ptr %64, align 8
  %98 = getelementptr inbounds %struct.planish_port, ptr %97, i64 %68, i32 0
  %99 = load ptr, ptr %98, align 8
  %100 = call fastcc i32 @refuse(ptr %5, i32 6, ptr getelementptr inbounds ([26 x i8], ptr @.str.63, i64 0, i64 0), ptr %99, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %108
.thread87:
  %101 = phi ptr [ %91, %88 ], [ %95, %92 ], [ %87, %63 ]
  %102 = icmp ne ptr %101, %85
  %103 = icmp ne i64 %78, 0
  %or.cond = select i1 %102, i1 %103, i1 false
  br i1 %or.cond, label %104, label %105
104:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %101, ptr align 1 %85, i64 %78, i1 false)
  br label %105
105:
  %106 = getelementptr inbounds %struct.planish_tensor, ptr %3, i64 %.084, i32 5
  store i64 %78, ptr %106, align 8
  %107 = add i64 %.084, 1
  br label %61
108:
  %.0 = phi i32 [ %43, %38 ], [ %57, %56 ], [ %60, %59 ], [ %100, %96 ], [ 0, %61 ]
  ret i32 %.0
}
define internal fastcc void @give_arena(ptr %0, ptr %1) nounwind {
  %3 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 22
  call fastcc void @enter_lock(ptr %3)
  %4 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 23
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds %struct.arena, ptr %1, i64 0, i32 0
  store ptr %5, ptr %6, align 8
  store ptr %1, ptr %4, align 8
  store atomic i64 0, ptr %3 release, align 8
  ret void
}
declare i32 @clock_gettime(i32, ptr)
declare void @llvm.x86.sse2.pause()
declare i64 @syscall(i64, ...)
declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @open(ptr, i32, ...)
declare i64 @lseek(i32, i64, i32)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @close(i32)
define internal fastcc ptr @many(ptr %0, i64 %1) nounwind {
  %3 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 0
  %4 = load ptr, ptr %3, align 8
  %5 = icmp slt i64 %1, 0
  br i1 %5, label %._crit_edge, label %6
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 1
  %.pre = load ptr, ptr %.phi.trans.insert, align 8
  br label %15
6:
  %7 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 1
  %8 = load ptr, ptr %7, align 8
  %9 = ptrtoint ptr %8 to i64
  %10 = ptrtoint ptr %4 to i64
  %11 = sub i64 %9, %10
  %12 = ashr exact i64 %11, 3
  %13 = icmp slt i64 %12, %1
  %14 = getelementptr inbounds i64, ptr %4, i64 %1
  %spec.select = select i1 %13, ptr %8, ptr %14
  %spec.select10 = select i1 %13, ptr null, ptr %4
  br label %15
15:
  %storemerge = phi ptr [ %.pre, %._crit_edge ], [ %spec.select, %6 ]
  %.0 = phi ptr [ null, %._crit_edge ], [ %spec.select10, %6 ]
  store ptr %storemerge, ptr %3, align 8
  ret ptr %.0
}
define internal fastcc ptr @text(ptr %0) nounwind {
  %2 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 0
  %3 = load ptr, ptr %2, align 8
  %4 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 1
  %5 = load ptr, ptr %4, align 8
  %6 = icmp ult ptr %3, %5
  br i1 %6, label %7, label %next.exit
7:
  %8 = getelementptr inbounds i64, ptr %3, i64 1
  store ptr %8, ptr %2, align 8
  %9 = load i64, ptr %3, align 8
  %phi.bo = add i64 %9, 8
  %phi.bo2 = sdiv i64 %phi.bo, 8
  br label %next.exit
next.exit:
  %10 = phi i64 [ %phi.bo2, %7 ], [ 1, %1 ]
  %11 = call fastcc ptr @many(ptr %0, i64 %10)
  ret ptr %11
}
define internal fastcc i32 @check_processor(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = getelementptr inbounds %struct.cursor, ptr %1, i64 0, i32 0
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds %struct.cursor, ptr %1, i64 0, i32 1
  %7 = load ptr, ptr %6, align 8
  %8 = icmp ult ptr %5, %7
  br i1 %8, label %9, label %next.exit
9:
  %10 = getelementptr inbounds i64, ptr %5, i64 1
  store ptr %10, ptr %4, align 8
  %11 = load i64, ptr %5, align 8
  br label %next.exit
next.exit:
  %12 = phi i64 [ %11, %9 ], [ 0, %3 ]
  br label %13
13:
  %.016 = phi i64 [ %12, %next.exit ], [ %32, %31 ]
  %14 = icmp sgt i64 %.016, 0
  br i1 %14, label %15, label %33
15:
  %16 = call fastcc ptr @text(ptr %1)
  %17 = call fastcc ptr @many(ptr %1, i64 4)
  %.not19 = icmp eq ptr %17, null
  br i1 %.not19, label %33, label %18
18:
  %19 = load i64, ptr %17, align 8
  %20 = getelementptr inbounds i64, ptr %17, i64 1
  %21 = load i64, ptr %20, align 8
  %22 = getelementptr inbounds i64, ptr %17, i64 2
  %23 = load i64, ptr %22, align 8
  %24 = getelementptr inbounds i64, ptr %17, i64 3
  %25 = load i64, ptr %24, align 8
  %26 = call fastcc i32 @processor_has(i64 %19, i64 %21, i64 %23, i64 %25)
  %.not20 = icmp eq i32 %26, 0
  br i1 %.not20, label %27, label %31
27:
  %28 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 3
  %29 = load ptr, ptr %28, align 8
  %30 = call fastcc i32 @refuse(ptr %2, i32 4, ptr getelementptr inbounds ([59 x i8], ptr @.str.18, i64 0, i64 0), ptr %29, ptr %16)
  br label %next.exit17.thread
31:
  %32 = add nsw i64 %.016, -1
  br label %13
33:
  %34 = load ptr, ptr %4, align 8
  %35 = load ptr, ptr %6, align 8
  %36 = icmp ult ptr %34, %35
  br i1 %36, label %next.exit17, label %next.exit17.thread
next.exit17:
  %37 = getelementptr inbounds i64, ptr %34, i64 1
  store ptr %37, ptr %4, align 8
  %38 = load i64, ptr %34, align 8
  %.not = icmp eq i64 %38, 0
  br i1 %.not, label %next.exit17.thread, label %39
39:
  %40 = call i64 (i64, ...) @syscall(i64 158, i32 4131, i32 18)
  %.not18 = icmp eq i64 %40, 0
  br i1 %.not18, label %next.exit17.thread, label %41
41:
  %42 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 3
  %43 = load ptr, ptr %42, align 8
  %44 = call fastcc i32 @refuse(ptr %2, i32 4, ptr getelementptr inbounds ([65 x i8], ptr @.str.19, i64 0, i64 0), ptr %43, ptr getelementptr inbounds ([4 x i8], ptr @.str.20, i64 0, i64 0))
  br label %next.exit17.thread
next.exit17.thread:
  %.0 = phi i32 [ %30, %27 ], [ %44, %41 ], [ 0, %39 ], [ 0, %next.exit17 ], [ 0, %33 ]
  ret i32 %.0
}
define internal fastcc ptr @read_ports(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 0
  %5 = load ptr, ptr %4, align 8
  %6 = getelementptr inbounds %struct.cursor, ptr %0, i64 0, i32 1
  %7 = load ptr, ptr %6, align 8
  %8 = icmp ult ptr %5, %7
  br i1 %8, label %9, label %next.exit
9:
  %10 = getelementptr inbounds i64, ptr %5, i64 1
  store ptr %10, ptr %4, align 8
  %11 = load i64, ptr %5, align 8
  br label %next.exit
next.exit:
  %12 = phi i64 [ %11, %9 ], [ 0, %3 ]
  store i64 %12, ptr %1, align 8
  %13 = add i64 %12, 1
  %14 = call ptr @calloc(i64 %13, i64 32)
  %15 = load i64, ptr %1, align 8
  %16 = add i64 %15, 1
  %17 = call ptr @calloc(i64 %16, i64 24)
  store ptr %17, ptr %2, align 8
  %18 = icmp ne ptr %14, null
  %19 = icmp ne ptr %17, null
  %or.cond = select i1 %18, i1 %19, i1 false
  br i1 %or.cond, label %20, label %105
20:
  %.046 = phi i64 [ %104, %.critedge ], [ 0, %next.exit ]
  %21 = load i64, ptr %1, align 8
  %22 = icmp slt i64 %.046, %21
  br i1 %22, label %23, label %105
23:
  %24 = load ptr, ptr %2, align 8
  %25 = call fastcc ptr @text(ptr %0)
  %26 = getelementptr inbounds %struct.planish_port, ptr %24, i64 %.046, i32 0
  store ptr %25, ptr %26, align 8
  %27 = load ptr, ptr %4, align 8
  %28 = load ptr, ptr %6, align 8
  %29 = icmp ult ptr %27, %28
  br i1 %29, label %30, label %next.exit48
30:
  %31 = getelementptr inbounds i64, ptr %27, i64 1
  store ptr %31, ptr %4, align 8
  %32 = load i64, ptr %27, align 8
  br label %next.exit48
next.exit48:
  %33 = phi i64 [ %32, %30 ], [ 0, %23 ]
  %34 = trunc i64 %33 to i32
  %35 = getelementptr inbounds %struct.planish_port, ptr %24, i64 %.046, i32 1
  store i32 %34, ptr %35, align 8
  %36 = load ptr, ptr %4, align 8
  %37 = load ptr, ptr %6, align 8
  %38 = icmp ult ptr %36, %37
  br i1 %38, label %39, label %next.exit49
39:
  %40 = getelementptr inbounds i64, ptr %36, i64 1
  store ptr %40, ptr %4, align 8
  %41 = load i64, ptr %36, align 8
  br label %next.exit49
next.exit49:
  %42 = phi i64 [ %41, %39 ], [ 0, %next.exit48 ]
  %43 = getelementptr inbounds %struct.port, ptr %14, i64 %.046, i32 0
  store i64 %42, ptr %43, align 8
  %44 = load ptr, ptr %4, align 8
  %45 = load ptr, ptr %6, align 8
  %46 = icmp ult ptr %44, %45
  br i1 %46, label %47, label %next.exit50
47:
  %48 = getelementptr inbounds i64, ptr %44, i64 1
  store ptr %48, ptr %4, align 8
  %49 = load i64, ptr %44, align 8
  br label %next.exit50
next.exit50:
  %50 = phi i64 [ %49, %47 ], [ 0, %next.exit49 ]
  %51 = getelementptr inbounds %struct.port, ptr %14, i64 %.046, i32 1
  store i64 %50, ptr %51, align 8
  %52 = load ptr, ptr %4, align 8
  %53 = load ptr, ptr %6, align 8
  %54 = icmp ult ptr %52, %53
  br i1 %54, label %55, label %next.exit51
55:
  %56 = getelementptr inbounds i64, ptr %52, i64 1
  store ptr %56, ptr %4, align 8
  %57 = load i64, ptr %52, align 8
  br label %next.exit51
next.exit51:
  %58 = phi i64 [ %57, %55 ], [ 0, %next.exit50 ]
  %59 = getelementptr inbounds %struct.port, ptr %14, i64 %.046, i32 2
  store i64 %58, ptr %59, align 8
  %60 = load ptr, ptr %4, align 8
  %61 = load ptr, ptr %6, align 8
  %62 = icmp ult ptr %60, %61
  br i1 %62, label %63, label %next.exit52
63:
  %64 = getelementptr inbounds i64, ptr %60, i64 1
  store ptr %64, ptr %4, align 8
  %65 = load i64, ptr %60, align 8
  br label %next.exit52
next.exit52:
  %66 = phi i64 [ %65, %63 ], [ 0, %next.exit51 ]
  %67 = trunc i64 %66 to i32
  %68 = getelementptr inbounds %struct.planish_port, ptr %24, i64 %.046, i32 2
  store i32 %67, ptr %68, align 4
  %sext = shl i64 %66, 32
  %69 = ashr exact i64 %sext, 32
  %70 = call fastcc ptr @many(ptr %0, i64 %69)
  %71 = getelementptr inbounds %struct.port, ptr %14, i64 %.046, i32 3
  store ptr %70, ptr %71, align 8
  %72 = load i32, ptr %68, align 4
  %73 = sext i32 %72 to i64
  %74 = add nsw i64 %73, 1
  %75 = call ptr @calloc(i64 %74, i64 24)
  %76 = getelementptr inbounds %struct.planish_port, ptr %24, i64 %.046, i32 3
  store ptr %75, ptr %76, align 8
  br label %77
77:
  %.047 = phi i32 [ 0, %next.exit52 ], [ %103, %next.exit54 ]
  %.not = icmp eq ptr %75, null
  br i1 %.not, label %.critedge, label %78
78:
  %79 = load i32, ptr %68, align 4
  %80 = icmp slt i32 %.047, %79
  br i1 %80, label %81, label %.critedge
81:
  %82 = call fastcc ptr @text(ptr %0)
  %83 = zext i32 %.047 to i64
  %84 = getelementptr inbounds %struct.planish_axis, ptr %75, i64 %83
  %.not55 = icmp eq ptr %82, null
  br i1 %.not55, label %87, label %85
85:
  %86 = load i8, ptr %82, align 1
  %.not56 = icmp eq i8 %86, 0
  br i1 %.not56, label %87, label %88
87:
  br label %88
88:
  %89 = phi ptr [ null, %87 ], [ %82, %85 ]
  %90 = load ptr, ptr %4, align 8
  %91 = load ptr, ptr %6, align 8
  %92 = icmp ult ptr %90, %91
  br i1 %92, label %93, label %next.exit53
93:
  %94 = getelementptr inbounds i64, ptr %90, i64 1
  store ptr %94, ptr %4, align 8
  %95 = load i64, ptr %90, align 8
  br label %next.exit53
next.exit53:
  %96 = phi ptr [ %94, %93 ], [ %90, %88 ]
  %97 = phi i64 [ %95, %93 ], [ 0, %88 ]
  %98 = icmp ult ptr %96, %91
  br i1 %98, label %99, label %next.exit54
99:
  %100 = getelementptr inbounds i64, ptr %96, i64 1
  store ptr %100, ptr %4, align 8
  %101 = load i64, ptr %96, align 8
  br label %next.exit54
next.exit54:
  %102 = phi i64 [ %101, %99 ], [ 0, %next.exit53 ]
  store ptr %89, ptr %84, align 8
  %.sroa.2.0..sroa_idx = getelementptr inbounds i8, ptr %84, i64 8
  store i64 %97, ptr %.sroa.2.0..sroa_idx, align 8
  %.sroa.3.0..sroa_idx = getelementptr inbounds i8, ptr %84, i64 16
  store i64 %102, ptr %.sroa.3.0..sroa_idx, align 8
  %103 = add nuw nsw i32 %.047, 1
  br label %77
.critedge:
  %104 = add nuw nsw i64 %.046, 1
  br label %20
105:
  ret ptr %14
}
define internal fastcc i32 @processor_has(i64 %0, i64 %1, i64 %2, i64 %3) nounwind {
  %5 = icmp slt i64 %0, 0
  br i1 %5, label %6, label %12
6:
  %7 = call { i32, i32 } asm sideeffect ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %8 = extractvalue { i32, i32 } %7, 0
  %9 = trunc i64 %3 to i32
  %10 = lshr i32 %8, %9
  %11 = and i32 %10, 1
  br label %35
12:
  %13 = trunc i64 %0 to i32
  %14 = and i32 %13, -2147483648
  %15 = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %14, i32 0)
  %16 = extractvalue { i32, i32, i32, i32 } %15, 0
  %17 = icmp ult i32 %16, %13
  br i1 %17, label %35, label %18
18:
  %19 = trunc i64 %1 to i32
  %20 = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %13, i32 %19)
  %21 = extractvalue { i32, i32, i32, i32 } %20, 0
  %22 = extractvalue { i32, i32, i32, i32 } %20, 1
  %23 = extractvalue { i32, i32, i32, i32 } %20, 2
  switch i64 %2, label %24 [
    i64 0, label %30
    i64 1, label %28
    i64 2, label %26
  ]
24:
  %25 = extractvalue { i32, i32, i32, i32 } %20, 3
  br label %26
26:
  %27 = phi i32 [ %25, %24 ], [ %23, %18 ]
  br label %28
28:
  %29 = phi i32 [ %27, %26 ], [ %22, %18 ]
  br label %30
30:
  %31 = phi i32 [ %29, %28 ], [ %21, %18 ]
  %32 = trunc i64 %3 to i32
  %33 = lshr i32 %31, %32
  %34 = and i32 %33, 1
  br label %35
35:
  %.0 = phi i32 [ %11, %6 ], [ %34, %30 ], [ 0, %12 ]
  ret i32 %.0
}
declare ptr @dlopen(ptr, i32)
declare ptr @dlerror()
declare ptr @dlsym(ptr, ptr)
define internal fastcc void @sha_block(ptr %0, ptr %1) nounwind {
  %3 = alloca [64 x i32], align 16
  %4 = alloca [8 x i32], align 16
  br label %5
5:
  %.046 = phi i32 [ 0, %2 ], [ %14, %7 ]
  %6 = icmp ult i32 %.046, 16
  br i1 %6, label %7, label %15
7:
  %8 = shl nsw i32 %.046, 2
  %9 = zext i32 %8 to i64
  %10 = getelementptr inbounds i8, ptr %1, i64 %9
  %.0.copyload = load i32, ptr %10, align 1
  %11 = call i32 @llvm.bswap.i32(i32 %.0.copyload)
  %12 = zext i32 %.046 to i64
  %13 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %12
  store i32 %11, ptr %13, align 4
  %14 = add nuw nsw i32 %.046, 1
  br label %5
15:
  %.047 = phi i32 [ %49, %17 ], [ 16, %5 ]
  %16 = icmp ult i32 %.047, 64
  br i1 %16, label %17, label %50
17:
  %18 = add nsw i32 %.047, -15
  %19 = sext i32 %18 to i64
  %20 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %19
  %21 = load i32, ptr %20, align 4
  %22 = add nsw i32 %.047, -2
  %23 = sext i32 %22 to i64
  %24 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %23
  %25 = load i32, ptr %24, align 4
  %26 = add nsw i32 %.047, -16
  %27 = sext i32 %26 to i64
  %28 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %27
  %29 = load i32, ptr %28, align 4
  %30 = call i32 @llvm.fshl.i32(i32 %21, i32 %21, i32 25)
  %31 = call i32 @llvm.fshl.i32(i32 %21, i32 %21, i32 14)
  %32 = xor i32 %30, %31
  %33 = lshr i32 %21, 3
  %34 = xor i32 %32, %33
  %35 = add i32 %29, %34
  %36 = add nsw i32 %.047, -7
  %37 = sext i32 %36 to i64
  %38 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %37
  %39 = load i32, ptr %38, align 4
  %40 = add i32 %35, %39
  %41 = call i32 @llvm.fshl.i32(i32 %25, i32 %25, i32 15)
  %42 = call i32 @llvm.fshl.i32(i32 %25, i32 %25, i32 13)
  %43 = xor i32 %41, %42
  %44 = lshr i32 %25, 10
  %45 = xor i32 %43, %44
  %46 = add i32 %40, %45
  %47 = zext i32 %.047 to i64
  %48 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %47
  store i32 %46, ptr %48, align 4
  %49 = add nuw nsw i32 %.047, 1
  br label %15
50:
  %51 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 0
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 %51, ptr align 4 %0, i64 32, i1 false)
  br label %52
52:
  %.048 = phi i32 [ 0, %50 ], [ %108, %104 ]
  %53 = icmp ult i32 %.048, 64
  br i1 %53, label %54, label %109
54:
  %55 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 4
  %56 = load i32, ptr %55, align 16
  %57 = load i32, ptr %51, align 16
  %58 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 7
  %59 = load i32, ptr %58, align 4
  %60 = call i32 @llvm.fshl.i32(i32 %56, i32 %56, i32 26)
  %61 = call i32 @llvm.fshl.i32(i32 %56, i32 %56, i32 21)
  %62 = xor i32 %60, %61
  %63 = call i32 @llvm.fshl.i32(i32 %56, i32 %56, i32 7)
  %64 = xor i32 %62, %63
  %65 = add i32 %59, %64
  %66 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 5
  %67 = load i32, ptr %66, align 4
  %68 = and i32 %56, %67
  %69 = xor i32 %56, -1
  %70 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 6
  %71 = load i32, ptr %70, align 8
  %72 = and i32 %71, %69
  %73 = or i32 %68, %72
  %74 = add i32 %65, %73
  %75 = zext i32 %.048 to i64
  %76 = getelementptr inbounds [64 x i32], ptr @sha_constants, i64 0, i64 %75
  %77 = load i32, ptr %76, align 4
  %78 = add i32 %74, %77
  %79 = getelementptr inbounds [64 x i32], ptr %3, i64 0, i64 %75
  %80 = load i32, ptr %79, align 4
  %81 = add i32 %78, %80
  %82 = call i32 @llvm.fshl.i32(i32 %57, i32 %57, i32 30)
  %83 = call i32 @llvm.fshl.i32(i32 %57, i32 %57, i32 19)
  %84 = xor i32 %82, %83
  %85 = call i32 @llvm.fshl.i32(i32 %57, i32 %57, i32 10)
  %86 = xor i32 %84, %85
  %87 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 1
  %88 = load i32, ptr %87, align 4
  %89 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 2
  %90 = load i32, ptr %89, align 8
  %91 = xor i32 %88, %90
  %92 = and i32 %57, %91
  %93 = and i32 %88, %90
  %94 = xor i32 %92, %93
  %95 = add i32 %86, %94
  br label %96
96:
  %.045 = phi i32 [ 7, %54 ], [ %98, %97 ]
  %.not = icmp eq i32 %.045, 0
  br i1 %.not, label %104, label %97
97:
  %98 = add nsw i32 %.045, -1
  %99 = sext i32 %98 to i64
  %100 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 %99
  %101 = load i32, ptr %100, align 4
  %102 = sext i32 %.045 to i64
  %103 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 %102
  store i32 %101, ptr %103, align 4
  br label %96
104:
  %105 = load i32, ptr %55, align 16
  %106 = add i32 %105, %81
  store i32 %106, ptr %55, align 16
  %107 = add i32 %81, %95
  store i32 %107, ptr %51, align 16
  %108 = add nuw nsw i32 %.048, 1
  br label %52
109:
  %.0 = phi i32 [ %118, %111 ], [ 0, %52 ]
  %110 = icmp ult i32 %.0, 8
  br i1 %110, label %111, label %119
111:
  %112 = zext i32 %.0 to i64
  %113 = getelementptr inbounds [8 x i32], ptr %4, i64 0, i64 %112
  %114 = load i32, ptr %113, align 4
  %115 = getelementptr inbounds i32, ptr %0, i64 %112
  %116 = load i32, ptr %115, align 4
  %117 = add i32 %116, %114
  store i32 %117, ptr %115, align 4
  %118 = add nuw nsw i32 %.0, 1
  br label %109
119:
  ret void
}
declare i32 @llvm.bswap.i32(i32)
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i64 @llvm.ctpop.i64(i64)
define internal fastcc void @enter_lock(ptr %0) nounwind {
  br label %2
2:
  %3 = cmpxchg ptr %0, i64 0, i64 1 acquire monotonic, align 8
  %4 = extractvalue { i64, i1 } %3, 1
  br i1 %4, label %7, label %5
5:
  %6 = call i32 @sched_yield()
  br label %2
7:
  ret void
}
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
define internal ptr @work(ptr %0) nounwind {
  call void @pool_worker()
  ret ptr %0
}
declare i32 @pthread_detach(i64)
define internal fastcc i64 @port_of(ptr %0, i64 %1, ptr %2, i64 %3) nounwind {
  %5 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 0
  %6 = load ptr, ptr %5, align 8
  %.not = icmp eq ptr %6, null
  br i1 %.not, label %7, label %9
7:
  %8 = icmp ult i64 %3, %1
  %. = select i1 %8, i64 %3, i64 -1
  br label %18
9:
  %.0 = phi i64 [ %17, %16 ], [ 0, %4 ]
  %10 = icmp slt i64 %.0, %1
  br i1 %10, label %11, label %18
11:
  %12 = getelementptr inbounds %struct.planish_port, ptr %0, i64 %.0, i32 0
  %13 = load ptr, ptr %12, align 8
  %14 = load ptr, ptr %5, align 8
  %15 = call i32 @strcmp(ptr %13, ptr %14)
  %.not12 = icmp eq i32 %15, 0
  br i1 %.not12, label %18, label %16
16:
  %17 = add nuw nsw i64 %.0, 1
  br label %9
18:
  %.011 = phi i64 [ %., %7 ], [ %.0, %11 ], [ -1, %9 ]
  ret i64 %.011
}
define internal fastcc i32 @unknown(ptr %0, ptr %1, ptr %2, i64 %3, ptr %4) nounwind {
  %6 = alloca [320 x i8], align 16
  %7 = alloca [480 x i8], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %6, i8 0, i64 320, i1 false)
  br label %8
8:
  %.013 = phi i64 [ 0, %5 ], [ %21, %13 ]
  %.0 = phi i64 [ 0, %5 ], [ %22, %13 ]
  %9 = icmp slt i64 %.0, %3
  %10 = add i64 %.013, 64
  %11 = icmp ult i64 %10, 320
  %12 = select i1 %9, i1 %11, i1 false
  br i1 %12, label %13, label %23
13:
  %14 = getelementptr inbounds [320 x i8], ptr %6, i64 0, i64 %.013
  %15 = sub i64 320, %.013
  %.not14 = icmp eq i64 %.0, 0
  %16 = select i1 %.not14, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([3 x i8], ptr @.str.28, i64 0, i64 0)
  %17 = getelementptr inbounds %struct.planish_port, ptr %2, i64 %.0, i32 0
  %18 = load ptr, ptr %17, align 8
  %19 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %14, i64 %15, ptr getelementptr inbounds ([8 x i8], ptr @.str.27, i64 0, i64 0), ptr %16, ptr %18)
  %20 = sext i32 %19 to i64
  %21 = add i64 %.013, %20
  %22 = add nuw nsw i64 %.0, 1
  br label %8
23:
  %24 = getelementptr inbounds [480 x i8], ptr %7, i64 0, i64 0
  %25 = getelementptr inbounds %struct.planish_tensor, ptr %0, i64 0, i32 0
  %26 = load ptr, ptr %25, align 8
  %.not = icmp eq ptr %26, null
  %. = select i1 %.not, ptr getelementptr inbounds ([14 x i8], ptr @.str.30, i64 0, i64 0), ptr %26
  %27 = getelementptr inbounds [320 x i8], ptr %6, i64 0, i64 0
  %28 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %24, i64 480, ptr getelementptr inbounds ([37 x i8], ptr @.str.29, i64 0, i64 0), ptr %1, ptr %., ptr %27)
  %29 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([5 x i8], ptr @.str.31, i64 0, i64 0), ptr %24, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  ret i32 %29
}
define internal fastcc i32 @take_input(ptr %0, i64 %1, ptr %2, ptr %3, ptr %4) nounwind {
  %6 = alloca [160 x i8], align 16
  %7 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 19
  %8 = load ptr, ptr %7, align 8
  %9 = getelementptr inbounds %struct.planish_port, ptr %8, i64 %1
  %10 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 17
  %11 = load ptr, ptr %10, align 8
  %12 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 1
  %13 = load i32, ptr %12, align 8
  %14 = getelementptr inbounds %struct.planish_port, ptr %8, i64 %1, i32 1
  %15 = load i32, ptr %14, align 8
  %.not = icmp eq i32 %13, %15
  br i1 %.not, label %16, label %21
16:
  %17 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 2
  %18 = load i32, ptr %17, align 4
  %19 = getelementptr inbounds %struct.planish_port, ptr %8, i64 %1, i32 2
  %20 = load i32, ptr %19, align 4
  %.not75 = icmp eq i32 %18, %20
  br i1 %.not75, label %23, label %21
21:
  %22 = call fastcc i32 @misfit(ptr %9, ptr %2, ptr %4)
  br label %114
23:
  %24 = getelementptr inbounds %struct.port, ptr %11, i64 %1, i32 0
  %25 = load i64, ptr %24, align 8
  br label %26
26:
  %27 = phi i32 [ %18, %23 ], [ %.pre, %79 ]
  %.074 = phi i32 [ 0, %23 ], [ %81, %79 ]
  %.073 = phi i64 [ %25, %23 ], [ %80, %79 ]
  %28 = icmp slt i32 %.074, %27
  br i1 %28, label %29, label %82
29:
  %30 = zext i32 %.074 to i64
  %31 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 3, i64 %30
  %32 = load i64, ptr %31, align 8
  %33 = getelementptr inbounds %struct.port, ptr %11, i64 %1, i32 3
  %34 = load ptr, ptr %33, align 8
  %35 = getelementptr inbounds i64, ptr %34, i64 %30
  %36 = load i64, ptr %35, align 8
  %37 = icmp slt i64 %32, 0
  br i1 %37, label %38, label %40
38:
  %39 = call fastcc i32 @misfit(ptr %9, ptr %2, ptr %4)
  br label %114
40:
  %41 = icmp slt i64 %36, 0
  br i1 %41, label %42, label %71
42:
  %43 = xor i64 %36, -1
  %44 = getelementptr inbounds i64, ptr %3, i64 %43
  %45 = load i64, ptr %44, align 8
  %46 = icmp eq i64 %45, -1
  br i1 %46, label %47, label %60
47:
  %48 = getelementptr inbounds %struct.planish_port, ptr %8, i64 %1, i32 3
  %49 = load ptr, ptr %48, align 8
  %50 = getelementptr inbounds %struct.planish_axis, ptr %49, i64 %30, i32 1
  %51 = load i64, ptr %50, align 8
  %52 = icmp slt i64 %32, %51
  br i1 %52, label %57, label %53
53:
  %54 = getelementptr inbounds %struct.planish_axis, ptr %49, i64 %30, i32 2
  %55 = load i64, ptr %54, align 8
  %56 = icmp sgt i64 %32, %55
  br i1 %56, label %57, label %59
57:
  %58 = call fastcc i32 @misfit(ptr %9, ptr %2, ptr %4)
  br label %114
59:
  store i64 %32, ptr %44, align 8
  br label %74
60:
  %.not80 = icmp eq i64 %45, %32
  br i1 %.not80, label %74, label %61
61:
  %62 = getelementptr inbounds [160 x i8], ptr %6, i64 0, i64 0
  %63 = getelementptr inbounds %struct.planish_port, ptr %8, i64 %1, i32 3
  %64 = load ptr, ptr %63, align 8
  %65 = getelementptr inbounds %struct.planish_axis, ptr %64, i64 %30, i32 0
  %66 = load ptr, ptr %65, align 8
  %67 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %62, i64 160, ptr getelementptr inbounds ([57 x i8], ptr @.str.32, i64 0, i64 0), i64 %32, ptr %66, i64 %45)
  %68 = getelementptr inbounds %struct.planish_port, ptr %9, i64 0, i32 0
  %69 = load ptr, ptr %68, align 8
  %70 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([15 x i8], ptr @.str.33, i64 0, i64 0), ptr %69, ptr %62)
  br label %114
71:
  %.not79 = icmp eq i64 %36, %32
  br i1 %.not79, label %74, label %72
72:
  %73 = call fastcc i32 @misfit(ptr %9, ptr %2, ptr %4)
  br label %114
74:
  %75 = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %.073, i64 %32)
  %76 = extractvalue { i64, i1 } %75, 1
  br i1 %76, label %77, label %79
77:
  %78 = call fastcc i32 @misfit(ptr %9, ptr %2, ptr %4)
  br label %114
79:
  %80 = extractvalue { i64, i1 } %75, 0
  %81 = add nuw nsw i32 %.074, 1
  %.pre = load i32, ptr %19, align 4
  br label %26
82:
  %.not76 = icmp eq i64 %.073, 0
  br i1 %.not76, label %90, label %83
83:
  %84 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 4
  %85 = load ptr, ptr %84, align 8
  %.not78 = icmp eq ptr %85, null
  br i1 %.not78, label %86, label %90
86:
  %87 = getelementptr inbounds %struct.planish_port, ptr %9, i64 0, i32 0
  %88 = load ptr, ptr %87, align 8
  %89 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([23 x i8], ptr @.str.34, i64 0, i64 0), ptr %88, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %114
90:
  %91 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 5
  %92 = load i64, ptr %91, align 8
  %93 = icmp ne i64 %92, 0
  %94 = icmp ult i64 %92, %.073
  %or.cond = select i1 %93, i1 %94, i1 false
  br i1 %or.cond, label %95, label %99
95:
  %96 = getelementptr inbounds %struct.planish_port, ptr %9, i64 0, i32 0
  %97 = load ptr, ptr %96, align 8
  %98 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([48 x i8], ptr @.str.35, i64 0, i64 0), ptr %97, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %114
99:
  %100 = getelementptr inbounds %struct.planish_tensor, ptr %2, i64 0, i32 4
  %101 = load ptr, ptr %100, align 8
  %102 = ptrtoint ptr %101 to i64
  %103 = load i64, ptr %24, align 8
  %104 = icmp slt i64 %103, 8
  %. = select i1 %104, i64 %103, i64 8
  %105 = urem i64 %102, %.
  %.not77 = icmp eq i64 %105, 0
  br i1 %.not77, label %110, label %106
106:
  %107 = getelementptr inbounds %struct.planish_port, ptr %9, i64 0, i32 0
  %108 = load ptr, ptr %107, align 8
  %109 = call fastcc i32 @refuse(ptr %4, i32 5, ptr getelementptr inbounds ([68 x i8], ptr @.str.36, i64 0, i64 0), ptr %108, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0))
  br label %114
110:
  %111 = getelementptr inbounds %struct.port, ptr %11, i64 %1, i32 1
  %112 = load i64, ptr %111, align 8
  %113 = getelementptr inbounds i64, ptr %3, i64 %112
  store i64 %102, ptr %113, align 8
  br label %114
114:
  %.0 = phi i32 [ %22, %21 ], [ %39, %38 ], [ %58, %57 ], [ %78, %77 ], [ %70, %61 ], [ %73, %72 ], [ %98, %95 ], [ %109, %106 ], [ 0, %110 ], [ %89, %86 ]
  ret i32 %.0
}
declare i32 @strcmp(ptr, ptr)
define internal fastcc i32 @misfit(ptr %0, ptr %1, ptr %2) nounwind {
  %4 = alloca [160 x i8], align 16
  %5 = alloca [160 x i8], align 16
  %6 = alloca [400 x i8], align 16
  %7 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 0, i32 2
  %8 = load i32, ptr %7, align 4
  %9 = icmp slt i32 %8, 64
  %. = select i1 %9, i32 %8, i32 64
  %10 = icmp sgt i32 %., 0
  %11 = select i1 %10, i32 %., i32 0
  %12 = getelementptr inbounds [160 x i8], ptr %4, i64 0, i64 0
  %13 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 0, i32 1
  %14 = load i32, ptr %13, align 8
  %15 = getelementptr inbounds %struct.planish_tensor, ptr %1, i64 0, i32 3, i64 0
  call fastcc void @describe(ptr %12, i64 160, i32 %14, i32 %11, ptr null, ptr %15)
  %16 = getelementptr inbounds [160 x i8], ptr %5, i64 0, i64 0
  %17 = getelementptr inbounds %struct.planish_port, ptr %0, i64 0, i32 1
  %18 = load i32, ptr %17, align 8
  %19 = getelementptr inbounds %struct.planish_port, ptr %0, i64 0, i32 2
  %20 = load i32, ptr %19, align 4
  %21 = getelementptr inbounds %struct.planish_port, ptr %0, i64 0, i32 3
  %22 = load ptr, ptr %21, align 8
  call fastcc void @describe(ptr %16, i64 160, i32 %18, i32 %20, ptr %22, ptr null)
  %23 = getelementptr inbounds [400 x i8], ptr %6, i64 0, i64 0
  %24 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %23, i64 400, ptr getelementptr inbounds ([22 x i8], ptr @.str.37, i64 0, i64 0), ptr %12, ptr %16)
  %25 = getelementptr inbounds %struct.planish_port, ptr %0, i64 0, i32 0
  %26 = load ptr, ptr %25, align 8
  %27 = call fastcc i32 @refuse(ptr %2, i32 5, ptr getelementptr inbounds ([15 x i8], ptr @.str.33, i64 0, i64 0), ptr %26, ptr %23)
  ret i32 %27
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
define internal fastcc void @describe(ptr %0, i64 %1, i32 %2, i32 %3, ptr %4, ptr %5) nounwind {
  %7 = add i32 %2, -1
  %8 = icmp ult i32 %7, 16
  br i1 %8, label %9, label %dtype_name.exit
9:
  %10 = sext i32 %2 to i64
  %11 = getelementptr inbounds [17 x ptr], ptr @dtype_names, i64 0, i64 %10
  %12 = load ptr, ptr %11, align 8
  br label %dtype_name.exit
dtype_name.exit:
  %13 = phi ptr [ %12, %9 ], [ getelementptr inbounds ([9 x i8], ptr @.str.42, i64 0, i64 0), %6 ]
  %14 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %0, i64 %1, ptr getelementptr inbounds ([4 x i8], ptr @.str.38, i64 0, i64 0), ptr %13)
  %15 = sext i32 %14 to i64
  br label %16
16:
  %.043 = phi i32 [ 0, %dtype_name.exit ], [ %49, %48 ]
  %.0 = phi i64 [ %15, %dtype_name.exit ], [ %.2, %48 ]
  %17 = icmp slt i32 %.043, %3
  %18 = add i64 %.0, 80
  %19 = icmp ult i64 %18, %1
  %20 = select i1 %17, i1 %19, i1 false
  br i1 %20, label %21, label %50
21:
  %.not = icmp eq i32 %.043, 0
  %22 = select i1 %.not, ptr getelementptr inbounds ([1 x i8], ptr @.str.1, i64 0, i64 0), ptr getelementptr inbounds ([3 x i8], ptr @.str.28, i64 0, i64 0)
  %.not44 = icmp eq ptr %5, null
  br i1 %.not44, label %30, label %23
23:
  %24 = getelementptr inbounds i8, ptr %0, i64 %.0
  %25 = sub i64 %1, %.0
  %26 = zext i32 %.043 to i64
  %27 = getelementptr inbounds i64, ptr %5, i64 %26
  %28 = load i64, ptr %27, align 8
  %29 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %24, i64 %25, ptr getelementptr inbounds ([6 x i8], ptr @.str.39, i64 0, i64 0), ptr %22, i64 %28)
  br label %48
30:
  %31 = zext i32 %.043 to i64
  %32 = getelementptr inbounds %struct.planish_axis, ptr %4, i64 %31, i32 0
  %33 = load ptr, ptr %32, align 8
  %.not45 = icmp eq ptr %33, null
  br i1 %.not45, label %42, label %34
34:
  %35 = getelementptr inbounds i8, ptr %0, i64 %.0
  %36 = sub i64 %1, %.0
  %37 = getelementptr inbounds %struct.planish_axis, ptr %4, i64 %31, i32 1
  %38 = load i64, ptr %37, align 8
  %39 = getelementptr inbounds %struct.planish_axis, ptr %4, i64 %31, i32 2
  %40 = load i64, ptr %39, align 8
  %41 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %35, i64 %36, ptr getelementptr inbounds ([20 x i8], ptr @.str.40, i64 0, i64 0), ptr %22, ptr %33, i64 %38, i64 %40)
  br label %48
42:
  %43 = getelementptr inbounds i8, ptr %0, i64 %.0
  %44 = sub i64 %1, %.0
  %45 = getelementptr inbounds %struct.planish_axis, ptr %4, i64 %31, i32 2
  %46 = load i64, ptr %45, align 8
  %47 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %43, i64 %44, ptr getelementptr inbounds ([6 x i8], ptr @.str.39, i64 0, i64 0), ptr %22, i64 %46)
  br label %48
48:
  %.pn.in = phi i32 [ %29, %23 ], [ %41, %34 ], [ %47, %42 ]
  %.pn = sext i32 %.pn.in to i64
  %.2 = add i64 %.0, %.pn
  %49 = add nuw nsw i32 %.043, 1
  br label %16
50:
  %51 = getelementptr inbounds i8, ptr %0, i64 %.0
  %52 = sub i64 %1, %.0
  %53 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %51, i64 %52, ptr getelementptr inbounds ([2 x i8], ptr @.str.41, i64 0, i64 0))
  ret void
}
define internal fastcc i64 @bytes_of(ptr %0, i64 %1, ptr %2, i32 %3, ptr %4) nounwind {
  %6 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 20
  %7 = load ptr, ptr %6, align 8
  %8 = getelementptr inbounds %struct.planish_model, ptr %0, i64 0, i32 18
  %9 = load ptr, ptr %8, align 8
  %10 = getelementptr inbounds %struct.port, ptr %9, i64 %1, i32 0
  %11 = load i64, ptr %10, align 8
  br label %12
12:
  %.025 = phi i32 [ 0, %5 ], [ %43, %41 ]
  %.0 = phi i64 [ %11, %5 ], [ %42, %41 ]
  %13 = getelementptr inbounds %struct.planish_port, ptr %7, i64 %1, i32 2
  %14 = load i32, ptr %13, align 4
  %15 = icmp slt i32 %.025, %14
  br i1 %15, label %16, label %44
16:
  %17 = getelementptr inbounds %struct.port, ptr %9, i64 %1, i32 3
  %18 = load ptr, ptr %17, align 8
  %19 = zext i32 %.025 to i64
  %20 = getelementptr inbounds i64, ptr %18, i64 %19
  %21 = load i64, ptr %20, align 8
  %22 = icmp sgt i64 %21, -1
  br i1 %22, label %37, label %23
23:
  %24 = getelementptr inbounds %struct.planish_port, ptr %7, i64 %1, i32 3
  %25 = load ptr, ptr %24, align 8
  %26 = getelementptr inbounds %struct.planish_axis, ptr %25, i64 %19, i32 0
  %27 = load ptr, ptr %26, align 8
  %28 = icmp ne ptr %27, null
  %29 = icmp ne i32 %3, 0
  %or.cond = or i1 %28, %29
  br i1 %or.cond, label %30, label %34
30:
  %31 = xor i64 %21, -1
  %32 = getelementptr inbounds i64, ptr %2, i64 %31
  %33 = load i64, ptr %32, align 8
  br label %37
34:
  %35 = getelementptr inbounds %struct.planish_axis, ptr %25, i64 %19, i32 2
  %36 = load i64, ptr %35, align 8
  br label %37
37:
  %38 = phi i64 [ %21, %16 ], [ %33, %30 ], [ %36, %34 ]
  %.not = icmp eq ptr %4, null
  br i1 %.not, label %41, label %39
39:
  %40 = getelementptr inbounds i64, ptr %4, i64 %19
  store i64 %38, ptr %40, align 8
  br label %41
41:
  %42 = mul i64 %.0, %38
  %43 = add nuw nsw i32 %.025, 1
  br label %12
44:
  ret i64 %.0
}
declare i32 @madvise(ptr, i64, i32)
declare ptr @aligned_alloc(i64, i64)
declare i32 @llvm.fshl.i32(i32, i32, i32)
