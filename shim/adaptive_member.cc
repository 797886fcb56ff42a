// SPDX-License-Identifier: Apache-2.0
// The bodies that a region is opened with when it is looked at. The program's own runs inside: exceptions,
// pthread_exit and longjmp pass through, so this is built as hooks are.
#include "shim/adaptive.h"

namespace corun {
namespace {

struct Outer {
    AdaptiveRegion* inside;
    const void* frame;
    const Runtime* runtime;
    std::uint64_t chunk;
    std::uint64_t begin;  // ticks
    std::int32_t width;
    std::int32_t team;
    bool free_runtime;
};

inline Outer enter(const Member& member, const void* frame) {
    AdaptiveThread& thread = adaptive_thread;
    Outer outer{thread.inside, thread.frame, thread.runtime,     thread.chunk, 0,
                thread.width,  thread.team,  thread.free_runtime};
    thread.inside = member.region;
    thread.frame = frame;
    thread.runtime = member.runtime;
    thread.chunk = member.chunk;
    thread.width = member.width;
    thread.team = member.team;
    thread.free_runtime = member.free_runtime;
    if (member.timed) outer.begin = ticks();
    return outer;
}

inline void leave(Member& member, const Outer& outer) {
    AdaptiveThread& thread = adaptive_thread;
    thread.inside = outer.inside;
    thread.frame = outer.frame;
    thread.runtime = outer.runtime;
    thread.chunk = outer.chunk;
    thread.width = outer.width;
    thread.team = outer.team;
    thread.free_runtime = outer.free_runtime;
    if (outer.begin == 0) return;
    const std::uint64_t work = ticks() - outer.begin;
    member.threads.fetch_add(1, std::memory_order_relaxed);
    member.work.fetch_add(work, std::memory_order_relaxed);
    std::uint64_t longest = member.longest.load(std::memory_order_relaxed);
    while (longest < work &&
           !member.longest.compare_exchange_weak(longest, work, std::memory_order_relaxed)) {
    }
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
