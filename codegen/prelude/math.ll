; Mathematical functions of the LLVM backend. Made from math_llvm.c by `make math-ll`; sections: emit_sections.h.
; sha256 of math_llvm.c, math_f64.cuh, math_f32.cuh, convert.cuh: 5601fcbd5e207b5ecb069ff6afdf5012e0cd51623327989144b06be5a00e56ff
;! two_over_pi_words
@two_over_pi_words = internal unnamed_addr constant [20 x i64] [i64 0, i64 -6703182060581546711, i64 -277156292786332224, i64 -2638381946312093631, i64 -121206125134887583, i64 -5249950069107600672, i64 452944820249399836, i64 -135693905287338178, i64 -1692731182770600828, i64 -1613291254968254911, i64 4148332274289687028, i64 -7168499653074671557, i64 2303758334597371919, i64 -1211730484530615009, i64 7869616827067468215, i64 5712322887342352941, i64 8441921394348257659, i64 4397547296490951402, i64 7780917995555872008, i64 6197850593633725355], align 8
;! f64_nan
define internal double @f64_nan() alwaysinline nounwind {
  ret double 0x7FFFFFFFFFFFFFFF
}
;! f64_infinity
define internal double @f64_infinity() alwaysinline nounwind {
  ret double 0x7FF0000000000000
}
;! scale_f64
define internal double @scale_f64(double %0, i32 %1) alwaysinline nounwind {
  %3 = sdiv i32 %1, 2
  %4 = add nsw i32 %3, 1023
  %5 = zext i32 %4 to i64
  %6 = shl i64 %5, 52
  %7 = bitcast i64 %6 to double
  %8 = fmul double %7, %0
  %9 = add i32 %1, 1023
  %10 = sub i32 %9, %3
  %11 = zext i32 %10 to i64
  %12 = shl i64 %11, 52
  %13 = bitcast i64 %12 to double
  %14 = fmul double %8, %13
  ret double %14
}
;! expm1_reduced_f64
define internal double @expm1_reduced_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @llvm.fma.f64(double %0, double 0x3DE6124613A86D09, double 0x3E21EED8EFF8D898)
  %3 = tail call double @llvm.fma.f64(double %2, double %0, double 0x3E5AE64567F544E4)
  %4 = tail call double @llvm.fma.f64(double %3, double %0, double 0x3E927E4FB7789F5C)
  %5 = tail call double @llvm.fma.f64(double %4, double %0, double 0x3EC71DE3A556C734)
  %6 = tail call double @llvm.fma.f64(double %5, double %0, double 0x3EFA01A01A01A01A)
  %7 = tail call double @llvm.fma.f64(double %6, double %0, double 0x3F2A01A01A01A01A)
  %8 = tail call double @llvm.fma.f64(double %7, double %0, double 0x3F56C16C16C16C17)
  %9 = tail call double @llvm.fma.f64(double %8, double %0, double 0x3F81111111111111)
  %10 = tail call double @llvm.fma.f64(double %9, double %0, double 0x3FA5555555555555)
  %11 = tail call double @llvm.fma.f64(double %10, double %0, double 0x3FC5555555555555)
  %12 = tail call double @llvm.fma.f64(double %11, double %0, double 5.000000e-01)
  %13 = fmul double %0, %0
  %14 = tail call double @llvm.fma.f64(double %12, double %13, double %0)
  ret double %14
}
;! exp_f64
define internal double @exp_f64(double %0) alwaysinline nounwind {
  %2 = fcmp olt double %0, -7.460000e+02
  %3 = fcmp ogt double %0, 7.100000e+02
  %4 = select i1 %3, double 7.100000e+02, double %0
  %5 = select i1 %2, double -7.460000e+02, double %4
  %6 = fmul double %5, 0x3FF71547652B82FE
  %7 = tail call double @llvm.rint.f64(double %6)
  %8 = tail call double @llvm.fma.f64(double %7, double 0xBFE62E42FEFA39EF, double %5)
  %9 = tail call double @llvm.fma.f64(double %7, double 0xBC7ABC9E3B39803F, double %8)
  %10 = tail call double @expm1_reduced_f64(double %9)
  %11 = fadd double %10, 1.000000e+00
  %12 = fcmp ord double %7, 0.000000e+00
  %13 = fptosi double %7 to i32
  %14 = select i1 %12, i32 %13, i32 0
  %15 = tail call double @scale_f64(double %11, i32 %14)
  ret double %15
}
;! exp2_f64
define internal double @exp2_f64(double %0) alwaysinline nounwind {
  %2 = fcmp olt double %0, -1.080000e+03
  %3 = fcmp ogt double %0, 1.025000e+03
  %4 = select i1 %3, double 1.025000e+03, double %0
  %5 = select i1 %2, double -1.080000e+03, double %4
  %6 = tail call double @llvm.rint.f64(double %5)
  %7 = fsub double %5, %6
  %8 = fmul double %7, 0x3FE62E42FEFA39EF
  %9 = tail call double @expm1_reduced_f64(double %8)
  %10 = fadd double %9, 1.000000e+00
  %11 = fcmp ord double %6, 0.000000e+00
  %12 = fptosi double %6 to i32
  %13 = select i1 %11, i32 %12, i32 0
  %14 = tail call double @scale_f64(double %10, i32 %13)
  ret double %14
}
;! expm1_f64
define internal double @expm1_f64(double %0) alwaysinline nounwind {
  %2 = fcmp olt double %0, -5.000000e+01
  %3 = fcmp ogt double %0, 7.100000e+02
  %4 = select i1 %3, double 7.100000e+02, double %0
  %5 = select i1 %2, double -5.000000e+01, double %4
  %6 = fmul double %5, 0x3FF71547652B82FE
  %7 = tail call double @llvm.rint.f64(double %6)
  %8 = tail call double @llvm.fma.f64(double %7, double 0xBFE62E42FEFA39EF, double %5)
  %9 = tail call double @llvm.fma.f64(double %7, double 0xBC7ABC9E3B39803F, double %8)
  %10 = fcmp ord double %7, 0.000000e+00
  %11 = fptosi double %7 to i32
  %12 = add nsw i32 %11, 1022
  %13 = zext i32 %12 to i64
  %14 = shl i64 %13, 52
  %15 = bitcast i64 %14 to double
  %16 = select i1 %10, double %15, double 5.000000e-01
  %17 = tail call double @expm1_reduced_f64(double %9)
  %18 = fadd double %16, -5.000000e-01
  %19 = tail call double @llvm.fma.f64(double %16, double %17, double %18)
  %20 = fmul double %19, 2.000000e+00
  ret double %20
}
;! sigmoid_f64
define internal double @sigmoid_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @llvm.fabs.f64(double %0)
  %3 = fneg double %2
  %4 = tail call double @exp_f64(double %3)
  %5 = fcmp olt double %0, 0.000000e+00
  %6 = select i1 %5, double %4, double 1.000000e+00
  %7 = fadd double %4, 1.000000e+00
  %8 = fdiv double %6, %7
  ret double %8
}
;! tanh_f64
define internal double @tanh_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @llvm.fabs.f64(double %0)
  %3 = fcmp ogt double %2, 2.000000e+01
  %4 = select i1 %3, double 2.000000e+01, double %2
  %5 = fmul double %4, 2.000000e+00
  %6 = tail call double @expm1_f64(double %5)
  %7 = fadd double %6, 2.000000e+00
  %8 = fdiv double %6, %7
  %9 = tail call double @llvm.copysign.f64(double %8, double %0)
  ret double %9
}
;! log1p_series_f64
define internal double @log1p_series_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @llvm.fma.f64(double %0, double 8.000000e-02, double 0x3FB642C8590B2164)
  %3 = tail call double @llvm.fma.f64(double %2, double %0, double 0x3FB8618618618618)
  %4 = tail call double @llvm.fma.f64(double %3, double %0, double 0x3FBAF286BCA1AF28)
  %5 = tail call double @llvm.fma.f64(double %4, double %0, double 0x3FBE1E1E1E1E1E1E)
  %6 = tail call double @llvm.fma.f64(double %5, double %0, double 0x3FC1111111111111)
  %7 = tail call double @llvm.fma.f64(double %6, double %0, double 0x3FC3B13B13B13B14)
  %8 = tail call double @llvm.fma.f64(double %7, double %0, double 0x3FC745D1745D1746)
  %9 = tail call double @llvm.fma.f64(double %8, double %0, double 0x3FCC71C71C71C71C)
  %10 = tail call double @llvm.fma.f64(double %9, double %0, double 0x3FD2492492492492)
  %11 = tail call double @llvm.fma.f64(double %10, double %0, double 4.000000e-01)
  %12 = tail call double @llvm.fma.f64(double %11, double %0, double 0x3FE5555555555555)
  %13 = fmul double %12, %0
  ret double %13
}
;! log1p_reduced_f64
define internal double @log1p_reduced_f64(double %0) alwaysinline nounwind {
  %2 = fadd double %0, 2.000000e+00
  %3 = fdiv double %0, %2
  %4 = fmul double %3, %3
  %5 = tail call double @log1p_series_f64(double %4)
  %6 = fsub double %5, %0
  %7 = tail call double @llvm.fma.f64(double %3, double %6, double %0)
  ret double %7
}
;! log_special_f64
define internal double @log_special_f64(double %0, double %1) alwaysinline nounwind {
  %3 = fcmp oeq double %0, 0.000000e+00
  br i1 %3, label %4, label %7

4:
  %5 = tail call double @f64_infinity()
  %6 = fneg double %5
  br label %11

7:
  %8 = fcmp olt double %0, 0.000000e+00
  br i1 %8, label %9, label %11

9:
  %10 = tail call double @f64_nan()
  br label %11

11:
  %12 = phi double [ %6, %4 ], [ %10, %9 ], [ %0, %7 ]
  %13 = fcmp ogt double %0, 0.000000e+00
  br i1 %13, label %14, label %17

14:
  %15 = tail call double @f64_infinity()
  %16 = fcmp ogt double %15, %0
  br i1 %16, label %18, label %17

17:
  br label %18

18:
  %19 = phi double [ %12, %17 ], [ %1, %14 ]
  ret double %19
}
;! log_f64
define internal double @log_f64(double %0) alwaysinline nounwind {
  %2 = fcmp olt double %0, 0x10000000000000
  %3 = fmul double %0, 0x4350000000000000
  %4 = select i1 %2, double %3, double %0
  %5 = bitcast double %4 to i64
  %6 = add i64 %5, -4604180019048437077
  %7 = and i64 %6, -4503599627370496
  %8 = sub i64 %5, %7
  %9 = bitcast i64 %8 to double
  %10 = fadd double %9, -1.000000e+00
  %11 = lshr exact i64 %7, 32
  %12 = trunc i64 %11 to i32
  %13 = ashr exact i32 %12, 20
  %14 = sitofp i32 %13 to double
  %15 = select i1 %2, double 5.400000e+01, double 0.000000e+00
  %16 = fsub double %14, %15
  %17 = tail call double @log1p_reduced_f64(double %10)
  %18 = tail call double @llvm.fma.f64(double %16, double 0x3C7ABC9E3B39803F, double %17)
  %19 = tail call double @llvm.fma.f64(double %16, double 0x3FE62E42FEFA39EF, double %18)
  %20 = tail call double @log_special_f64(double %0, double %19)
  ret double %20
}
;! log2_f64
define internal double @log2_f64(double %0) alwaysinline nounwind {
  %2 = fcmp olt double %0, 0x10000000000000
  %3 = fmul double %0, 0x4350000000000000
  %4 = select i1 %2, double %3, double %0
  %5 = bitcast double %4 to i64
  %6 = add i64 %5, -4604180019048437077
  %7 = and i64 %6, -4503599627370496
  %8 = sub i64 %5, %7
  %9 = bitcast i64 %8 to double
  %10 = fadd double %9, -1.000000e+00
  %11 = lshr exact i64 %7, 32
  %12 = trunc i64 %11 to i32
  %13 = ashr exact i32 %12, 20
  %14 = sitofp i32 %13 to double
  %15 = select i1 %2, double 5.400000e+01, double 0.000000e+00
  %16 = fsub double %14, %15
  %17 = tail call double @log1p_reduced_f64(double %10)
  %18 = tail call double @llvm.fma.f64(double %17, double 0x3C7777D0FFDA0D24, double %16)
  %19 = tail call double @llvm.fma.f64(double %17, double 0x3FF71547652B82FE, double %18)
  %20 = tail call double @log_special_f64(double %0, double %19)
  ret double %20
}
;! log1p_f64
define internal double @log1p_f64(double %0) alwaysinline nounwind {
  %2 = fadd double %0, 1.000000e+00
  %3 = tail call double @llvm.fabs.f64(double %0)
  %4 = fcmp olt double %3, 1.000000e+00
  %5 = fadd double %2, -1.000000e+00
  %6 = fsub double %0, %5
  %7 = fsub double %0, %2
  %8 = fadd double %7, 1.000000e+00
  %9 = select i1 %4, double %6, double %8
  %10 = fcmp olt double %2, 0x10000000000000
  %11 = fmul double %2, 0x4350000000000000
  %12 = select i1 %10, double %11, double %2
  %13 = bitcast double %12 to i64
  %14 = add i64 %13, -4604180019048437077
  %15 = and i64 %14, -4503599627370496
  %16 = sub i64 %13, %15
  %17 = bitcast i64 %16 to double
  %18 = fadd double %17, -1.000000e+00
  %19 = lshr exact i64 %15, 32
  %20 = trunc i64 %19 to i32
  %21 = ashr exact i32 %20, 20
  %22 = sitofp i32 %21 to double
  %23 = select i1 %10, double 5.400000e+01, double 0.000000e+00
  %24 = fsub double %22, %23
  %25 = tail call double @llvm.fabs.f64(double %24)
  %26 = fcmp olt double %25, 6.400000e+01
  %27 = fptosi double %24 to i32
  %28 = sub nsw i32 1023, %27
  %29 = zext i32 %28 to i64
  %30 = shl i64 %29, 52
  %31 = bitcast i64 %30 to double
  %32 = tail call double @llvm.fma.f64(double %9, double %31, double %18)
  %33 = select i1 %26, double %32, double %18
  %34 = tail call double @log1p_reduced_f64(double %33)
  %35 = tail call double @llvm.fma.f64(double %24, double 0x3C7ABC9E3B39803F, double %34)
  %36 = tail call double @llvm.fma.f64(double %24, double 0x3FE62E42FEFA39EF, double %35)
  %37 = tail call double @log_special_f64(double %2, double %36)
  %38 = fcmp oeq double %0, 0.000000e+00
  %39 = select i1 %38, double %0, double %37
  ret double %39
}
;! log1pexp_f64
define internal double @log1pexp_f64(double %0) alwaysinline nounwind {
  %2 = fcmp ogt double %0, 0.000000e+00
  %3 = select i1 %2, double %0, double 0.000000e+00
  %4 = tail call double @llvm.fabs.f64(double %0)
  %5 = fneg double %4
  %6 = tail call double @exp_f64(double %5)
  %7 = tail call double @log1p_f64(double %6)
  %8 = fadd double %3, %7
  ret double %8
}
;! pow_f64
define internal double @pow_f64(double %0, double %1) alwaysinline nounwind {
  %3 = tail call double @llvm.fabs.f64(double %0)
  %4 = fcmp olt double %3, 0x10000000000000
  %5 = fmul double %3, 0x4350000000000000
  %6 = select i1 %4, double %5, double %3
  %7 = bitcast double %6 to i64
  %8 = add i64 %7, -4604180019048437077
  %9 = and i64 %8, -4503599627370496
  %10 = sub i64 %7, %9
  %11 = bitcast i64 %10 to double
  %12 = fadd double %11, -1.000000e+00
  %13 = lshr exact i64 %9, 32
  %14 = trunc i64 %13 to i32
  %15 = ashr exact i32 %14, 20
  %16 = sitofp i32 %15 to double
  %17 = select i1 %4, double 5.400000e+01, double 0.000000e+00
  %18 = fsub double %16, %17
  %19 = fadd double %12, 2.000000e+00
  %20 = fdiv double %12, %19
  %21 = fmul double %20, %20
  %22 = fmul double %18, 0x3FE62E42FEFA39EF
  %23 = tail call double @llvm.fma.f64(double %20, double 2.000000e+00, double %22)
  %24 = tail call double @log1p_series_f64(double %21)
  %25 = fmul double %20, %24
  %26 = fadd double %23, %25
  %27 = fmul double %26, %1
  %28 = tail call double @llvm.fabs.f64(double %27)
  %29 = fcmp olt double %28, 8.192000e+03
  br i1 %29, label %30, label %50

30:
  %31 = fsub double %22, %23
  %32 = tail call double @llvm.fma.f64(double %20, double 2.000000e+00, double %31)
  %33 = fneg double %22
  %34 = tail call double @llvm.fma.f64(double %18, double 0x3FE62E42FEFA39EF, double %33)
  %35 = fadd double %34, %32
  %36 = fneg double %20
  %37 = tail call double @llvm.fma.f64(double %20, double -2.000000e+00, double %12)
  %38 = tail call double @llvm.fma.f64(double %36, double %12, double %37)
  %39 = fdiv double %38, %19
  %40 = fmul double %39, 2.000000e+00
  %41 = tail call double @llvm.fma.f64(double %40, double %21, double %40)
  %42 = tail call double @llvm.fma.f64(double %18, double 0x3C7ABC9E3B39803F, double %41)
  %43 = fadd double %35, %42
  %44 = fsub double %23, %26
  %45 = fadd double %25, %44
  %46 = fadd double %43, %45
  %47 = fneg double %27
  %48 = tail call double @llvm.fma.f64(double %26, double %1, double %47)
  %49 = tail call double @llvm.fma.f64(double %46, double %1, double %48)
  br label %50

50:
  %51 = phi double [ %49, %30 ], [ 0.000000e+00, %2 ]
  %52 = fadd double %27, %51
  %53 = fsub double %52, %27
  %54 = fsub double %51, %53
  %55 = select i1 %29, double %54, double 0.000000e+00
  %56 = tail call double @exp_f64(double %52)
  %57 = tail call double @f64_infinity()
  %58 = fcmp olt double %56, %57
  %59 = tail call double @llvm.fma.f64(double %56, double %55, double %56)
  %60 = select i1 %58, double %59, double %56
  %61 = fcmp oeq double %0, 0.000000e+00
  %62 = fcmp oeq double %3, %57
  %63 = select i1 %61, i1 true, i1 %62
  %64 = fcmp uge double %1, 0.000000e+00
  %65 = xor i1 %61, %64
  %66 = select i1 %65, double %57, double 0.000000e+00
  %67 = select i1 %63, double %66, double %60
  %68 = tail call double @llvm.fabs.f64(double %1)
  %69 = fcmp oeq double %68, %57
  br i1 %69, label %70, label %77

70:
  %71 = fcmp oeq double %3, 1.000000e+00
  br i1 %71, label %77, label %72

72:
  %73 = fcmp ule double %3, 1.000000e+00
  %74 = fcmp ogt double %1, 0.000000e+00
  %75 = xor i1 %73, %74
  %76 = select i1 %75, double %57, double 0.000000e+00
  br label %77

77:
  %78 = phi double [ %67, %50 ], [ 1.000000e+00, %70 ], [ %76, %72 ]
  %79 = tail call double @llvm.trunc.f64(double %1)
  %80 = fcmp oeq double %79, %1
  %81 = fcmp olt double %68, 0x4340000000000000
  %82 = fmul double %1, 5.000000e-01
  %83 = tail call double @llvm.trunc.f64(double %82)
  %84 = fcmp une double %83, %82
  %85 = bitcast double %0 to i64
  %86 = icmp slt i64 %85, 0
  %87 = select i1 %86, i1 %80, i1 false
  %88 = select i1 %87, i1 %81, i1 false
  %89 = select i1 %88, i1 %84, i1 false
  %90 = fneg double %78
  %91 = select i1 %89, double %90, double %78
  %92 = fcmp uge double %0, 0.000000e+00
  %93 = select i1 %92, i1 true, i1 %80
  %94 = xor i1 %93, true
  %95 = fcmp olt double %3, %57
  %96 = select i1 %94, i1 %95, i1 false
  br i1 %96, label %97, label %99

97:
  %98 = tail call double @f64_nan()
  br label %99

99:
  %100 = phi double [ %91, %77 ], [ %98, %97 ]
  %101 = fcmp uno double %0, %1
  %102 = fadd double %0, %1
  %103 = select i1 %101, double %102, double %100
  %104 = fcmp oeq double %1, 0.000000e+00
  %105 = fcmp oeq double %0, 1.000000e+00
  %106 = or i1 %105, %104
  %107 = select i1 %106, double 1.000000e+00, double %103
  ret double %107
}
;! two_over_pi
define internal i64 @two_over_pi(i32 %0) alwaysinline nounwind {
  %2 = icmp ult i32 %0, 20
  br i1 %2, label %3, label %7

3:
  %4 = zext i32 %0 to i64
  %5 = getelementptr inbounds [20 x i64], ptr @two_over_pi_words, i64 0, i64 %4
  %6 = load i64, ptr %5, align 8
  br label %7

7:
  %8 = phi i64 [ %6, %3 ], [ 0, %1 ]
  ret i64 %8
}
;! sin_reduced_f64
define internal double @sin_reduced_f64(double %0) alwaysinline nounwind {
  %2 = fmul double %0, %0
  %3 = tail call double @llvm.fma.f64(double %2, double 0x3CE952C77030AD4A, double 0xBD6AE7F3E733B81F)
  %4 = tail call double @llvm.fma.f64(double %3, double %2, double 0x3DE6124613A86D09)
  %5 = tail call double @llvm.fma.f64(double %4, double %2, double 0xBE5AE64567F544E4)
  %6 = tail call double @llvm.fma.f64(double %5, double %2, double 0x3EC71DE3A556C734)
  %7 = tail call double @llvm.fma.f64(double %6, double %2, double 0xBF2A01A01A01A01A)
  %8 = tail call double @llvm.fma.f64(double %7, double %2, double 0x3F81111111111111)
  %9 = tail call double @llvm.fma.f64(double %8, double %2, double 0xBFC5555555555555)
  %10 = fmul double %2, %9
  %11 = tail call double @llvm.fma.f64(double %10, double %0, double %0)
  ret double %11
}
;! cos_reduced_f64
define internal double @cos_reduced_f64(double %0) alwaysinline nounwind {
  %2 = fmul double %0, %0
  %3 = tail call double @llvm.fma.f64(double %2, double 0x3D2AE7F3E733B81F, double 0xBDA93974A8C07C9D)
  %4 = tail call double @llvm.fma.f64(double %3, double %2, double 0x3E21EED8EFF8D898)
  %5 = tail call double @llvm.fma.f64(double %4, double %2, double 0xBE927E4FB7789F5C)
  %6 = tail call double @llvm.fma.f64(double %5, double %2, double 0x3EFA01A01A01A01A)
  %7 = tail call double @llvm.fma.f64(double %6, double %2, double 0xBF56C16C16C16C17)
  %8 = tail call double @llvm.fma.f64(double %7, double %2, double 0x3FA5555555555555)
  %9 = tail call double @llvm.fma.f64(double %8, double %2, double -5.000000e-01)
  %10 = tail call double @llvm.fma.f64(double %9, double %2, double 1.000000e+00)
  ret double %10
}
;! sin_f64
define internal double @sin_f64(double %0) alwaysinline nounwind {
  %2 = fmul double %0, 0x3FE45F306DC9C883
  %3 = tail call double @llvm.rint.f64(double %2)
  %4 = tail call double @llvm.fma.f64(double %3, double 0xBFF921FB54442D18, double %0)
  %5 = tail call double @llvm.fma.f64(double %3, double 0xBC91A62633145C07, double %4)
  %6 = tail call double @llvm.fma.f64(double %3, double 0x391F1976B7ED8FBC, double %5)
  %7 = fcmp ord double %3, 0.000000e+00
  %8 = fptosi double %3 to i32
  %9 = select i1 %7, i32 %8, i32 0
  %10 = tail call double @llvm.fabs.f64(double %0)
  %11 = fcmp ogt double %10, 1.000000e+05
  br i1 %11, label %12, label %76

12:
  %13 = bitcast double %0 to i64
  %14 = lshr i64 %13, 52
  %15 = trunc i64 %14 to i32
  %16 = and i32 %15, 2047
  %17 = add nsw i32 %16, -1013
  %18 = lshr i32 %17, 6
  %19 = and i32 %17, 63
  %20 = tail call i64 @two_over_pi(i32 %18)
  %21 = add nuw nsw i32 %18, 1
  %22 = tail call i64 @two_over_pi(i32 %21)
  %23 = add nuw nsw i32 %18, 2
  %24 = tail call i64 @two_over_pi(i32 %23)
  %25 = icmp eq i32 %19, 0
  br i1 %25, label %41, label %26

26:
  %27 = add nuw nsw i32 %18, 3
  %28 = tail call i64 @two_over_pi(i32 %27)
  %29 = zext i32 %19 to i64
  %30 = shl i64 %20, %29
  %31 = sub nuw nsw i32 64, %19
  %32 = zext i32 %31 to i64
  %33 = lshr i64 %22, %32
  %34 = or i64 %33, %30
  %35 = shl i64 %22, %29
  %36 = lshr i64 %24, %32
  %37 = or i64 %36, %35
  %38 = shl i64 %24, %29
  %39 = lshr i64 %28, %32
  %40 = or i64 %39, %38
  br label %41

41:
  %42 = phi i64 [ %40, %26 ], [ %24, %12 ]
  %43 = phi i64 [ %37, %26 ], [ %22, %12 ]
  %44 = phi i64 [ %34, %26 ], [ %20, %12 ]
  %45 = and i64 %13, 4503599627370495
  %46 = or i64 %45, 4503599627370496
  %47 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %42)
  %48 = mul i64 %43, %46
  %49 = add i64 %48, %47
  %50 = mul i64 %44, %46
  %51 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %43)
  %52 = add i64 %50, %51
  %53 = icmp ult i64 %49, %47
  %54 = zext i1 %53 to i64
  %55 = add i64 %52, %54
  %56 = lshr i64 %55, 62
  %57 = trunc i64 %56 to i32
  %58 = tail call i64 @llvm.fshl.i64(i64 %55, i64 %49, i64 2)
  %59 = lshr i64 %58, 63
  %60 = trunc i64 %59 to i32
  %61 = add nuw nsw i32 %60, %57
  %62 = sitofp i64 %58 to double
  %63 = fmul double %62, 0x3BF921FB54442D18
  %64 = shl i64 %49, 2
  %65 = uitofp i64 %64 to double
  %66 = tail call double @llvm.fma.f64(double %65, double 0x37F921FB54442D18, double %63)
  %67 = icmp sgt i64 %13, -1
  %68 = fneg double %66
  %69 = select i1 %67, double %66, double %68
  %70 = sub nsw i32 0, %61
  %71 = select i1 %67, i32 %61, i32 %70
  %72 = tail call double @f64_infinity()
  %73 = fcmp olt double %10, %72
  %74 = fsub double %0, %0
  %75 = select i1 %73, double %69, double %74
  br label %76

76:
  %77 = phi i32 [ %71, %41 ], [ %9, %1 ]
  %78 = phi double [ %75, %41 ], [ %6, %1 ]
  %79 = and i32 %77, 1
  %80 = icmp eq i32 %79, 0
  br i1 %80, label %83, label %81

81:
  %82 = tail call double @cos_reduced_f64(double %78)
  br label %85

83:
  %84 = tail call double @sin_reduced_f64(double %78)
  br label %85

85:
  %86 = phi double [ %82, %81 ], [ %84, %83 ]
  %87 = and i32 %77, 2
  %88 = icmp eq i32 %87, 0
  %89 = fneg double %86
  %90 = select i1 %88, double %86, double %89
  %91 = fcmp oeq double %0, 0.000000e+00
  %92 = select i1 %91, double %0, double %90
  ret double %92
}
;! cos_f64
define internal double @cos_f64(double %0) alwaysinline nounwind {
  %2 = fmul double %0, 0x3FE45F306DC9C883
  %3 = tail call double @llvm.rint.f64(double %2)
  %4 = tail call double @llvm.fma.f64(double %3, double 0xBFF921FB54442D18, double %0)
  %5 = tail call double @llvm.fma.f64(double %3, double 0xBC91A62633145C07, double %4)
  %6 = tail call double @llvm.fma.f64(double %3, double 0x391F1976B7ED8FBC, double %5)
  %7 = fcmp ord double %3, 0.000000e+00
  %8 = fptosi double %3 to i32
  %9 = select i1 %7, i32 %8, i32 0
  %10 = tail call double @llvm.fabs.f64(double %0)
  %11 = fcmp ogt double %10, 1.000000e+05
  br i1 %11, label %12, label %76

12:
  %13 = bitcast double %0 to i64
  %14 = lshr i64 %13, 52
  %15 = trunc i64 %14 to i32
  %16 = and i32 %15, 2047
  %17 = add nsw i32 %16, -1013
  %18 = lshr i32 %17, 6
  %19 = and i32 %17, 63
  %20 = tail call i64 @two_over_pi(i32 %18)
  %21 = add nuw nsw i32 %18, 1
  %22 = tail call i64 @two_over_pi(i32 %21)
  %23 = add nuw nsw i32 %18, 2
  %24 = tail call i64 @two_over_pi(i32 %23)
  %25 = icmp eq i32 %19, 0
  br i1 %25, label %41, label %26

26:
  %27 = add nuw nsw i32 %18, 3
  %28 = tail call i64 @two_over_pi(i32 %27)
  %29 = zext i32 %19 to i64
  %30 = shl i64 %20, %29
  %31 = sub nuw nsw i32 64, %19
  %32 = zext i32 %31 to i64
  %33 = lshr i64 %22, %32
  %34 = or i64 %33, %30
  %35 = shl i64 %22, %29
  %36 = lshr i64 %24, %32
  %37 = or i64 %36, %35
  %38 = shl i64 %24, %29
  %39 = lshr i64 %28, %32
  %40 = or i64 %39, %38
  br label %41

41:
  %42 = phi i64 [ %40, %26 ], [ %24, %12 ]
  %43 = phi i64 [ %37, %26 ], [ %22, %12 ]
  %44 = phi i64 [ %34, %26 ], [ %20, %12 ]
  %45 = and i64 %13, 4503599627370495
  %46 = or i64 %45, 4503599627370496
  %47 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %42)
  %48 = mul i64 %43, %46
  %49 = add i64 %48, %47
  %50 = mul i64 %44, %46
  %51 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %43)
  %52 = add i64 %50, %51
  %53 = icmp ult i64 %49, %47
  %54 = zext i1 %53 to i64
  %55 = add i64 %52, %54
  %56 = lshr i64 %55, 62
  %57 = trunc i64 %56 to i32
  %58 = tail call i64 @llvm.fshl.i64(i64 %55, i64 %49, i64 2)
  %59 = lshr i64 %58, 63
  %60 = trunc i64 %59 to i32
  %61 = add nuw nsw i32 %60, %57
  %62 = sitofp i64 %58 to double
  %63 = fmul double %62, 0x3BF921FB54442D18
  %64 = shl i64 %49, 2
  %65 = uitofp i64 %64 to double
  %66 = tail call double @llvm.fma.f64(double %65, double 0x37F921FB54442D18, double %63)
  %67 = icmp sgt i64 %13, -1
  %68 = fneg double %66
  %69 = select i1 %67, double %66, double %68
  %70 = sub nsw i32 0, %61
  %71 = select i1 %67, i32 %61, i32 %70
  %72 = tail call double @f64_infinity()
  %73 = fcmp olt double %10, %72
  %74 = fsub double %0, %0
  %75 = select i1 %73, double %69, double %74
  br label %76

76:
  %77 = phi i32 [ %71, %41 ], [ %9, %1 ]
  %78 = phi double [ %75, %41 ], [ %6, %1 ]
  %79 = and i32 %77, 1
  %80 = icmp eq i32 %79, 0
  br i1 %80, label %83, label %81

81:
  %82 = tail call double @sin_reduced_f64(double %78)
  br label %85

83:
  %84 = tail call double @cos_reduced_f64(double %78)
  br label %85

85:
  %86 = phi double [ %82, %81 ], [ %84, %83 ]
  %87 = add i32 %77, 1
  %88 = and i32 %87, 2
  %89 = icmp eq i32 %88, 0
  %90 = fneg double %86
  %91 = select i1 %89, double %86, double %90
  ret double %91
}
;! tan_f64
define internal double @tan_f64(double %0) alwaysinline nounwind {
  %2 = fmul double %0, 0x3FE45F306DC9C883
  %3 = tail call double @llvm.rint.f64(double %2)
  %4 = tail call double @llvm.fma.f64(double %3, double 0xBFF921FB54442D18, double %0)
  %5 = tail call double @llvm.fma.f64(double %3, double 0xBC91A62633145C07, double %4)
  %6 = tail call double @llvm.fma.f64(double %3, double 0x391F1976B7ED8FBC, double %5)
  %7 = fcmp ord double %3, 0.000000e+00
  %8 = fptosi double %3 to i32
  %9 = select i1 %7, i32 %8, i32 0
  %10 = tail call double @llvm.fabs.f64(double %0)
  %11 = fcmp ogt double %10, 1.000000e+05
  br i1 %11, label %12, label %76

12:
  %13 = bitcast double %0 to i64
  %14 = lshr i64 %13, 52
  %15 = trunc i64 %14 to i32
  %16 = and i32 %15, 2047
  %17 = add nsw i32 %16, -1013
  %18 = lshr i32 %17, 6
  %19 = and i32 %17, 63
  %20 = tail call i64 @two_over_pi(i32 %18)
  %21 = add nuw nsw i32 %18, 1
  %22 = tail call i64 @two_over_pi(i32 %21)
  %23 = add nuw nsw i32 %18, 2
  %24 = tail call i64 @two_over_pi(i32 %23)
  %25 = icmp eq i32 %19, 0
  br i1 %25, label %41, label %26

26:
  %27 = add nuw nsw i32 %18, 3
  %28 = tail call i64 @two_over_pi(i32 %27)
  %29 = zext i32 %19 to i64
  %30 = shl i64 %20, %29
  %31 = sub nuw nsw i32 64, %19
  %32 = zext i32 %31 to i64
  %33 = lshr i64 %22, %32
  %34 = or i64 %33, %30
  %35 = shl i64 %22, %29
  %36 = lshr i64 %24, %32
  %37 = or i64 %36, %35
  %38 = shl i64 %24, %29
  %39 = lshr i64 %28, %32
  %40 = or i64 %39, %38
  br label %41

41:
  %42 = phi i64 [ %40, %26 ], [ %24, %12 ]
  %43 = phi i64 [ %37, %26 ], [ %22, %12 ]
  %44 = phi i64 [ %34, %26 ], [ %20, %12 ]
  %45 = and i64 %13, 4503599627370495
  %46 = or i64 %45, 4503599627370496
  %47 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %42)
  %48 = mul i64 %43, %46
  %49 = add i64 %48, %47
  %50 = mul i64 %44, %46
  %51 = tail call i64 @llvm.nvvm.mulhi.ull(i64 %46, i64 %43)
  %52 = add i64 %50, %51
  %53 = icmp ult i64 %49, %47
  %54 = zext i1 %53 to i64
  %55 = add i64 %52, %54
  %56 = lshr i64 %55, 62
  %57 = trunc i64 %56 to i32
  %58 = tail call i64 @llvm.fshl.i64(i64 %55, i64 %49, i64 2)
  %59 = lshr i64 %58, 63
  %60 = trunc i64 %59 to i32
  %61 = add nuw nsw i32 %60, %57
  %62 = sitofp i64 %58 to double
  %63 = fmul double %62, 0x3BF921FB54442D18
  %64 = shl i64 %49, 2
  %65 = uitofp i64 %64 to double
  %66 = tail call double @llvm.fma.f64(double %65, double 0x37F921FB54442D18, double %63)
  %67 = icmp sgt i64 %13, -1
  %68 = fneg double %66
  %69 = select i1 %67, double %66, double %68
  %70 = sub nsw i32 0, %61
  %71 = select i1 %67, i32 %61, i32 %70
  %72 = tail call double @f64_infinity()
  %73 = fcmp olt double %10, %72
  %74 = fsub double %0, %0
  %75 = select i1 %73, double %69, double %74
  br label %76

76:
  %77 = phi i32 [ %71, %41 ], [ %9, %1 ]
  %78 = phi double [ %75, %41 ], [ %6, %1 ]
  %79 = tail call double @sin_reduced_f64(double %78)
  %80 = tail call double @cos_reduced_f64(double %78)
  %81 = and i32 %77, 1
  %82 = icmp eq i32 %81, 0
  br i1 %82, label %86, label %83

83:
  %84 = fneg double %80
  %85 = fdiv double %84, %79
  br label %88

86:
  %87 = fdiv double %79, %80
  br label %88

88:
  %89 = phi double [ %85, %83 ], [ %87, %86 ]
  %90 = fcmp oeq double %0, 0.000000e+00
  %91 = select i1 %90, double %0, double %89
  ret double %91
}
;! erf_f64
define internal double @erf_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @llvm.fabs.f64(double %0)
  %3 = fcmp ogt double %2, 1.000000e+00
  br i1 %3, label %25, label %4

4:
  %5 = fmul double %0, %0
  %6 = tail call double @llvm.fma.f64(double %5, double 0x3C55F7919BC67B8C, double 0xBC9A2007AF3447F6)
  %7 = tail call double @llvm.fma.f64(double %6, double %5, double 0x3CDD70B3537F4765)
  %8 = tail call double @llvm.fma.f64(double %7, double %5, double 0xBD1F56F071A885CF)
  %9 = tail call double @llvm.fma.f64(double %8, double %5, double 0x3D5F683AE4A97007)
  %10 = tail call double @llvm.fma.f64(double %9, double %5, double 0xBD9D8453CB0C46EA)
  %11 = tail call double @llvm.fma.f64(double %10, double %5, double 0x3DD9E6AD5E55A730)
  %12 = tail call double @llvm.fma.f64(double %11, double %5, double 0xBE151D7181C5D36D)
  %13 = tail call double @llvm.fma.f64(double %12, double %5, double 0x3E4FCC5720624C1C)
  %14 = tail call double @llvm.fma.f64(double %13, double %5, double 0xBE85F742EC43E71A)
  %15 = tail call double @llvm.fma.f64(double %14, double %5, double 0x3EBB9E6C9DC651A3)
  %16 = tail call double @llvm.fma.f64(double %15, double %5, double 0xBEEF4D25C3E0C2EB)
  %17 = tail call double @llvm.fma.f64(double %16, double %5, double 0x3F1F9A326F9B89B7)
  %18 = tail call double @llvm.fma.f64(double %17, double %5, double 0xBF4C02DB40040B86)
  %19 = tail call double @llvm.fma.f64(double %18, double %5, double 0x3F7565BCD0E6A53F)
  %20 = tail call double @llvm.fma.f64(double %19, double %5, double 0xBF9B82CE31288B51)
  %21 = tail call double @llvm.fma.f64(double %20, double %5, double 0x3FBCE2F21A042BE2)
  %22 = tail call double @llvm.fma.f64(double %21, double %5, double 0xBFD812746B0379E7)
  %23 = tail call double @llvm.fma.f64(double %22, double %5, double 0x3FF20DD750429B6D)
  %24 = fmul double %23, %0
  br label %53

25:
  %26 = fcmp ogt double %2, 6.500000e+00
  %27 = select i1 %26, double 6.500000e+00, double %2
  %28 = fadd double %27, -3.000000e+00
  %29 = fadd double %27, 3.000000e+00
  %30 = fdiv double %28, %29
  %31 = tail call double @llvm.fma.f64(double %30, double 0xBE8BDA96C1767DD1, double 0xBE926952455A3C48)
  %32 = tail call double @llvm.fma.f64(double %31, double %30, double 0x3EB4E598F6C1CD29)
  %33 = tail call double @llvm.fma.f64(double %32, double %30, double 0x3EC1BCA7A371F9D7)
  %34 = tail call double @llvm.fma.f64(double %33, double %30, double 0xBEE0BAAEDDD0DF16)
  %35 = tail call double @llvm.fma.f64(double %34, double %30, double 0xBEEAF7F68124D993)
  %36 = tail call double @llvm.fma.f64(double %35, double %30, double 0x3F10CAC19FB07A34)
  %37 = tail call double @llvm.fma.f64(double %36, double %30, double 0x3F07BA0D90A6082D)
  %38 = tail call double @llvm.fma.f64(double %37, double %30, double 0xBF439084C23BFFFB)
  %39 = tail call double @llvm.fma.f64(double %38, double %30, double 0x3F473101E9BC3E5A)
  %40 = tail call double @llvm.fma.f64(double %39, double %30, double 0x3F717C838EE42511)
  %41 = tail call double @llvm.fma.f64(double %40, double %30, double 0xBF98FA58EB5E1241)
  %42 = tail call double @llvm.fma.f64(double %41, double %30, double 0x3FB258B13B017C0F)
  %43 = tail call double @llvm.fma.f64(double %42, double %30, double 0xBFC336FFBEF08B19)
  %44 = tail call double @llvm.fma.f64(double %43, double %30, double 0x3FCF6FF204105973)
  %45 = tail call double @llvm.fma.f64(double %44, double %30, double 0xBFD4E102B9CF8513)
  %46 = tail call double @llvm.fma.f64(double %45, double %30, double 0x3FC6E9827D229D2D)
  %47 = fneg double %27
  %48 = fmul double %27, %47
  %49 = tail call double @exp_f64(double %48)
  %50 = fmul double %46, %49
  %51 = fsub double 1.000000e+00, %50
  %52 = tail call double @llvm.copysign.f64(double %51, double %0)
  br label %53

53:
  %54 = phi double [ %52, %25 ], [ %24, %4 ]
  ret double %54
}
;! one_plus_erf_f64
define internal double @one_plus_erf_f64(double %0) alwaysinline nounwind {
  %2 = tail call double @erf_f64(double %0)
  %3 = fadd double %2, 1.000000e+00
  ret double %3
}
;! atan2_f64
define internal double @atan2_f64(double %0, double %1) alwaysinline nounwind {
  %3 = tail call double @llvm.fabs.f64(double %1)
  %4 = tail call double @llvm.fabs.f64(double %0)
  %5 = tail call double @llvm.maxnum.f64(double %3, double %4)
  %6 = tail call double @llvm.minnum.f64(double %3, double %4)
  %7 = fcmp oeq double %5, 0.000000e+00
  br i1 %7, label %13, label %8

8:
  %9 = tail call double @f64_infinity()
  %10 = fcmp oeq double %6, %9
  br i1 %10, label %13, label %11

11:
  %12 = fdiv double %6, %5
  br label %13

13:
  %14 = phi double [ 0.000000e+00, %2 ], [ %12, %11 ], [ 1.000000e+00, %8 ]
  %15 = fcmp olt double %14, 2.500000e-01
  %16 = fcmp olt double %14, 7.500000e-01
  %17 = select i1 %16, double 5.000000e-01, double 1.000000e+00
  %18 = select i1 %15, double 0.000000e+00, double %17
  %19 = select i1 %16, double 0x3FDDAC670561BB4F, double 0x3FE921FB54442D18
  %20 = select i1 %15, double 0.000000e+00, double %19
  %21 = fsub double %14, %18
  %22 = tail call double @llvm.fma.f64(double %18, double %14, double 1.000000e+00)
  %23 = fdiv double %21, %22
  %24 = fmul double %23, %23
  %25 = tail call double @llvm.fma.f64(double %24, double 0xBFA2F684BDA12F68, double 4.000000e-02)
  %26 = tail call double @llvm.fma.f64(double %25, double %24, double 0xBFA642C8590B2164)
  %27 = tail call double @llvm.fma.f64(double %26, double %24, double 0x3FA8618618618618)
  %28 = tail call double @llvm.fma.f64(double %27, double %24, double 0xBFAAF286BCA1AF28)
  %29 = tail call double @llvm.fma.f64(double %28, double %24, double 0x3FAE1E1E1E1E1E1E)
  %30 = tail call double @llvm.fma.f64(double %29, double %24, double 0xBFB1111111111111)
  %31 = tail call double @llvm.fma.f64(double %30, double %24, double 0x3FB3B13B13B13B14)
  %32 = tail call double @llvm.fma.f64(double %31, double %24, double 0xBFB745D1745D1746)
  %33 = tail call double @llvm.fma.f64(double %32, double %24, double 0x3FBC71C71C71C71C)
  %34 = tail call double @llvm.fma.f64(double %33, double %24, double 0xBFC2492492492492)
  %35 = tail call double @llvm.fma.f64(double %34, double %24, double 2.000000e-01)
  %36 = tail call double @llvm.fma.f64(double %35, double %24, double 0xBFD5555555555555)
  %37 = fmul double %24, %36
  %38 = tail call double @llvm.fma.f64(double %37, double %23, double %23)
  %39 = fadd double %20, %38
  %40 = fcmp ogt double %4, %3
  %41 = fsub double 0x3FF921FB54442D18, %39
  %42 = select i1 %40, double %41, double %39
  %43 = fcmp uno double %1, %0
  br i1 %43, label %44, label %46

44:
  %45 = fadd double %0, %1
  br label %52

46:
  %47 = bitcast double %1 to i64
  %48 = icmp slt i64 %47, 0
  %49 = fsub double 0x400921FB54442D18, %42
  %50 = select i1 %48, double %49, double %42
  %51 = tail call double @llvm.copysign.f64(double %50, double %0)
  br label %52

52:
  %53 = phi double [ %45, %44 ], [ %51, %46 ]
  ret double %53
}
;! mod_f64
define internal double @mod_f64(double %0, double %1) alwaysinline nounwind {
  %3 = tail call double @llvm.fabs.f64(double %0)
  %4 = tail call double @llvm.fabs.f64(double %1)
  %5 = tail call double @f64_infinity()
  %6 = fcmp olt double %3, %5
  %7 = fcmp one double %1, 0.000000e+00
  %8 = and i1 %7, %6
  br i1 %8, label %11, label %9

9:
  %10 = tail call double @f64_nan()
  br label %65

11:
  %12 = fcmp oge double %3, %4
  %13 = fcmp olt double %4, %5
  %14 = select i1 %12, i1 %13, i1 false
  br i1 %14, label %15, label %62

15:
  %16 = bitcast double %3 to i64
  %17 = bitcast double %4 to i64
  %18 = lshr i64 %16, 52
  %19 = trunc i64 %18 to i32
  %20 = lshr i64 %17, 52
  %21 = trunc i64 %20 to i32
  %22 = icmp eq i32 %19, 0
  %23 = and i64 %16, 4503599627370495
  %24 = or i64 %23, 4503599627370496
  %25 = select i1 %22, i64 %16, i64 %24
  %26 = icmp eq i32 %21, 0
  %27 = and i64 %17, 4503599627370495
  %28 = or i64 %27, 4503599627370496
  %29 = select i1 %26, i64 %17, i64 %28
  %30 = zext i1 %22 to i32
  %31 = add nuw nsw i32 %30, %19
  %32 = zext i1 %26 to i32
  %33 = add nuw nsw i32 %32, %21
  %34 = icmp ult i64 %29, 4503599627370496
  br i1 %34, label %35, label %41

35:
  %36 = phi i64 [ %39, %35 ], [ %29, %15 ]
  %37 = phi i32 [ %38, %35 ], [ %33, %15 ]
  %38 = add nsw i32 %37, -1
  %39 = shl nuw nsw i64 %36, 1
  %40 = icmp ult i64 %36, 2251799813685248
  br i1 %40, label %35, label %41

41:
  %42 = phi i32 [ %33, %15 ], [ %38, %35 ]
  %43 = phi i64 [ %29, %15 ], [ %39, %35 ]
  %44 = sub i32 %31, %42
  %45 = icmp sgt i32 %44, -1
  br i1 %45, label %51, label %46

46:
  %47 = phi i64 [ %25, %41 ], [ %59, %51 ]
  %48 = uitofp i64 %47 to double
  %49 = add nsw i32 %42, -1075
  %50 = tail call double @scale_f64(double %48, i32 %49)
  br label %62

51:
  %52 = phi i32 [ %60, %51 ], [ %44, %41 ]
  %53 = phi i64 [ %59, %51 ], [ %25, %41 ]
  %54 = icmp ult i64 %53, %43
  %55 = select i1 %54, i64 0, i64 %43
  %56 = sub i64 %53, %55
  %57 = icmp ne i32 %52, 0
  %58 = zext i1 %57 to i64
  %59 = shl i64 %56, %58
  %60 = add nsw i32 %52, -1
  %61 = icmp eq i32 %52, 0
  br i1 %61, label %46, label %51

62:
  %63 = phi double [ %50, %46 ], [ %3, %11 ]
  %64 = tail call double @llvm.copysign.f64(double %63, double %0)
  br label %65

65:
  %66 = phi double [ %64, %62 ], [ %10, %9 ]
  ret double %66
}
;! f32_nan
define internal float @f32_nan() alwaysinline nounwind {
  ret float 0x7FFFFFFFE0000000
}
;! f32_infinity
define internal float @f32_infinity() alwaysinline nounwind {
  ret float 0x7FF0000000000000
}
;! exp_f32
define internal float @exp_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.maxnum.f32(float %0, float -8.700000e+01)
  %3 = tail call float @llvm.minnum.f32(float %2, float 8.800000e+01)
  %4 = tail call float @llvm.fma.f32(float %3, float 0x3FF7154760000000, float 0x4168000FE0000000)
  %5 = fadd float %4, 0xC168000FE0000000
  %6 = fneg float %5
  %7 = tail call float @llvm.fma.f32(float %0, float 0x3FF7154760000000, float %6)
  %8 = tail call float @llvm.fma.f32(float %0, float 0x3E54AE0C00000000, float %7)
  %9 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %8)
  %10 = bitcast float %4 to i32
  %11 = shl i32 %10, 23
  %12 = bitcast i32 %11 to float
  %13 = fmul float %9, %12
  ret float %13
}
;! expm1_f32
define internal float @expm1_f32(float %0) alwaysinline nounwind {
  %2 = fcmp olt float %0, -2.000000e+01
  %3 = select i1 %2, float -2.000000e+01, float %0
  %4 = tail call float @llvm.minnum.f32(float %3, float 8.900000e+01)
  %5 = tail call float @llvm.fma.f32(float %4, float 0x3FF7154760000000, float 0x4168000FC0000000)
  %6 = fadd float %5, 0xC168000FC0000000
  %7 = tail call float @llvm.fma.f32(float %6, float 0xBFE62E4300000000, float %3)
  %8 = tail call float @llvm.fma.f32(float %6, float 0x3E205C6100000000, float %7)
  %9 = tail call float @llvm.fma.f32(float %8, float 0x3F56D98F40000000, float 0x3F81227F00000000)
  %10 = tail call float @llvm.fma.f32(float %9, float %8, float 0x3FA5554860000000)
  %11 = tail call float @llvm.fma.f32(float %10, float %8, float 0x3FC5554B00000000)
  %12 = tail call float @llvm.fma.f32(float %11, float %8, float 5.000000e-01)
  %13 = fmul float %8, %8
  %14 = tail call float @llvm.fma.f32(float %12, float %13, float %8)
  %15 = bitcast float %5 to i32
  %16 = shl i32 %15, 23
  %17 = bitcast i32 %16 to float
  %18 = fadd float %17, -5.000000e-01
  %19 = tail call float @llvm.fma.f32(float %17, float %14, float %18)
  %20 = fmul float %19, 2.000000e+00
  ret float %20
}
;! sigmoid_f32
define internal float @sigmoid_f32(float %0) alwaysinline nounwind {
  %2 = fmul float %0, 0xBFF7154760000000
  %3 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %2)
  %4 = fadd float %3, 1.000000e+00
  %5 = tail call float asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"(float %4)
  ret float %5
}
;! tanh_f32
define internal float @tanh_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fabs.f32(float %0)
  %3 = fmul float %2, 0x4007154760000000
  %4 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %3)
  %5 = fadd float %4, 1.000000e+00
  %6 = tail call float asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"(float %5)
  %7 = tail call float @llvm.fma.f32(float %6, float -2.000000e+00, float 1.000000e+00)
  %8 = fmul float %0, %0
  %9 = tail call float @llvm.fma.f32(float %8, float 0xBF7830BE60000000, float 0x3F954E0140000000)
  %10 = tail call float @llvm.fma.f32(float %9, float %8, float 0xBFAB89ED80000000)
  %11 = tail call float @llvm.fma.f32(float %10, float %8, float 0x3FC1109DC0000000)
  %12 = tail call float @llvm.fma.f32(float %11, float %8, float 0xBFD55553E0000000)
  %13 = fmul float %8, %0
  %14 = tail call float @llvm.fma.f32(float %13, float %12, float %0)
  %15 = tail call float @llvm.copysign.f32(float %7, float %0)
  %16 = fcmp olt float %2, 0x3FE3333340000000
  %17 = select i1 %16, float %14, float %15
  ret float %17
}
;! log1p_reduced_f32
define internal float @log1p_reduced_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fma.f32(float %0, float 0xBFC0E2A380000000, float 0x3FC1DF3740000000)
  %3 = tail call float @llvm.fma.f32(float %2, float %0, float 0xBFBF03C4E0000000)
  %4 = tail call float @llvm.fma.f32(float %3, float %0, float 0x3FC1EF1920000000)
  %5 = tail call float @llvm.fma.f32(float %4, float %0, float 0xBFC55B7E60000000)
  %6 = tail call float @llvm.fma.f32(float %5, float %0, float 0x3FC99CE420000000)
  %7 = tail call float @llvm.fma.f32(float %6, float %0, float 0xBFCFFFE5E0000000)
  %8 = tail call float @llvm.fma.f32(float %7, float %0, float 0x3FD55550C0000000)
  %9 = tail call float @llvm.fma.f32(float %8, float %0, float -5.000000e-01)
  %10 = fmul float %0, %0
  %11 = tail call float @llvm.fma.f32(float %9, float %10, float %0)
  ret float %11
}
;! log_special_f32
define internal float @log_special_f32(float %0, float %1) alwaysinline nounwind {
  %3 = tail call float @f32_infinity()
  %4 = tail call float @f32_nan()
  %5 = fcmp olt float %0, 0.000000e+00
  %6 = select i1 %5, float %4, float %0
  %7 = fcmp oeq float %0, 0.000000e+00
  %8 = fneg float %3
  %9 = select i1 %7, float %8, float %6
  %10 = fcmp ogt float %3, %0
  %11 = select i1 %10, float %1, float %0
  %12 = fcmp ogt float %0, 0.000000e+00
  %13 = select i1 %12, float %11, float %9
  ret float %13
}
;! exponent_f32
define internal float @exponent_f32(i32 %0) alwaysinline nounwind {
  %2 = ashr i32 %0, 23
  %3 = add nsw i32 %2, 1262485504
  %4 = bitcast i32 %3 to float
  %5 = fadd float %4, 0xC168000000000000
  ret float %5
}
;! log_f32
define internal float @log_f32(float %0) alwaysinline nounwind {
  %2 = fcmp olt float %0, 0x3810000000000000
  %3 = fmul float %0, 0x4160000000000000
  %4 = select i1 %2, float %3, float %0
  %5 = bitcast float %4 to i32
  %6 = add i32 %5, -1059760811
  %7 = and i32 %6, -8388608
  %8 = sub i32 %5, %7
  %9 = bitcast i32 %8 to float
  %10 = fadd float %9, -1.000000e+00
  %11 = tail call float @exponent_f32(i32 %7)
  %12 = select i1 %2, float 2.300000e+01, float 0.000000e+00
  %13 = fsub float %11, %12
  %14 = tail call float @log1p_reduced_f32(float %10)
  %15 = tail call float @llvm.fma.f32(float %13, float 0xBE205C6100000000, float %14)
  %16 = tail call float @llvm.fma.f32(float %13, float 0x3FE62E4300000000, float %15)
  %17 = tail call float @log_special_f32(float %0, float %16)
  ret float %17
}
;! log2_f32
define internal float @log2_f32(float %0) alwaysinline nounwind {
  %2 = fcmp olt float %0, 0x3810000000000000
  %3 = fmul float %0, 0x4160000000000000
  %4 = select i1 %2, float %3, float %0
  %5 = bitcast float %4 to i32
  %6 = add i32 %5, -1059760811
  %7 = and i32 %6, -8388608
  %8 = sub i32 %5, %7
  %9 = bitcast i32 %8 to float
  %10 = fadd float %9, -1.000000e+00
  %11 = tail call float @log1p_reduced_f32(float %10)
  %12 = tail call float @exponent_f32(i32 %7)
  %13 = select i1 %2, float 2.300000e+01, float 0.000000e+00
  %14 = fsub float %12, %13
  %15 = tail call float @llvm.fma.f32(float %11, float 0x3E54AE0C00000000, float %14)
  %16 = tail call float @llvm.fma.f32(float %11, float 0x3FF7154760000000, float %15)
  %17 = tail call float @log_special_f32(float %0, float %16)
  ret float %17
}
;! log1p_f32
define internal float @log1p_f32(float %0) alwaysinline nounwind {
  %2 = fadd float %0, 1.000000e+00
  %3 = tail call float @llvm.fabs.f32(float %0)
  %4 = fcmp olt float %3, 1.000000e+00
  %5 = fadd float %2, -1.000000e+00
  %6 = fsub float %0, %5
  %7 = fsub float %0, %2
  %8 = fadd float %7, 1.000000e+00
  %9 = select i1 %4, float %6, float %8
  %10 = bitcast float %2 to i32
  %11 = add i32 %10, -1059760811
  %12 = and i32 %11, -8388608
  %13 = fcmp olt float %0, 0x4170000000000000
  %14 = sub i32 1065353216, %12
  %15 = bitcast i32 %14 to float
  %16 = select i1 %13, float %15, float 0.000000e+00
  %17 = sub i32 %10, %12
  %18 = bitcast i32 %17 to float
  %19 = fadd float %18, -1.000000e+00
  %20 = tail call float @llvm.fma.f32(float %9, float %16, float %19)
  %21 = tail call float @exponent_f32(i32 %12)
  %22 = tail call float @log1p_reduced_f32(float %20)
  %23 = tail call float @llvm.fma.f32(float %21, float 0xBE205C6100000000, float %22)
  %24 = tail call float @llvm.fma.f32(float %21, float 0x3FE62E4300000000, float %23)
  %25 = tail call float @log_special_f32(float %2, float %24)
  %26 = fcmp oeq float %0, 0.000000e+00
  %27 = select i1 %26, float %0, float %25
  ret float %27
}
;! log1pexp_f32
define internal float @log1pexp_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fabs.f32(float %0)
  %3 = fmul float %2, 0xBFF7154760000000
  %4 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %3)
  %5 = fcmp olt float %4, 0x3FD5555560000000
  %6 = tail call float @llvm.fma.f32(float %4, float 5.000000e-01, float -5.000000e-01)
  %7 = select i1 %5, float %4, float %6
  %8 = fcmp ogt float %0, 0.000000e+00
  %9 = select i1 %8, float %0, float 0.000000e+00
  %10 = select i1 %5, float 0.000000e+00, float 0x3FE62E4300000000
  %11 = fadd float %9, %10
  %12 = tail call float @log1p_reduced_f32(float %7)
  %13 = fadd float %12, %11
  ret float %13
}
;! pow_f32
define internal float @pow_f32(float %0, float %1) alwaysinline nounwind {
  %3 = tail call float @llvm.fabs.f32(float %0)
  %4 = tail call float @f32_infinity()
  %5 = fcmp olt float %3, 0x3810000000000000
  %6 = fmul float %3, 0x4160000000000000
  %7 = select i1 %5, float %6, float %3
  %8 = bitcast float %7 to i32
  %9 = add i32 %8, -1059760811
  %10 = and i32 %9, -8388608
  %11 = sub i32 %8, %10
  %12 = bitcast i32 %11 to float
  %13 = fadd float %12, -1.000000e+00
  %14 = tail call float @exponent_f32(i32 %10)
  %15 = select i1 %5, float 2.300000e+01, float 0.000000e+00
  %16 = fsub float %14, %15
  %17 = fadd float %13, 2.000000e+00
  %18 = tail call float asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"(float %17)
  %19 = fmul float %13, %18
  %20 = fmul float %19, %19
  %21 = tail call float @llvm.fma.f32(float %20, float 0x3FC3B13B20000000, float 0x3FC745D180000000)
  %22 = tail call float @llvm.fma.f32(float %21, float %20, float 0x3FCC71C720000000)
  %23 = tail call float @llvm.fma.f32(float %22, float %20, float 0x3FD24924A0000000)
  %24 = tail call float @llvm.fma.f32(float %23, float %20, float 0x3FD99999A0000000)
  %25 = tail call float @llvm.fma.f32(float %24, float %20, float 0x3FE5555560000000)
  %26 = fmul float %16, 0x3FE62E4300000000
  %27 = tail call float @llvm.fma.f32(float %19, float 2.000000e+00, float %26)
  %28 = fmul float %19, %20
  %29 = fmul float %28, %25
  %30 = fadd float %27, %29
  %31 = fmul float %30, %1
  %32 = tail call float @llvm.fabs.f32(float %31)
  %33 = fcmp olt float %32, 1.024000e+03
  br i1 %33, label %34, label %54

34:
  %35 = fsub float %26, %27
  %36 = tail call float @llvm.fma.f32(float %19, float 2.000000e+00, float %35)
  %37 = fneg float %26
  %38 = tail call float @llvm.fma.f32(float %16, float 0x3FE62E4300000000, float %37)
  %39 = fadd float %38, %36
  %40 = fneg float %19
  %41 = tail call float @llvm.fma.f32(float %19, float -2.000000e+00, float %13)
  %42 = tail call float @llvm.fma.f32(float %40, float %13, float %41)
  %43 = fmul float %18, %42
  %44 = fmul float %43, 2.000000e+00
  %45 = tail call float @llvm.fma.f32(float %44, float %20, float %44)
  %46 = tail call float @llvm.fma.f32(float %16, float 0xBE205C6100000000, float %45)
  %47 = fadd float %39, %46
  %48 = fsub float %27, %30
  %49 = fadd float %29, %48
  %50 = fadd float %47, %49
  %51 = fneg float %31
  %52 = tail call float @llvm.fma.f32(float %30, float %1, float %51)
  %53 = tail call float @llvm.fma.f32(float %50, float %1, float %52)
  br label %54

54:
  %55 = phi float [ %53, %34 ], [ 0.000000e+00, %2 ]
  %56 = tail call float @f32_nan()
  %57 = fadd float %31, %55
  %58 = fsub float %57, %31
  %59 = fsub float %55, %58
  %60 = select i1 %33, float %59, float 0.000000e+00
  %61 = tail call float @exp_f32(float %57)
  %62 = fcmp olt float %61, %4
  %63 = tail call float @llvm.fma.f32(float %61, float %60, float %61)
  %64 = select i1 %62, float %63, float %61
  %65 = fcmp oeq float %0, 0.000000e+00
  %66 = fcmp oeq float %3, %4
  %67 = select i1 %65, i1 true, i1 %66
  %68 = fcmp uge float %1, 0.000000e+00
  %69 = xor i1 %65, %68
  %70 = select i1 %69, float %4, float 0.000000e+00
  %71 = select i1 %67, float %70, float %64
  %72 = tail call float @llvm.fabs.f32(float %1)
  %73 = fcmp oeq float %72, %4
  %74 = fcmp oeq float %3, 1.000000e+00
  %75 = fcmp ule float %3, 1.000000e+00
  %76 = fcmp ogt float %1, 0.000000e+00
  %77 = xor i1 %75, %76
  %78 = select i1 %77, float %4, float 0.000000e+00
  %79 = select i1 %74, float 1.000000e+00, float %78
  %80 = select i1 %73, float %79, float %71
  %81 = tail call float @llvm.trunc.f32(float %1)
  %82 = fcmp oeq float %81, %1
  %83 = fcmp olt float %72, 0x4170000000000000
  %84 = fmul float %1, 5.000000e-01
  %85 = tail call float @llvm.trunc.f32(float %84)
  %86 = fcmp une float %85, %84
  %87 = bitcast float %0 to i32
  %88 = icmp slt i32 %87, 0
  %89 = select i1 %88, i1 %82, i1 false
  %90 = select i1 %89, i1 %83, i1 false
  %91 = select i1 %90, i1 %86, i1 false
  %92 = fneg float %80
  %93 = select i1 %91, float %92, float %80
  %94 = fcmp uge float %0, 0.000000e+00
  %95 = select i1 %94, i1 true, i1 %82
  %96 = xor i1 %95, true
  %97 = fcmp olt float %3, %4
  %98 = select i1 %96, i1 %97, i1 false
  %99 = select i1 %98, float %56, float %93
  %100 = fcmp uno float %0, %1
  %101 = fadd float %0, %1
  %102 = select i1 %100, float %101, float %99
  %103 = fcmp oeq float %1, 0.000000e+00
  %104 = fcmp oeq float %0, 1.000000e+00
  %105 = or i1 %104, %103
  %106 = select i1 %105, float 1.000000e+00, float %102
  ret float %106
}
;! sin_reduced_f32
define internal float @sin_reduced_f32(float %0) alwaysinline nounwind {
  %2 = fmul float %0, %0
  %3 = tail call float @llvm.fma.f32(float %2, float 0xBF2994EB20000000, float 0x3F81107600000000)
  %4 = tail call float @llvm.fma.f32(float %3, float %2, float 0xBFC5555460000000)
  %5 = fmul float %2, %4
  %6 = tail call float @llvm.fma.f32(float %5, float %0, float %0)
  ret float %6
}
;! cos_reduced_f32
define internal float @cos_reduced_f32(float %0) alwaysinline nounwind {
  %2 = fmul float %0, %0
  %3 = tail call float @llvm.fma.f32(float %2, float 0x3EF9A02580000000, float 0xBF56C0C8C0000000)
  %4 = tail call float @llvm.fma.f32(float %3, float %2, float 0x3FA55554A0000000)
  %5 = tail call float @llvm.fma.f32(float %4, float %2, float -5.000000e-01)
  %6 = tail call float @llvm.fma.f32(float %5, float %2, float 1.000000e+00)
  ret float %6
}
;! sin_f32
define internal float @sin_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fma.f32(float %0, float 0x3FE45F3060000000, float 0x4168000000000000)
  %3 = fadd float %2, 0xC168000000000000
  %4 = tail call float @llvm.fma.f32(float %3, float 0xBFF921FB60000000, float %0)
  %5 = tail call float @llvm.fma.f32(float %3, float 0x3E6777A5C0000000, float %4)
  %6 = tail call float @llvm.fma.f32(float %3, float 0x3CDEE59DA0000000, float %5)
  %7 = bitcast float %2 to i32
  %8 = tail call float @llvm.fabs.f32(float %0)
  %9 = fcmp ogt float %8, 4.800000e+04
  br i1 %9, label %10, label %60

10:
  %11 = bitcast float %0 to i32
  %12 = lshr i32 %11, 23
  %13 = and i32 %12, 255
  %14 = add nsw i32 %13, -88
  %15 = lshr i32 %14, 6
  %16 = tail call i64 @two_over_pi(i32 %15)
  %17 = add nuw nsw i32 %15, 1
  %18 = tail call i64 @two_over_pi(i32 %17)
  %19 = add nuw nsw i32 %15, 2
  %20 = tail call i64 @two_over_pi(i32 %19)
  %21 = and i32 %14, 63
  %22 = icmp eq i32 %21, 0
  %23 = zext i32 %21 to i64
  %24 = shl i64 %16, %23
  %25 = sub nuw nsw i32 64, %21
  %26 = zext i32 %25 to i64
  %27 = lshr i64 %18, %26
  %28 = or i64 %27, %24
  %29 = select i1 %22, i64 %16, i64 %28
  %30 = shl i64 %18, %23
  %31 = lshr i64 %20, %26
  %32 = or i64 %31, %30
  %33 = select i1 %22, i64 %18, i64 %32
  %34 = and i32 %11, 8388607
  %35 = or i32 %34, 8388608
  %36 = zext i32 %35 to i64
  %37 = lshr i64 %33, 32
  %38 = mul nuw nsw i64 %37, %36
  %39 = mul i64 %29, %36
  %40 = lshr i64 %38, 32
  %41 = add i64 %40, %39
  %42 = lshr i64 %41, 62
  %43 = trunc i64 %42 to i32
  %44 = shl i64 %41, 2
  %45 = lshr i64 %44, 63
  %46 = trunc i64 %45 to i32
  %47 = add nuw nsw i32 %46, %43
  %48 = sitofp i64 %44 to double
  %49 = fmul double %48, 0x3BF921FB54442D19
  %50 = fptrunc double %49 to float
  %51 = icmp sgt i32 %11, -1
  %52 = fneg float %50
  %53 = select i1 %51, float %50, float %52
  %54 = sub nsw i32 0, %47
  %55 = select i1 %51, i32 %47, i32 %54
  %56 = tail call float @f32_infinity()
  %57 = fcmp olt float %8, %56
  %58 = fsub float %0, %0
  %59 = select i1 %57, float %53, float %58
  br label %60

60:
  %61 = phi i32 [ %55, %10 ], [ %7, %1 ]
  %62 = phi float [ %59, %10 ], [ %6, %1 ]
  %63 = tail call float @sin_reduced_f32(float %62)
  %64 = tail call float @cos_reduced_f32(float %62)
  %65 = and i32 %61, 1
  %66 = icmp eq i32 %65, 0
  %67 = select i1 %66, float %63, float %64
  %68 = and i32 %61, 2
  %69 = icmp eq i32 %68, 0
  %70 = fneg float %67
  %71 = select i1 %69, float %67, float %70
  %72 = fcmp oeq float %0, 0.000000e+00
  %73 = select i1 %72, float %0, float %71
  ret float %73
}
;! cos_f32
define internal float @cos_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fma.f32(float %0, float 0x3FE45F3060000000, float 0x4168000000000000)
  %3 = fadd float %2, 0xC168000000000000
  %4 = tail call float @llvm.fma.f32(float %3, float 0xBFF921FB60000000, float %0)
  %5 = tail call float @llvm.fma.f32(float %3, float 0x3E6777A5C0000000, float %4)
  %6 = tail call float @llvm.fma.f32(float %3, float 0x3CDEE59DA0000000, float %5)
  %7 = bitcast float %2 to i32
  %8 = tail call float @llvm.fabs.f32(float %0)
  %9 = fcmp ogt float %8, 4.800000e+04
  br i1 %9, label %10, label %60

10:
  %11 = bitcast float %0 to i32
  %12 = lshr i32 %11, 23
  %13 = and i32 %12, 255
  %14 = add nsw i32 %13, -88
  %15 = lshr i32 %14, 6
  %16 = tail call i64 @two_over_pi(i32 %15)
  %17 = add nuw nsw i32 %15, 1
  %18 = tail call i64 @two_over_pi(i32 %17)
  %19 = add nuw nsw i32 %15, 2
  %20 = tail call i64 @two_over_pi(i32 %19)
  %21 = and i32 %14, 63
  %22 = icmp eq i32 %21, 0
  %23 = zext i32 %21 to i64
  %24 = shl i64 %16, %23
  %25 = sub nuw nsw i32 64, %21
  %26 = zext i32 %25 to i64
  %27 = lshr i64 %18, %26
  %28 = or i64 %27, %24
  %29 = select i1 %22, i64 %16, i64 %28
  %30 = shl i64 %18, %23
  %31 = lshr i64 %20, %26
  %32 = or i64 %31, %30
  %33 = select i1 %22, i64 %18, i64 %32
  %34 = and i32 %11, 8388607
  %35 = or i32 %34, 8388608
  %36 = zext i32 %35 to i64
  %37 = lshr i64 %33, 32
  %38 = mul nuw nsw i64 %37, %36
  %39 = mul i64 %29, %36
  %40 = lshr i64 %38, 32
  %41 = add i64 %40, %39
  %42 = lshr i64 %41, 62
  %43 = trunc i64 %42 to i32
  %44 = shl i64 %41, 2
  %45 = lshr i64 %44, 63
  %46 = trunc i64 %45 to i32
  %47 = add nuw nsw i32 %46, %43
  %48 = sitofp i64 %44 to double
  %49 = fmul double %48, 0x3BF921FB54442D19
  %50 = fptrunc double %49 to float
  %51 = icmp sgt i32 %11, -1
  %52 = fneg float %50
  %53 = select i1 %51, float %50, float %52
  %54 = sub nsw i32 0, %47
  %55 = select i1 %51, i32 %47, i32 %54
  %56 = tail call float @f32_infinity()
  %57 = fcmp olt float %8, %56
  %58 = fsub float %0, %0
  %59 = select i1 %57, float %53, float %58
  br label %60

60:
  %61 = phi i32 [ %55, %10 ], [ %7, %1 ]
  %62 = phi float [ %59, %10 ], [ %6, %1 ]
  %63 = tail call float @sin_reduced_f32(float %62)
  %64 = tail call float @cos_reduced_f32(float %62)
  %65 = and i32 %61, 1
  %66 = icmp eq i32 %65, 0
  %67 = select i1 %66, float %64, float %63
  %68 = add i32 %61, 1
  %69 = and i32 %68, 2
  %70 = icmp eq i32 %69, 0
  %71 = fneg float %67
  %72 = select i1 %70, float %67, float %71
  ret float %72
}
;! tan_f32
define internal float @tan_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fma.f32(float %0, float 0x3FE45F3060000000, float 0x4168000000000000)
  %3 = fadd float %2, 0xC168000000000000
  %4 = tail call float @llvm.fma.f32(float %3, float 0xBFF921FB60000000, float %0)
  %5 = tail call float @llvm.fma.f32(float %3, float 0x3E6777A5C0000000, float %4)
  %6 = tail call float @llvm.fma.f32(float %3, float 0x3CDEE59DA0000000, float %5)
  %7 = bitcast float %2 to i32
  %8 = tail call float @llvm.fabs.f32(float %0)
  %9 = fcmp ogt float %8, 4.800000e+04
  br i1 %9, label %10, label %60

10:
  %11 = bitcast float %0 to i32
  %12 = lshr i32 %11, 23
  %13 = and i32 %12, 255
  %14 = add nsw i32 %13, -88
  %15 = lshr i32 %14, 6
  %16 = tail call i64 @two_over_pi(i32 %15)
  %17 = add nuw nsw i32 %15, 1
  %18 = tail call i64 @two_over_pi(i32 %17)
  %19 = add nuw nsw i32 %15, 2
  %20 = tail call i64 @two_over_pi(i32 %19)
  %21 = and i32 %14, 63
  %22 = icmp eq i32 %21, 0
  %23 = zext i32 %21 to i64
  %24 = shl i64 %16, %23
  %25 = sub nuw nsw i32 64, %21
  %26 = zext i32 %25 to i64
  %27 = lshr i64 %18, %26
  %28 = or i64 %27, %24
  %29 = select i1 %22, i64 %16, i64 %28
  %30 = shl i64 %18, %23
  %31 = lshr i64 %20, %26
  %32 = or i64 %31, %30
  %33 = select i1 %22, i64 %18, i64 %32
  %34 = and i32 %11, 8388607
  %35 = or i32 %34, 8388608
  %36 = zext i32 %35 to i64
  %37 = lshr i64 %33, 32
  %38 = mul nuw nsw i64 %37, %36
  %39 = mul i64 %29, %36
  %40 = lshr i64 %38, 32
  %41 = add i64 %40, %39
  %42 = lshr i64 %41, 62
  %43 = trunc i64 %42 to i32
  %44 = shl i64 %41, 2
  %45 = lshr i64 %44, 63
  %46 = trunc i64 %45 to i32
  %47 = add nuw nsw i32 %46, %43
  %48 = sitofp i64 %44 to double
  %49 = fmul double %48, 0x3BF921FB54442D19
  %50 = fptrunc double %49 to float
  %51 = icmp sgt i32 %11, -1
  %52 = fneg float %50
  %53 = select i1 %51, float %50, float %52
  %54 = sub nsw i32 0, %47
  %55 = select i1 %51, i32 %47, i32 %54
  %56 = tail call float @f32_infinity()
  %57 = fcmp olt float %8, %56
  %58 = fsub float %0, %0
  %59 = select i1 %57, float %53, float %58
  br label %60

60:
  %61 = phi i32 [ %55, %10 ], [ %7, %1 ]
  %62 = phi float [ %59, %10 ], [ %6, %1 ]
  %63 = tail call float @sin_reduced_f32(float %62)
  %64 = tail call float @cos_reduced_f32(float %62)
  %65 = and i32 %61, 1
  %66 = icmp eq i32 %65, 0
  %67 = fneg float %64
  %68 = select i1 %66, float %63, float %67
  %69 = select i1 %66, float %64, float %63
  %70 = tail call float asm "div.full.f32 $0, $1, $2;", "=f,f,f"(float %68, float %69)
  %71 = fcmp oeq float %0, 0.000000e+00
  %72 = select i1 %71, float %0, float %70
  ret float %72
}
;! erf_f32
define internal float @erf_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fabs.f32(float %0)
  %3 = fmul float %0, %0
  %4 = tail call float @llvm.fma.f32(float %3, float 0x3F14AE4C60000000, float 0xBF4A485E80000000)
  %5 = tail call float @llvm.fma.f32(float %4, float %3, float 0x3F75419F40000000)
  %6 = tail call float @llvm.fma.f32(float %5, float %3, float 0xBF9B7FBB40000000)
  %7 = tail call float @llvm.fma.f32(float %6, float %3, float 0x3FBCE2D200000000)
  %8 = tail call float @llvm.fma.f32(float %7, float %3, float 0xBFD81273E0000000)
  %9 = tail call float @llvm.fma.f32(float %8, float %3, float 0x3FF20DD740000000)
  %10 = tail call float @llvm.minnum.f32(float %2, float 4.000000e+00)
  %11 = tail call float @llvm.fma.f32(float %10, float 0xBF00389F60000000, float 0x3F44BB2E80000000)
  %12 = tail call float @llvm.fma.f32(float %11, float %10, float 0xBF78C3D340000000)
  %13 = tail call float @llvm.fma.f32(float %12, float %10, float 0x3FA297E980000000)
  %14 = tail call float @llvm.fma.f32(float %13, float %10, float 0xBFC402B5A0000000)
  %15 = tail call float @llvm.fma.f32(float %14, float %10, float 0xBFED3C5DE0000000)
  %16 = tail call float @llvm.fma.f32(float %15, float %10, float 0xBFFA12D680000000)
  %17 = tail call float @llvm.fma.f32(float %16, float %10, float 0x3F31405900000000)
  %18 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %17)
  %19 = fsub float 1.000000e+00, %18
  %20 = tail call float @llvm.copysign.f32(float %19, float %0)
  %21 = fcmp ogt float %2, 1.000000e+00
  %22 = fmul float %9, %0
  %23 = select i1 %21, float %20, float %22
  ret float %23
}
;! one_plus_erf_f32
define internal float @one_plus_erf_f32(float %0) alwaysinline nounwind {
  %2 = tail call float @llvm.fabs.f32(float %0)
  %3 = tail call float @llvm.fma.f32(float %2, float 0xBEF4A72500000000, float 0x3F2ED809C0000000)
  %4 = tail call float @llvm.fma.f32(float %3, float %2, float 0xBF4AE12BE0000000)
  %5 = tail call float @llvm.fma.f32(float %4, float %2, float 0xBF5E14B160000000)
  %6 = tail call float @llvm.fma.f32(float %5, float %2, float 0x3F9DD862C0000000)
  %7 = tail call float @llvm.fma.f32(float %6, float %2, float 0xBFC30E3500000000)
  %8 = tail call float @llvm.fma.f32(float %7, float %2, float 0xBFED630300000000)
  %9 = tail call float @llvm.fma.f32(float %8, float %2, float 0xBFFA0BF040000000)
  %10 = tail call float @llvm.fma.f32(float %9, float %2, float 0x3E75FD54C0000000)
  %11 = tail call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %10)
  %12 = fcmp olt float %0, 0.000000e+00
  %13 = fsub float 2.000000e+00, %11
  %14 = select i1 %12, float %11, float %13
  ret float %14
}
;! atan2_f32
define internal float @atan2_f32(float %0, float %1) alwaysinline nounwind {
  %3 = tail call float @llvm.fabs.f32(float %1)
  %4 = tail call float @llvm.fabs.f32(float %0)
  %5 = tail call float @llvm.maxnum.f32(float %3, float %4)
  %6 = tail call float @llvm.minnum.f32(float %3, float %4)
  %7 = tail call float @f32_infinity()
  %8 = tail call float asm "div.full.f32 $0, $1, $2;", "=f,f,f"(float %6, float %5)
  %9 = fcmp oeq float %6, %7
  %10 = select i1 %9, float 1.000000e+00, float %8
  %11 = fcmp oeq float %5, 0.000000e+00
  %12 = select i1 %11, float 0.000000e+00, float %10
  %13 = fmul float %12, %12
  %14 = tail call float @llvm.fma.f32(float %13, float 0xBF5DEFC4A0000000, float 0x3F86A8E340000000)
  %15 = tail call float @llvm.fma.f32(float %14, float %13, float 0xBFA01AEE60000000)
  %16 = tail call float @llvm.fma.f32(float %15, float %13, float 0x3FADD0E380000000)
  %17 = tail call float @llvm.fma.f32(float %16, float %13, float 0xBFB58DC4A0000000)
  %18 = tail call float @llvm.fma.f32(float %17, float %13, float 0x3FBC0D2780000000)
  %19 = tail call float @llvm.fma.f32(float %18, float %13, float 0xBFC2426F80000000)
  %20 = tail call float @llvm.fma.f32(float %19, float %13, float 0x3FC9992760000000)
  %21 = tail call float @llvm.fma.f32(float %20, float %13, float 0xBFD5555400000000)
  %22 = fmul float %13, %21
  %23 = tail call float @llvm.fma.f32(float %22, float %12, float %12)
  %24 = fcmp ogt float %4, %3
  %25 = fsub float 0x3FF921FB60000000, %23
  %26 = select i1 %24, float %25, float %23
  %27 = bitcast float %1 to i32
  %28 = fsub float 0x400921FB60000000, %26
  %29 = icmp slt i32 %27, 0
  %30 = select i1 %29, float %28, float %26
  %31 = fadd float %0, %1
  %32 = tail call float @llvm.copysign.f32(float %30, float %0)
  %33 = fcmp uno float %1, %0
  %34 = select i1 %33, float %31, float %32
  ret float %34
}
;! mod_f32
define internal float @mod_f32(float %0, float %1) alwaysinline nounwind {
  %3 = tail call float @llvm.fabs.f32(float %0)
  %4 = tail call float @llvm.fabs.f32(float %1)
  %5 = tail call float @f32_infinity()
  %6 = fcmp olt float %3, %5
  %7 = fcmp one float %1, 0.000000e+00
  %8 = and i1 %7, %6
  br i1 %8, label %11, label %9

9:
  %10 = tail call float @f32_nan()
  br label %70

11:
  %12 = fcmp oge float %3, %4
  %13 = fcmp olt float %4, %5
  %14 = select i1 %12, i1 %13, i1 false
  br i1 %14, label %15, label %67

15:
  %16 = bitcast float %3 to i32
  %17 = bitcast float %4 to i32
  %18 = lshr i32 %16, 23
  %19 = lshr i32 %17, 23
  %20 = icmp ult i32 %16, 8388608
  %21 = and i32 %16, 8388607
  %22 = or i32 %21, 8388608
  %23 = select i1 %20, i32 %16, i32 %22
  %24 = icmp ult i32 %17, 8388608
  %25 = and i32 %17, 8388607
  %26 = or i32 %25, 8388608
  %27 = zext i1 %20 to i32
  %28 = add nuw nsw i32 %18, %27
  %29 = zext i1 %24 to i32
  %30 = add nuw nsw i32 %19, %29
  br i1 %24, label %31, label %37

31:
  %32 = phi i32 [ %35, %31 ], [ %17, %15 ]
  %33 = phi i32 [ %34, %31 ], [ %30, %15 ]
  %34 = add nsw i32 %33, -1
  %35 = shl nuw nsw i32 %32, 1
  %36 = icmp ult i32 %32, 4194304
  br i1 %36, label %31, label %37

37:
  %38 = phi i32 [ %30, %15 ], [ %34, %31 ]
  %39 = phi i32 [ %26, %15 ], [ %35, %31 ]
  %40 = sub i32 %28, %38
  %41 = icmp sgt i32 %40, -1
  br i1 %41, label %56, label %42

42:
  %43 = phi i32 [ %23, %37 ], [ %64, %56 ]
  %44 = add nsw i32 %38, -150
  %45 = sdiv i32 %44, 2
  %46 = uitofp i32 %43 to float
  %47 = shl i32 %45, 23
  %48 = add i32 %47, 1065353216
  %49 = bitcast i32 %48 to float
  %50 = fmul float %49, %46
  %51 = sub nsw i32 %44, %45
  %52 = shl i32 %51, 23
  %53 = add i32 %52, 1065353216
  %54 = bitcast i32 %53 to float
  %55 = fmul float %50, %54
  br label %67

56:
  %57 = phi i32 [ %65, %56 ], [ %40, %37 ]
  %58 = phi i32 [ %64, %56 ], [ %23, %37 ]
  %59 = icmp ult i32 %58, %39
  %60 = select i1 %59, i32 0, i32 %39
  %61 = sub i32 %58, %60
  %62 = icmp ne i32 %57, 0
  %63 = zext i1 %62 to i32
  %64 = shl i32 %61, %63
  %65 = add nsw i32 %57, -1
  %66 = icmp eq i32 %57, 0
  br i1 %66, label %42, label %56

67:
  %68 = phi float [ %55, %42 ], [ %3, %11 ]
  %69 = tail call float @llvm.copysign.f32(float %68, float %0)
  br label %70

70:
  %71 = phi float [ %69, %67 ], [ %10, %9 ]
  ret float %71
}
;! round_tf32
define internal float @round_tf32(float %0) alwaysinline nounwind {
  %2 = bitcast float %0 to i32
  %3 = fcmp ord float %0, 0.000000e+00
  %4 = add i32 %2, 4095
  %5 = lshr i32 %2, 13
  %6 = and i32 %5, 1
  %7 = add i32 %4, %6
  %8 = and i32 %7, -8192
  %9 = bitcast i32 %8 to float
  %10 = select i1 %3, float %9, float %0
  ret float %10
}
;! f64_to_f32_odd
define internal float @f64_to_f32_odd(double %0) alwaysinline nounwind {
  %2 = fptrunc double %0 to float
  %3 = fpext float %2 to double
  %4 = fcmp ord double %0, 0.000000e+00
  br i1 %4, label %5, label %16

5:
  %6 = bitcast float %2 to i32
  %7 = tail call double @llvm.fabs.f64(double %3)
  %8 = tail call double @llvm.fabs.f64(double %0)
  %9 = fcmp ogt double %7, %8
  %10 = sext i1 %9 to i32
  %11 = add i32 %10, %6
  %12 = fcmp une double %3, %0
  %13 = zext i1 %12 to i32
  %14 = or i32 %11, %13
  %15 = bitcast i32 %14 to float
  br label %16

16:
  %17 = phi float [ %15, %5 ], [ %2, %1 ]
  ret float %17
}
;! encode_small_float
define internal i32 @encode_small_float(float %0, i32 %1, i32 %2, i32 %3) alwaysinline nounwind {
  %5 = bitcast float %0 to i32
  %6 = lshr i32 %5, 24
  %7 = and i32 %6, 128
  %8 = and i32 %5, 2147483647
  %9 = sub nsw i32 23, %1
  %10 = sub i32 22, %1
  %11 = shl nsw i32 -1, %10
  %12 = xor i32 %11, -1
  %13 = add i32 %8, %12
  %14 = lshr i32 %8, %9
  %15 = and i32 %14, 1
  %16 = add i32 %13, %15
  %17 = lshr i32 %16, %9
  %18 = add i32 %2, -127
  %19 = shl i32 %18, %1
  %20 = add i32 %17, %19
  %21 = add i32 %2, %1
  %22 = mul i32 %21, -8388608
  %23 = add i32 %22, 1266679808
  %24 = bitcast i32 %23 to float
  %25 = bitcast i32 %8 to float
  %26 = fadd float %25, %24
  %27 = bitcast float %26 to i32
  %28 = sub i32 %27, %23
  %29 = mul i32 %2, -8388608
  %30 = add i32 %29, 1073741824
  %31 = icmp ult i32 %8, %30
  %32 = select i1 %31, i32 %28, i32 %20
  %33 = icmp ugt i32 %32, %3
  %34 = icmp ugt i32 %8, 2130706431
  %35 = or i1 %34, %33
  %36 = select i1 %35, i32 %3, i32 %32
  %37 = fcmp ord float %0, 0.000000e+00
  %38 = or i32 %36, %7
  %39 = select i1 %37, i32 %38, i32 127
  ret i32 %39
}
;! encode_e4m3
define internal i32 @encode_e4m3(float %0) alwaysinline nounwind {
  %2 = tail call i32 @encode_small_float(float %0, i32 3, i32 7, i32 126)
  ret i32 %2
}
;! encode_e5m2
define internal i32 @encode_e5m2(float %0) alwaysinline nounwind {
  %2 = tail call i32 @encode_small_float(float %0, i32 2, i32 15, i32 123)
  ret i32 %2
}
;! decode_e4m3
define internal float @decode_e4m3(i32 %0) alwaysinline nounwind {
  %2 = and i32 %0, 127
  %3 = shl nuw nsw i32 %2, 20
  %4 = bitcast i32 %3 to float
  %5 = icmp eq i32 %2, 127
  %6 = fmul float %4, 0x4770000000000000
  %7 = select i1 %5, float 0x7FFFFFFFE0000000, float %6
  %8 = and i32 %0, 128
  %9 = icmp eq i32 %8, 0
  %10 = fneg float %7
  %11 = select i1 %9, float %7, float %10
  ret float %11
}
;! decode_e5m2
define internal float @decode_e5m2(i32 %0) alwaysinline nounwind {
  %2 = and i32 %0, 127
  %3 = shl nuw nsw i32 %2, 21
  %4 = bitcast i32 %3 to float
  %5 = fmul float %4, 0x46F0000000000000
  %6 = icmp ugt i32 %2, 124
  %7 = icmp eq i32 %2, 124
  %8 = select i1 %7, float 0x7FF0000000000000, float %5
  %9 = select i1 %6, float 0x7FFFFFFFE0000000, float %8
  %10 = and i32 %0, 128
  %11 = icmp eq i32 %10, 0
  %12 = fneg float %9
  %13 = select i1 %11, float %9, float %12
  ret float %13
}
