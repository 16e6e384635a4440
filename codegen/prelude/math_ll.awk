# clang's LLVM IR of math_llvm.c -> math.ll: a section "#! name" for each function and table, no attributes and no metadata, pointers
# as LLVM 19 writes them. Functions that take pointers are left out: they are inlined into their callers.
BEGIN {
    print "; Mathematical functions of the LLVM backend. Made from math_llvm.c by `make math-ll`; sections: emit_sections.h."
    print "; sha256 of math_llvm.c, math_f64.cuh, math_f32.cuh, convert.cuh: " sources
}
function name_of(line) {
    match(line, /@[A-Za-z0-9_]+/)
    return substr(line, RSTART + 1, RLENGTH - 1)
}
/^@/ {
    sub(/dso_local local_unnamed_addr/, "internal unnamed_addr")
    print ";! " name_of($0)
    print
}
/^define/ {
    keep = $0 !~ /\*/
    if (!keep)
        next
    gsub(/dso_local |noundef |local_unnamed_addr /, "")
    sub(/#[0-9]+ \{/, "alwaysinline nounwind {")
    sub(/^define/, "define internal")
    print ";! " name_of($0)
    inside = 1
    print
    next
}
inside {
    gsub(/, ![a-z.]+ ![0-9]+/, "")
    gsub(/ #[0-9]+/, "")
    gsub(/noundef /, "")
    gsub(/(\[20 x i64\]|i64)\* /, "ptr ")
    sub(/ *; preds.*/, "")
    print
    if ($0 == "}")
        inside = 0
}
