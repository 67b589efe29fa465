; made by `make native` from the C beside this
; sha256 0861192857029b668dce6811b2fe541d933cabae2f08f5c03823d11d851f4cc3
%struct.anon = type { ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64, i64, i64 }
%struct.record = type { i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64 }
%struct.timespec = type { i64, i64 }
@mpi = internal global %struct.anon zeroinitializer, align 8
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
  %26 = getelementptr inbounds i64, ptr %0, i64 5
  %27 = load i64, ptr %26, align 8
  %28 = getelementptr inbounds i64, ptr %0, i64 6
  %29 = load i64, ptr %28, align 8
  %30 = call fastcc i32 @run(ptr %8, ptr %18, ptr %21, ptr null, i64 %23, i64 %25, i64 %27, i64 %29)
  %31 = sext i32 %30 to i64
  %32 = getelementptr inbounds i64, ptr %0, i64 7
  store i64 %31, ptr %32, align 8
  ret void
}
define internal fastcc i32 @run(ptr %0, ptr %1, ptr %2, ptr %3, i64 %4, i64 %5, i64 %6, i64 %7) nounwind {
  %9 = alloca [2 x i64], align 16
  %10 = alloca i64, align 8
  %11 = mul nsw i64 %4, %5
  %12 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 6
  %13 = load i64, ptr %12, align 8
  %14 = mul nsw i64 %11, %13
  %15 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 8
  %16 = load i64, ptr %15, align 8
  %17 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 7
  %18 = load i64, ptr %17, align 8
  %19 = mul nsw i64 %11, %18
  %20 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 14), align 8
  %21 = add nsw i64 %20, 1
  store i64 %21, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 14), align 8
  %22 = icmp eq i64 %16, 1
  br i1 %22, label %23, label %27
23:
  %24 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 2
  %25 = load i64, ptr %24, align 8
  %.not96 = icmp eq i64 %25, 4
  br i1 %.not96, label %27, label %26
26:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %2, ptr align 1 %1, i64 %19, i1 false)
  br label %together.exit
27:
  %28 = icmp sgt i64 %4, 1
  br i1 %28, label %29, label %50
29:
  %30 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 2
  %31 = load i64, ptr %30, align 8
  switch i64 %31, label %50 [
    i64 2, label %32
    i64 3, label %32
  ]
32:
  %33 = load i64, ptr %17, align 8
  %34 = mul nsw i64 %33, %5
  br label %35
35:
  %.015.i = phi ptr [ %3, %32 ], [ %.1.i, %46 ]
  %.014.i = phi i64 [ 0, %32 ], [ %47, %46 ]
  %36 = icmp slt i64 %.014.i, %16
  br i1 %36, label %37, label %apart.exit
37:
  %.1.i = phi ptr [ %45, %39 ], [ %.015.i, %35 ]
  %.0.i = phi i64 [ %44, %39 ], [ 0, %35 ]
  %38 = icmp slt i64 %.0.i, %4
  br i1 %38, label %39, label %46
39:
  %40 = mul nsw i64 %.0.i, %16
  %41 = add nsw i64 %40, %.014.i
  %42 = mul i64 %41, %34
  %43 = getelementptr inbounds i8, ptr %1, i64 %42
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %.1.i, ptr align 1 %43, i64 %34, i1 false)
  %44 = add nuw nsw i64 %.0.i, 1
  %45 = getelementptr inbounds i8, ptr %.1.i, i64 %34
  br label %37
46:
  %47 = add nuw nsw i64 %.014.i, 1
  br label %35
apart.exit:
  %48 = mul i64 %19, %16
  %49 = getelementptr inbounds i8, ptr %3, i64 %48
  br label %50
50:
  %.086 = phi ptr [ %49, %apart.exit ], [ %3, %27 ], [ %3, %29 ]
  %.084 = phi ptr [ %3, %apart.exit ], [ %1, %27 ], [ %1, %29 ]
  %51 = icmp sgt i64 %6, 1
  br i1 %51, label %52, label %._crit_edge
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 2
  %.pre = load i64, ptr %.phi.trans.insert, align 8
  br label %56
52:
  %53 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 2
  %54 = load i64, ptr %53, align 8
  switch i64 %54, label %56 [
    i64 1, label %55
    i64 3, label %55
  ]
55:
  br label %56
56:
  %57 = phi i64 [ %54, %55 ], [ %.pre, %._crit_edge ], [ %54, %52 ]
  %.0 = phi ptr [ %.086, %55 ], [ %2, %._crit_edge ], [ %2, %52 ]
  switch i64 %57, label %105 [
    i64 0, label %58
    i64 1, label %67
    i64 2, label %74
    i64 3, label %83
    i64 5, label %90
  ]
58:
  %59 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 0), align 8
  %60 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %61 = load i64, ptr %60, align 8
  %62 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 5
  %63 = load i64, ptr %62, align 8
  %64 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %65 = load i64, ptr %64, align 8
  %66 = call i32 %59(ptr %1, ptr %2, i64 %14, i64 %61, i64 %63, i64 %65, ptr %10)
  br label %169
67:
  %68 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 1), align 8
  %69 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %70 = load i64, ptr %69, align 8
  %71 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %72 = load i64, ptr %71, align 8
  %73 = call i32 %68(ptr %1, i64 %14, i64 %70, ptr %.0, i64 %14, i64 %70, i64 %72, ptr %10)
  br label %169
74:
  %75 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 2), align 8
  %76 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %77 = load i64, ptr %76, align 8
  %78 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 5
  %79 = load i64, ptr %78, align 8
  %80 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %81 = load i64, ptr %80, align 8
  %82 = call i32 %75(ptr %.084, ptr %2, i64 %14, i64 %77, i64 %79, i64 %81, ptr %10)
  br label %169
83:
  %84 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 3), align 8
  %85 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %86 = load i64, ptr %85, align 8
  %87 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %88 = load i64, ptr %87, align 8
  %89 = call i32 %84(ptr %.084, i64 %14, i64 %86, ptr %.0, i64 %14, i64 %86, i64 %88, ptr %10)
  br label %169
90:
  %91 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 9
  %92 = load i64, ptr %91, align 8
  %93 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 10
  %94 = load i64, ptr %93, align 8
  %95 = icmp eq i64 %92, %94
  br i1 %95, label %96, label %97
96:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %2, ptr align 1 %1, i64 %19, i1 false)
  %.pre97 = load i64, ptr %93, align 8
  br label %97
97:
  %98 = phi i64 [ %.pre97, %96 ], [ %94, %90 ]
  %99 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 4), align 8
  %100 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %101 = load i64, ptr %100, align 8
  %102 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %103 = load i64, ptr %102, align 8
  %104 = call i32 %99(ptr %2, i64 %14, i64 %101, i64 %98, i64 %103, ptr %10)
  br label %169
105:
  call void @llvm.lifetime.start.p0(i64 16, ptr %9)
  %106 = load i64, ptr %17, align 8
  %107 = mul nsw i64 %106, %11
  %108 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 11
  %109 = load i64, ptr %108, align 8
  %110 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 9
  %111 = load i64, ptr %110, align 8
  %112 = icmp eq i64 %109, %111
  %113 = icmp slt i64 %109, 0
  %or.cond.i = or i1 %112, %113
  br i1 %or.cond.i, label %114, label %117
114:
  br i1 %113, label %115, label %116
115:
  call void @llvm.memset.p0.i64(ptr align 1 %2, i8 0, i64 %107, i1 false)
  br label %117
116:
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %2, ptr align 1 %1, i64 %107, i1 false)
  br label %117
117:
  %118 = load i64, ptr %108, align 8
  %119 = icmp sgt i64 %118, -1
  br i1 %119, label %120, label %123
120:
  %121 = load i64, ptr %110, align 8
  %122 = icmp ne i64 %118, %121
  br label %123
123:
  %124 = phi i1 [ false, %117 ], [ %122, %120 ]
  %125 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 12
  %126 = load i64, ptr %125, align 8
  %127 = icmp sgt i64 %126, -1
  br i1 %127, label %128, label %131
128:
  %129 = load i64, ptr %110, align 8
  %130 = icmp ne i64 %126, %129
  br label %131
131:
  %132 = phi i1 [ false, %123 ], [ %130, %128 ]
  br i1 %124, label %133, label %141
133:
  %134 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 6), align 8
  %135 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %136 = load i64, ptr %135, align 8
  %137 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %138 = load i64, ptr %137, align 8
  %139 = getelementptr inbounds [2 x i64], ptr %9, i64 0, i64 0
  %140 = call i32 %134(ptr %2, i64 %107, i64 %136, i64 %118, i64 4711, i64 %138, ptr %139)
  br label %141
141:
  %.0.i88 = phi i32 [ %140, %133 ], [ 0, %131 ]
  %142 = icmp ne i32 %.0.i88, 0
  %.not.i = xor i1 %132, true
  %brmerge.i = select i1 %142, i1 true, i1 %.not.i
  br i1 %brmerge.i, label %152, label %143
143:
  %144 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 5), align 8
  %145 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 4
  %146 = load i64, ptr %145, align 8
  %147 = load i64, ptr %125, align 8
  %148 = getelementptr inbounds %struct.record, ptr %0, i64 0, i32 3
  %149 = load i64, ptr %148, align 8
  %150 = getelementptr inbounds [2 x i64], ptr %9, i64 0, i64 1
  %151 = call i32 %144(ptr %1, i64 %107, i64 %146, i64 %147, i64 4711, i64 %149, ptr %150)
  br label %152
152:
  %.1.i89 = phi i32 [ %.0.i88, %141 ], [ %151, %143 ]
  %.not40.i = icmp eq i32 %.1.i89, 0
  br i1 %.not40.i, label %156, label %153
153:
  %154 = sext i32 %.1.i89 to i64
  %155 = call fastcc i32 @fail(ptr %0, i64 %154)
  br label %permute.exit
156:
  br i1 %124, label %157, label %161
157:
  %158 = getelementptr inbounds [2 x i64], ptr %9, i64 0, i64 0
  %159 = call fastcc i32 @await(ptr %0, ptr %158)
  %160 = icmp ne i32 %159, 0
  %brmerge39.i = select i1 %160, i1 true, i1 %.not.i
  br i1 %brmerge39.i, label %166, label %162
161:
  br i1 %132, label %162, label %166
162:
  %163 = getelementptr inbounds [2 x i64], ptr %9, i64 0, i64 1
  %164 = call fastcc i32 @await(ptr %0, ptr %163)
  %165 = icmp ne i32 %164, 0
  br label %166
166:
  %167 = phi i1 [ %160, %157 ], [ false, %161 ], [ %165, %162 ]
  %168 = zext i1 %167 to i32
  br label %permute.exit
permute.exit:
  %.037.i = phi i32 [ %155, %153 ], [ %168, %166 ]
  call void @llvm.lifetime.end.p0(i64 16, ptr %9)
  br label %together.exit
169:
  %.087.in = phi i32 [ %104, %97 ], [ %89, %83 ], [ %82, %74 ], [ %73, %67 ], [ %66, %58 ]
  %.not = icmp eq i32 %.087.in, 0
  br i1 %.not, label %172, label %170
170:
  %.087 = sext i32 %.087.in to i64
  %171 = call fastcc i32 @fail(ptr %0, i64 %.087)
  br label %together.exit
172:
  %173 = call fastcc i32 @await(ptr %0, ptr %10)
  %.not94 = icmp eq i32 %173, 0
  br i1 %.not94, label %174, label %together.exit
174:
  %.not95 = icmp eq ptr %.0, %2
  br i1 %.not95, label %together.exit, label %175
175:
  %176 = load i64, ptr %17, align 8
  %177 = mul nsw i64 %176, %7
  br label %178
178:
  %.015.i90 = phi ptr [ %2, %175 ], [ %.1.i92, %189 ]
  %.014.i91 = phi i64 [ 0, %175 ], [ %190, %189 ]
  %179 = icmp slt i64 %.014.i91, %6
  br i1 %179, label %180, label %together.exit
180:
  %.1.i92 = phi ptr [ %188, %182 ], [ %.015.i90, %178 ]
  %.0.i93 = phi i64 [ %187, %182 ], [ 0, %178 ]
  %181 = icmp slt i64 %.0.i93, %16
  br i1 %181, label %182, label %189
182:
  %183 = mul nsw i64 %.0.i93, %6
  %184 = add nsw i64 %183, %.014.i91
  %185 = mul i64 %184, %177
  %186 = getelementptr inbounds i8, ptr %.0, i64 %185
  call void @llvm.memcpy.p0.p0.i64(ptr align 1 %.1.i92, ptr align 1 %186, i64 %177, i1 false)
  %187 = add nuw nsw i64 %.0.i93, 1
  %188 = getelementptr inbounds i8, ptr %.1.i92, i64 %177
  br label %180
189:
  %190 = add nuw nsw i64 %.014.i91, 1
  br label %178
together.exit:
  %.085 = phi i32 [ 0, %26 ], [ %.037.i, %permute.exit ], [ %171, %170 ], [ 1, %172 ], [ 0, %174 ], [ 0, %178 ]
  ret i32 %.085
}
define void @collective_packed(ptr %0, i64 %1) nounwind {
  %3 = getelementptr inbounds i64, ptr %0, i64 3
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
  %22 = getelementptr inbounds i64, ptr %0, i64 2
  %23 = load i64, ptr %22, align 8
  %24 = inttoptr i64 %23 to ptr
  %25 = getelementptr inbounds i64, ptr %0, i64 4
  %26 = load i64, ptr %25, align 8
  %27 = getelementptr inbounds i64, ptr %0, i64 5
  %28 = load i64, ptr %27, align 8
  %29 = getelementptr inbounds i64, ptr %0, i64 6
  %30 = load i64, ptr %29, align 8
  %31 = getelementptr inbounds i64, ptr %0, i64 7
  %32 = load i64, ptr %31, align 8
  %33 = call fastcc i32 @run(ptr %8, ptr %18, ptr %21, ptr %24, i64 %26, i64 %28, i64 %30, i64 %32)
  %34 = sext i32 %33 to i64
  %35 = getelementptr inbounds i64, ptr %0, i64 8
  store i64 %34, ptr %35, align 8
  ret void
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
define void @collective_max_float32(ptr %0, ptr %1, ptr %2, ptr %3) nounwind {
  br label %5
5:
  %.0 = phi i32 [ 0, %4 ], [ %23, %22 ]
  %6 = load i32, ptr %2, align 4
  %7 = icmp slt i32 %.0, %6
  br i1 %7, label %8, label %24
8:
  %9 = zext i32 %.0 to i64
  %10 = getelementptr inbounds float, ptr %0, i64 %9
  %11 = load float, ptr %10, align 4
  %12 = fcmp uno float %11, 0.000000e+00
  br i1 %12, label %._crit_edge, label %13
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds float, ptr %1, i64 %9
  %.pre = load float, ptr %.phi.trans.insert, align 4
  br label %17
13:
  %14 = getelementptr inbounds float, ptr %1, i64 %9
  %15 = load float, ptr %14, align 4
  %16 = fcmp ogt float %11, %15
  br i1 %16, label %17, label %22
17:
  %18 = phi float [ %.pre, %._crit_edge ], [ %15, %13 ]
  %19 = getelementptr inbounds float, ptr %1, i64 %9
  %20 = fcmp uno float %18, 0.000000e+00
  %21 = select i1 %20, float %18, float %11
  store float %21, ptr %19, align 4
  br label %22
22:
  %23 = add nuw nsw i32 %.0, 1
  br label %5
24:
  ret void
}
define void @collective_min_float32(ptr %0, ptr %1, ptr %2, ptr %3) nounwind {
  br label %5
5:
  %.0 = phi i32 [ 0, %4 ], [ %23, %22 ]
  %6 = load i32, ptr %2, align 4
  %7 = icmp slt i32 %.0, %6
  br i1 %7, label %8, label %24
8:
  %9 = zext i32 %.0 to i64
  %10 = getelementptr inbounds float, ptr %0, i64 %9
  %11 = load float, ptr %10, align 4
  %12 = fcmp uno float %11, 0.000000e+00
  br i1 %12, label %._crit_edge, label %13
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds float, ptr %1, i64 %9
  %.pre = load float, ptr %.phi.trans.insert, align 4
  br label %17
13:
  %14 = getelementptr inbounds float, ptr %1, i64 %9
  %15 = load float, ptr %14, align 4
  %16 = fcmp olt float %11, %15
  br i1 %16, label %17, label %22
17:
  %18 = phi float [ %.pre, %._crit_edge ], [ %15, %13 ]
  %19 = getelementptr inbounds float, ptr %1, i64 %9
  %20 = fcmp uno float %18, 0.000000e+00
  %21 = select i1 %20, float %18, float %11
  store float %21, ptr %19, align 4
  br label %22
22:
  %23 = add nuw nsw i32 %.0, 1
  br label %5
24:
  ret void
}
define void @collective_max_float64(ptr %0, ptr %1, ptr %2, ptr %3) nounwind {
  br label %5
5:
  %.0 = phi i32 [ 0, %4 ], [ %23, %22 ]
  %6 = load i32, ptr %2, align 4
  %7 = icmp slt i32 %.0, %6
  br i1 %7, label %8, label %24
8:
  %9 = zext i32 %.0 to i64
  %10 = getelementptr inbounds double, ptr %0, i64 %9
  %11 = load double, ptr %10, align 8
  %12 = fcmp uno double %11, 0.000000e+00
  br i1 %12, label %._crit_edge, label %13
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds double, ptr %1, i64 %9
  %.pre = load double, ptr %.phi.trans.insert, align 8
  br label %17
13:
  %14 = getelementptr inbounds double, ptr %1, i64 %9
  %15 = load double, ptr %14, align 8
  %16 = fcmp ogt double %11, %15
  br i1 %16, label %17, label %22
17:
  %18 = phi double [ %.pre, %._crit_edge ], [ %15, %13 ]
  %19 = getelementptr inbounds double, ptr %1, i64 %9
  %20 = fcmp uno double %18, 0.000000e+00
  %21 = select i1 %20, double %18, double %11
  store double %21, ptr %19, align 8
  br label %22
22:
  %23 = add nuw nsw i32 %.0, 1
  br label %5
24:
  ret void
}
define void @collective_min_float64(ptr %0, ptr %1, ptr %2, ptr %3) nounwind {
  br label %5
5:
  %.0 = phi i32 [ 0, %4 ], [ %23, %22 ]
  %6 = load i32, ptr %2, align 4
  %7 = icmp slt i32 %.0, %6
  br i1 %7, label %8, label %24
8:
  %9 = zext i32 %.0 to i64
  %10 = getelementptr inbounds double, ptr %0, i64 %9
  %11 = load double, ptr %10, align 8
  %12 = fcmp uno double %11, 0.000000e+00
  br i1 %12, label %._crit_edge, label %13
._crit_edge:
  %.phi.trans.insert = getelementptr inbounds double, ptr %1, i64 %9
  %.pre = load double, ptr %.phi.trans.insert, align 8
  br label %17
13:
  %14 = getelementptr inbounds double, ptr %1, i64 %9
  %15 = load double, ptr %14, align 8
  %16 = fcmp olt double %11, %15
  br i1 %16, label %17, label %22
17:
  %18 = phi double [ %.pre, %._crit_edge ], [ %15, %13 ]
  %19 = getelementptr inbounds double, ptr %1, i64 %9
  %20 = fcmp uno double %18, 0.000000e+00
  %21 = select i1 %20, double %18, double %11
  store double %21, ptr %19, align 8
  br label %22
22:
  %23 = add nuw nsw i32 %.0, 1
  br label %5
24:
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
define internal fastcc i32 @await(ptr %0, ptr %1) nounwind {
  %3 = alloca [16 x i64], align 16
  %4 = alloca i32, align 4
  br label %5
5:
  %.024 = phi i64 [ 0, %2 ], [ %.226, %45 ]
  %.021 = phi i64 [ 0, %2 ], [ %.3, %45 ]
  %.020 = phi i32 [ 1, %2 ], [ %46, %45 ]
  %.019 = phi i64 [ 0, %2 ], [ %.2, %45 ]
  store i32 0, ptr %4, align 4
  %6 = load ptr, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 7), align 8
  %7 = getelementptr inbounds [16 x i64], ptr %3, i64 0, i64 0
  %8 = call i32 %6(ptr %1, ptr %4, ptr %7)
  %.not = icmp eq i32 %8, 0
  br i1 %.not, label %12, label %9
9:
  %10 = sext i32 %8 to i64
  %11 = call fastcc i32 @fail(ptr %0, i64 %10)
  br label %47
12:
  %13 = load i32, ptr %4, align 4
  %.not27 = icmp eq i32 %13, 0
  br i1 %.not27, label %24, label %14
14:
  %.not31 = icmp eq i64 %.019, 0
  br i1 %.not31, label %47, label %15
15:
  %16 = call fastcc i64 @nanoseconds()
  %17 = sub nsw i64 %16, %.019
  %18 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %19 = add nsw i64 %18, %17
  store i64 %19, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 15), align 8
  %20 = call fastcc i64 @processor_nanoseconds()
  %21 = sub nsw i64 %20, %.024
  %22 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  %23 = add nsw i64 %22, %21
  store i64 %23, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 16), align 8
  br label %47
24:
  %25 = and i32 %.020, 31
  %.not28 = icmp eq i32 %25, 0
  br i1 %.not28, label %26, label %45
26:
  %27 = call fastcc i64 @nanoseconds()
  %.not29 = icmp eq i64 %.019, 0
  br i1 %.not29, label %28, label %30
28:
  %29 = call fastcc i64 @processor_nanoseconds()
  br label %30
30:
  %.125 = phi i64 [ %.024, %26 ], [ %29, %28 ]
  %.122 = phi i64 [ %.021, %26 ], [ %27, %28 ]
  %.1 = phi i64 [ %.019, %26 ], [ %27, %28 ]
  %31 = sub nsw i64 %27, %.1
  %32 = icmp sgt i64 %31, 50000
  br i1 %32, label %33, label %35
33:
  %34 = call i32 @sched_yield()
  br label %35
35:
  %36 = sub nsw i64 %27, %.122
  %37 = icmp sgt i64 %36, 20000000
  br i1 %37, label %38, label %40
38:
  %39 = call fastcc i32 @signalled()
  %.not30 = icmp eq i32 %39, 0
  br i1 %.not30, label %40, label %47
40:
  %.223 = phi i64 [ %.122, %35 ], [ %27, %38 ]
  %41 = load i64, ptr getelementptr inbounds (%struct.anon, ptr @mpi, i64 0, i32 11), align 8
  %42 = icmp sgt i64 %31, %41
  br i1 %42, label %43, label %45
43:
  %44 = call fastcc i32 @fail(ptr %0, i64 -1)
  br label %47
45:
  %.226 = phi i64 [ %.024, %24 ], [ %.125, %40 ]
  %.3 = phi i64 [ %.021, %24 ], [ %.223, %40 ]
  %.2 = phi i64 [ %.019, %24 ], [ %.1, %40 ]
  %46 = add nuw nsw i32 %.020, 1
  br label %5
47:
  %.0 = phi i32 [ %11, %9 ], [ %44, %43 ], [ 0, %15 ], [ 0, %14 ], [ 1, %38 ]
  ret i32 %.0
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @PyGILState_Ensure()
declare void @PyErr_SetObject(ptr, ptr)
declare void @PyGILState_Release(i32)
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
declare void @llvm.trap()
declare void @llvm.lifetime.start.p0(i64, ptr)
declare void @llvm.lifetime.end.p0(i64, ptr)
