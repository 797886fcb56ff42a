// SPDX-License-Identifier: Apache-2.0
// The bodies that a region is opened with when it is looked at. The program's own runs inside: exceptions,
// pthread_exit and longjmp pass through, so this is built as hooks are.
#include "shim/adaptive.h"

namespace corun {
namespace {

struct Outer {
    AdaptiveRegion* inside;
    const void* frame;
    std::uint64_t chunk;
    const Runtime* runtime;
    std::uint64_t begin;  // ticks
    std::int32_t width;
};

inline Outer enter(const Member& member, const void* frame) {
    AdaptiveThread& thread = adaptive_thread;
    Outer outer{thread.inside, thread.frame, thread.chunk, thread.runtime, 0, thread.width};
    thread.inside = member.region;
    thread.frame = frame;
    thread.chunk = member.chunk;
    thread.runtime = member.runtime;
    thread.width = member.width;
    if (member.timed) [[unlikely]]
        outer.begin = ticks();
    return outer;
}

void add_work(Member& member, std::uint64_t work) {
    __atomic_fetch_add(&member.threads, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&member.work, work, __ATOMIC_RELAXED);
    std::uint64_t longest = __atomic_load_n(&member.longest, __ATOMIC_RELAXED);
    while (longest < work && !__atomic_compare_exchange_n(&member.longest, &longest, work, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

inline void leave(Member& member, const Outer& outer) {
    AdaptiveThread& thread = adaptive_thread;
    thread.inside = outer.inside;
    thread.frame = outer.frame;
    thread.chunk = outer.chunk;
    thread.runtime = outer.runtime;
    thread.width = outer.width;
    if (outer.begin != 0) [[unlikely]]
        add_work(member, ticks() - outer.begin);
}

}  // namespace
}  // namespace corun

extern "C" {

[[gnu::noinline]] void corun_member(void* argument) {
    auto& member = *static_cast<corun::Member*>(argument);
    const corun::Outer outer = corun::enter(member, __builtin_frame_address(0));
    reinterpret_cast<corun::RegionBody*>(member.body)(member.data);
    corun::leave(member, outer);
}

#if defined(__x86_64__)
// clang's bodies have any number of arguments, words all of them, four at least in the array: the first six
// go into registers (two are the thread's), the others onto the stack.
// clang-format off
[[gnu::visibility("hidden")]] void corun_invoke(void* body, int* thread, int* bound, long count, void* const* arguments);
__asm__(R"(
    .text
    .p2align 4
    .hidden corun_invoke
    .globl corun_invoke
    .type corun_invoke, @function
corun_invoke:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    pushq %rbx
    .cfi_offset %rbx, -24
    movq %rdi, %r11
    movq %rsi, %rdi
    movq %rdx, %rsi
    movq %rcx, %r10
    movq %r8, %rbx
    cmpq $4, %r10
    jle 2f
    testb $1, %r10b
    jne 3f
2:  subq $8, %rsp
    cmpq $4, %r10
    jle 4f
3:  pushq -8(%rbx,%r10,8)
    decq %r10
    cmpq $4, %r10
    jg 3b
4:  movq (%rbx), %rdx
    movq 8(%rbx), %rcx
    movq 16(%rbx), %r8
    movq 24(%rbx), %r9
    xorl %eax, %eax
    call *%r11
    movq -8(%rbp), %rbx
    movq %rbp, %rsp
    popq %rbp
    .cfi_def_cfa %rsp, 8
    .cfi_restore %rbx
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size corun_invoke, . - corun_invoke
)");
// clang-format on

[[gnu::noinline]] void corun_kmp_member(int* thread, int* bound, void* argument) {
    auto& member = *static_cast<corun::Member*>(argument);
    const corun::Outer outer = corun::enter(member, __builtin_frame_address(0));
    corun_invoke(member.body, thread, bound, member.count, static_cast<void* const*>(member.data));
    corun::leave(member, outer);
}
#endif
}
