// SPDX-License-Identifier: Apache-2.0
// OpenMP as clang and Intel's compilers call it. The hooks decide nothing and change no argument. Built as
// gomp.cc is. Regions are counted but only timed where CORUN_OPENMP=adaptive looks at
// them: else the hook of __kmpc_fork_call has left before they begin.
#if defined(__x86_64__)
#include "shim/adaptive.h"

namespace corun::kmp {

// The registers that hold arguments, as the code below has pushed them.
struct Call {
    std::uint64_t vectors;  // rax: at least as many vector registers hold arguments
    std::uint64_t sixth, fifth, fourth;
    const void* body;
    std::uint64_t count;
    const void* place;
    const void* caller;
    void* stack[1];  // the arguments that the registers have no room for
};

constexpr std::uint64_t kMostArguments = 64;

extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_KMP_HOOKED(X)
#undef X

#define CALLER __builtin_return_address(0)

// The runtime calls these itself, for regions that were counted when the program came to it.
static inline void count(const Runtime& runtime, const void* caller, const void* body) {
    OpenRegion region;
    if (!runtime.object.holds(caller)) region_count(region, runtime, body, openmp_thread.named, caller);
    openmp_thread.named = 0;
}

// Instead of the program's own body one of ours, whose only argument is what the program's has to be given.
static void fork_with(const Runtime& runtime, const Call& call, std::uint64_t arguments,
                      AdaptiveCall& chosen) {
    void* words[kMostArguments];
    words[0] = reinterpret_cast<void*>(call.fourth);
    words[1] = reinterpret_cast<void*>(call.fifth);
    words[2] = reinterpret_cast<void*>(call.sixth);
    words[3] = nullptr;
    for (std::uint64_t i = 3; i < arguments; ++i) words[i] = call.stack[i - 3];
    chosen.member.data = words;
    chosen.member.count = static_cast<std::int32_t>(arguments);
    fork_call_of(runtime)(call.place, 1, reinterpret_cast<void*>(corun_kmp_member), &chosen.member);
}

// Returns where to go on: nowhere if all is done.
[[gnu::used, gnu::visibility("hidden")]] void* corun_kmp_fork(const Call& call) {
    const Runtime& runtime = runtime_of_body(call.body, call.caller, OpenMp::fork_call);
    const std::int32_t named = openmp_thread.named;
    count(runtime, call.caller, call.body);
    const auto arguments = call.count & 0xFFFFFFFFU;
    if (!adaptive_on.load(std::memory_order_relaxed) || runtime.object.holds(call.caller)) [[likely]]
        return reinterpret_cast<void*>(fork_call_of(runtime));
    AdaptiveCall chosen;
    OpenRegion region;
    region.timed = nullptr;
    adaptive_begin(chosen, region, runtime, call.body, call.caller, named, 0);
    if (chosen.width != 0)
        push_threads_of(runtime)(call.place, global_thread_of(runtime)(call.place), chosen.width);
    if (chosen.region == nullptr || arguments > kMostArguments)
        return reinterpret_cast<void*>(fork_call_of(runtime));
    fork_with(runtime, call, arguments, chosen);
    adaptive_end(chosen);
    return nullptr;
}

// It has any number of arguments: they stay where they are, registers and stack, and the runtime's own
// function returns to the program.
// clang-format off
__asm__(R"(
    .text
    .p2align 4
    .globl __kmpc_fork_call
    .type __kmpc_fork_call, @function
__kmpc_fork_call:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    pushq %rdx
    .cfi_adjust_cfa_offset 8
    pushq %rcx
    .cfi_adjust_cfa_offset 8
    pushq %r8
    .cfi_adjust_cfa_offset 8
    pushq %r9
    .cfi_adjust_cfa_offset 8
    pushq %rax
    .cfi_adjust_cfa_offset 8
    movq %rsp, %rdi
    subq $128, %rsp
    .cfi_adjust_cfa_offset 128
    testb %al, %al
    je 1f
    movaps %xmm0, (%rsp)
    movaps %xmm1, 16(%rsp)
    movaps %xmm2, 32(%rsp)
    movaps %xmm3, 48(%rsp)
    movaps %xmm4, 64(%rsp)
    movaps %xmm5, 80(%rsp)
    movaps %xmm6, 96(%rsp)
    movaps %xmm7, 112(%rsp)
1:  call corun_kmp_fork
    testq %rax, %rax
    je 3f
    movq %rax, %r11
    cmpb $0, 128(%rsp)
    je 2f
    movaps (%rsp), %xmm0
    movaps 16(%rsp), %xmm1
    movaps 32(%rsp), %xmm2
    movaps 48(%rsp), %xmm3
    movaps 64(%rsp), %xmm4
    movaps 80(%rsp), %xmm5
    movaps 96(%rsp), %xmm6
    movaps 112(%rsp), %xmm7
2:  addq $128, %rsp
    .cfi_adjust_cfa_offset -128
    popq %rax
    .cfi_adjust_cfa_offset -8
    popq %r9
    .cfi_adjust_cfa_offset -8
    popq %r8
    .cfi_adjust_cfa_offset -8
    popq %rcx
    .cfi_adjust_cfa_offset -8
    popq %rdx
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%r11
3:  .cfi_def_cfa_offset 192
    addq $184, %rsp
    .cfi_adjust_cfa_offset -184
    ret
    .cfi_endproc
    .size __kmpc_fork_call, . - __kmpc_fork_call
)");
// clang-format on

void corun_fork_call_if(const void* place, int arguments, void* body, int condition, void* argument) {
    const Runtime& runtime = runtime_of_body(body, CALLER, OpenMp::fork_call_if);
    count(runtime, CALLER, body);
    fork_call_if_of(runtime)(place, arguments, body, condition, argument);
}

void corun_serialized(const void* place, int thread) {
    const Runtime& runtime = runtime_of_place(place, CALLER, OpenMp::serialized);
    openmp_thread.named = 0;
    // It may ask inside, where nothing is capped.
    if ((openmp_thread.ready & runtime.bit) == 0 && !runtime.object.holds(CALLER)) [[unlikely]]
        openmp_before_region(runtime, 1);
    serialized_of(runtime)(place, thread);
}

// The program's own clause: it is pending until the next region, and nothing of ours may come between.
void corun_push_threads(const void* place, int thread, int threads) {
    openmp_thread.named = threads;
    push_threads_of(runtime_of_place(place, CALLER, OpenMp::push_threads))(place, thread, threads);
}

void corun_push_threads_strict(const void* place, int thread, int threads, int severity,
                               const char* message) {
    openmp_thread.named = threads;
    push_threads_strict_of(runtime_of_place(place, CALLER, OpenMp::push_threads_strict))(
        place, thread, threads, severity, message);
}

void corun_push_threads_list(const void* place, int thread, unsigned length, int* threads) {
    openmp_thread.named = length > 0 ? threads[0] : 0;
    push_threads_list_of(runtime_of_place(place, CALLER, OpenMp::push_threads_list))(place, thread, length,
                                                                                     threads);
}

void corun_push_threads_list_strict(const void* place, int thread, unsigned length, int* threads,
                                    int severity, const char* message) {
    openmp_thread.named = length > 0 ? threads[0] : 0;
    push_threads_list_strict_of(runtime_of_place(place, CALLER, OpenMp::push_threads_list_strict))(
        place, thread, length, threads, severity, message);
}
}  // extern "C"
}  // namespace corun::kmp
#endif
