// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_view.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "shim/budget_watch.h"
#include "shim/loaded_object.h"
#include "shim/node_segment.h"
#include "shim/process.h"
#include "shim/scope.h"

namespace corun {
namespace {

enum class View { off, where_limited, always };
constinit std::atomic<View> view{View::off};
constinit unsigned process_number = 0;  // of the process that was started: its forked children say the same
constinit std::atomic<int> machine{0};
constinit std::atomic<int> least_told{INT_MAX};

constexpr char kOnline[] = "/sys/devices/system/cpu/online";
constexpr char kPresent[] = "/sys/devices/system/cpu/present";
constexpr char kCpuinfo[] = "/proc/cpuinfo";

// What was told in place of what. Written once each; when it is full a mask that comes back is taken at its
// word.
struct Told {
    CpuMask shown, real;
    bool operator==(const Told&) const = default;
};
constexpr std::size_t kTold = 32;
constinit Told told[kTold] = {};
constinit std::atomic<std::size_t> told_count{0};
constinit std::atomic<bool> telling{false};
// Masks that the program has set by itself and is told as they are, as far as they could be noted.
constinit CpuMask own_masks[kTold] = {};
constinit std::atomic<std::size_t> own_count{0};

int machine_cpus() {
    int known = machine.load(std::memory_order_relaxed);
    if (known > 0) return known;
    char text[1024];
    read_file(kOnline, text, sizeof text);
    known = count_cpu_list(text);
    if (known == 0) known = INT_MAX;  // then any limit is smaller
    machine.store(known, std::memory_order_relaxed);
    return known;
}

void note_least(int cpus) {
    int known = least_told.load(std::memory_order_relaxed);
    while (cpus < known && !least_told.compare_exchange_weak(known, cpus, std::memory_order_relaxed)) {
    }
}

// The CPUs to tell of; 0: the truth. `most` are those that a mask may have.
int told_now(int& most) {
    const View wanted = view.load(std::memory_order_acquire);
    if (wanted == View::off) return 0;
    // What a neighbour takes for a while must not size a pool for life, nor the place of one bound thread.
    const Budget budget = process_start_budget();
    most = budget.allowed;
    if (budget.allowed == INT_MAX && wanted != View::always) return 0;
    const int cpus = std::min(budget.cpus, budget.affinity);
    if (budget.allowed < machine_cpus() || (wanted == View::always && cpus < machine_cpus())) return cpus;
    return 0;
}

unsigned which_share() {
    const int slot = budget_slot();
    return slot >= 0 ? static_cast<unsigned>(slot) : process_number;
}

// False: there is no room, or this thread's own signal handler has come by in the middle.
template <typename Entry>
bool add(Entry (&entries)[kTold], std::atomic<std::size_t>& count, const Entry& entry) {
    const std::size_t known = count.load(std::memory_order_acquire);
    if (std::find(entries, entries + known, entry) != entries + known) return true;
    for (int i = 0; telling.exchange(true, std::memory_order_acquire); ++i) {
        if (i == 1000) return false;
        sched_yield();
    }
    const std::size_t free = count.load(std::memory_order_relaxed);
    if (free < kTold) {
        entries[free] = entry;
        count.store(free + 1, std::memory_order_release);
    }
    telling.store(false, std::memory_order_release);
    return free < kTold;
}

bool is_own(const CpuMask& mask) {
    const std::size_t count = own_count.load(std::memory_order_acquire);
    return count == kTold || std::find(own_masks, own_masks + count, mask) != own_masks + count;
}

// `mask` as it is to be told. False: as it is.
bool replace(CpuMask& mask) {
    int most = 0;
    if (told_now(most) == 0 || most >= mask.count() || is_own(mask)) return false;
    const CpuMask shown = choose_cpus(mask, most, which_share());
    if (!add(told, told_count, {shown, mask})) return false;  // it could not be put back
    mask = shown;
    note_least(most);
    return true;
}

bool process_mask(CpuMask& mask) {
    unsigned char bytes[CpuMask::kCpus];
    const long size = syscall(SYS_sched_getaffinity, getpid(), sizeof bytes, bytes);
    if (size <= 0 || !mask.assign(bytes, static_cast<std::size_t>(size))) return false;
    int most = 0;
    return told_now(most) != 0 && (replace(mask) || view.load() == View::always);
}

bool write_all(int file, const char* text, std::size_t size, long& at) {
    for (std::size_t done = 0; done < size;) {
        const long written = syscall(SYS_pwrite64, file, text + done, size - done, at);
        if (written <= 0) return false;
        done += static_cast<std::size_t>(written);
        at += written;
    }
    return true;
}

bool copy_cpuinfo(const CpuMask& cpus, int from, int to) {
    CpuinfoFilter filter(cpus);
    char text[1024];
    char kept[sizeof text + CpuinfoFilter::kHeld];
    long at = 0;
    long read_at = 0;
    long got = 0;
    while ((got = syscall(SYS_pread64, from, text, sizeof text, read_at)) > 0) {
        read_at += got;
        if (!write_all(to, kept, filter.feed({text, static_cast<std::size_t>(got)}, kept), at)) return false;
    }
    return got == 0 && write_all(to, kept, filter.finish(kept), at);
}

bool copy_list(const CpuMask& cpus, int to) {
    char text[3072];
    long at = 0;
    return write_all(to, text, write_cpu_list(cpus, text, sizeof text), at);
}

}  // namespace

void cpu_view_start(bool wanted, bool always) noexcept {
    // Containers have the same few pids. What both give stays in a forked child.
    const std::uint64_t number =
        (pid_space() << 32 ^ static_cast<std::uint64_t>(getpid())) * 0x9E3779B97F4A7C15U;
    process_number = static_cast<unsigned>(number >> 33);
    view.store(!wanted ? View::off : always ? View::always : View::where_limited, std::memory_order_release);
}

bool cpu_view_awake(const void* caller) noexcept {
    if (source_early()) [[unlikely]] {
        LoadedObject object{};
        if (environ == nullptr) return false;  // libc itself is not initialised yet, so no option can be read
        if (!find_object(caller, object) || DynamicSection(object).symbol("malloc") != nullptr) return false;
        process_start();
    }
    return view.load(std::memory_order_acquire) != View::off;
}

int cpu_view_count(int cpus) noexcept {
    int most = 0;
    const int shown = told_now(most);
    if (shown == 0 || shown >= cpus) return cpus;
    note_least(shown);
    return shown;
}

bool cpu_view_is_ours(int thread) noexcept {
    if (thread == 0 || thread == getpid()) return true;
    const int saved = errno;
    const bool found = syscall(SYS_tgkill, getpid(), thread, 0) == 0;
    errno = saved;
    return found;
}

void cpu_view_mask(void* mask, std::size_t bytes) noexcept {
    CpuMask cpus;
    if (cpus.assign(mask, bytes) && replace(cpus)) cpus.copy_to(mask, bytes);
}

void cpu_view_own_mask(const void* mask, std::size_t bytes) noexcept {
    CpuMask own;
    int most = 0;
    // Smaller ones are told as they are anyway.
    if (mask == nullptr || !own.assign(mask, bytes) || told_now(most) == 0 || most >= own.count()) return;
    add(own_masks, own_count, own);
}

void cpu_view_after_fork() noexcept {
    telling.store(false, std::memory_order_relaxed);
}

bool cpu_view_was_told(const void* mask, std::size_t bytes, CpuMask& real) noexcept {
    const std::size_t count = told_count.load(std::memory_order_acquire);
    CpuMask asked;
    if (count == 0 || mask == nullptr || !asked.assign(mask, bytes)) return false;
    for (std::size_t i = count; i-- > 0;) {
        if (told[i].shown != asked) continue;
        real = told[i].real;
        return true;
    }
    return false;
}

int cpu_view_number(int cpu) noexcept {
    const int count = least_told.load(std::memory_order_relaxed);
    return cpu < count ? cpu : cpu % count;
}

// The program's own call has come first: what it says of a bad path, of its rights and of a full table of
// files is the kernel's word. What comes after may fail at each step; then the file is the real one.
void cpu_view_opened(const char* path, int file) noexcept {
    if (file < 0 || (path[1] != 's' && path[1] != 'p')) [[likely]]
        return;
    const bool is_cpuinfo = std::strcmp(path, kCpuinfo) == 0;
    if (!is_cpuinfo && std::strcmp(path, kOnline) != 0 && std::strcmp(path, kPresent) != 0) return;
    if (!cpu_view_awake(nullptr)) return;
    const int saved = errno;
    CpuMask cpus;
    const bool read_only = (syscall(SYS_fcntl, file, F_GETFL) & (O_ACCMODE | O_PATH)) == O_RDONLY;
    if (read_only && process_mask(cpus)) {
        const int closes = syscall(SYS_fcntl, file, F_GETFD) == FD_CLOEXEC ? O_CLOEXEC : 0;
        const auto text = static_cast<int>(syscall(SYS_memfd_create, "cpus", MFD_CLOEXEC));
        if (text >= 0) {
            if (is_cpuinfo ? copy_cpuinfo(cpus, file, text) : copy_list(cpus, text))
                syscall(SYS_dup3, text, file, closes);
            syscall(SYS_close, text);
        }
    }
    errno = saved;
}

int cpu_view_told() noexcept {
    const int count = least_told.load(std::memory_order_relaxed);
    return count == INT_MAX ? 0 : count;
}

}  // namespace corun
