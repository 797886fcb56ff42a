// SPDX-License-Identifier: Apache-2.0
#include "shim/call_path.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "shim/adaptive_objects.h"

#ifdef CORUN_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

extern "C" void* __libc_stack_end;  // of the first thread: where its arguments begin

namespace corun {

#ifdef CORUN_LIBUNWIND

namespace {

#define CORUN_TEXT(name) #name
#define CORUN_NAME(name) CORUN_TEXT(name)  // libunwind's names are macros

struct Functions {
    decltype(&unw_tdep_getcontext) get_context;
    decltype(&unw_init_local) begin;
    decltype(&unw_step) step;
    decltype(&unw_get_reg) get;
};
constinit Functions functions{};
constinit std::atomic<bool> known{false};

constexpr int kMostFrames = 40;                  // from here to the program's own, and then its callers
constexpr std::uintptr_t kMostOffset = 1 << 20;  // bytes

template <typename Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

void call_path_start() noexcept {
    void* const library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    const bool found = library != nullptr &&
                       find(library, CORUN_NAME(unw_tdep_getcontext), functions.get_context) &&
                       find(library, CORUN_NAME(unw_init_local), functions.begin) &&
                       find(library, CORUN_NAME(unw_step), functions.step) &&
                       find(library, CORUN_NAME(unw_get_reg), functions.get);
    if (!found) dlerror();  // the program's next question is not about us
    known.store(found, std::memory_order_release);
}

bool call_path_known() noexcept {
    return known.load(std::memory_order_acquire);
}

bool call_path_read(CallPathRead& read, const void* caller, const void* reference) noexcept {
    read.path = {};
    if (!call_path_known()) return false;
    unw_context_t context;
    unw_cursor_t cursor;
    if (functions.get_context(&context) != 0 || functions.begin(&cursor, &context) != 0) return false;
    bool opened = false;  // the function that opens the region was reached
    for (int i = 0; i < kMostFrames && read.path.depth < policy::kPathDepth; ++i) {
        if (functions.step(&cursor) <= 0) break;
        unw_word_t address = 0;
        unw_word_t stack = 0;
        if (functions.get(&cursor, UNW_REG_IP, &address) != 0 ||
            functions.get(&cursor, UNW_REG_SP, &stack) != 0)
            break;
        if (!opened) {
            opened = address == reinterpret_cast<std::uintptr_t>(caller);
            if (opened && !there_from_the_start(caller)) break;
            continue;
        }
        // Where a call has left it; a signal handler's frame has none there.
        const std::uintptr_t place = stack - sizeof address;
        const std::uintptr_t offset = place - reinterpret_cast<std::uintptr_t>(reference);
        if (!there_from_the_start(reinterpret_cast<const void*>(address)) || offset > kMostOffset ||
            *reinterpret_cast<const unw_word_t*>(place) != address)
            break;
        read.path.at[read.path.depth] = address;
        read.offsets[read.path.depth++] = static_cast<std::uint32_t>(offset);
    }
    return read.path.depth > 0;
}

#else

void call_path_start() noexcept {}
bool call_path_known() noexcept {
    return false;
}
bool call_path_read(CallPathRead& read, const void*, const void*) noexcept {
    read.path = {};
    return false;
}

#endif

StackRange thread_stack() noexcept {
    // The first thread's grows, but not to what is mapped below. Asking for it would read a file.
    constexpr std::uintptr_t kGrows = 64 << 20;
    const auto end = reinterpret_cast<std::uintptr_t>(__libc_stack_end);
    const StackRange first{end - kGrows, end};
    if (syscall(SYS_gettid) == getpid()) return first;
    pthread_attr_t about;
    if (pthread_getattr_np(pthread_self(), &about) != 0) return {};
    void* low = nullptr;
    std::size_t size = 0;
    const bool found = pthread_attr_getstack(&about, &low, &size) == 0;
    pthread_attr_destroy(&about);
    const auto begin = reinterpret_cast<std::uintptr_t>(low);
    return found ? StackRange{begin, begin + size} : StackRange{};
}

}  // namespace corun
