// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive_objects.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "policy/region.h"

namespace corun {
namespace {

// Sorted. A program with more of them is none of ours: what does not fit counts as opened later.
struct Range {
    std::uintptr_t start, end;
};
constinit std::array<Range, 1024> first_objects{};
constinit std::atomic<std::size_t> first_count{0};  // 0: not looked at yet

struct Noted {
    std::size_t count;
};

int note_object(dl_phdr_info* info, std::size_t, void* argument) {
    auto& noted = *static_cast<Noted*>(argument);
    const LoadedObject object = object_of(*info);
    if (object.dynamic == nullptr || noted.count == first_objects.size()) return 0;
    first_objects[noted.count++] = {object.start, object.end};
    return 0;
}

struct Segments {
    const ElfW(Dyn) * dynamic;
    bool thread_local_data;
};

int look_for_data(dl_phdr_info* info, std::size_t, void* argument) {
    auto& wanted = *static_cast<Segments*>(argument);
    if (object_of(*info).dynamic != wanted.dynamic) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_phdr[i].p_memsz > 0)
            wanted.thread_local_data = true;
    return 1;
}

// gfortran's and flang's programs call their libraries; Fortran's names of OpenMP end in '_'.
bool is_fortrans(const char* name) {
    if (std::strncmp(name, "_gfortran_", 10) == 0 || std::strncmp(name, "_Fortran", 8) == 0) return true;
    return std::strncmp(name, "omp_", 4) == 0 && name[std::strlen(name) - 1] == '_';
}

int look_for_ffi(dl_phdr_info* info, std::size_t, void* argument) {
    const char* const path = info->dlpi_name;
    if (path == nullptr) return 0;
    const char* const slash = std::strrchr(path, '/');
    const char* const name = slash != nullptr ? slash + 1 : path;
    const bool found = std::strncmp(name, "libffi", 6) == 0 || std::strncmp(name, "_ctypes.", 8) == 0 ||
                       std::strncmp(name, "_cffi_backend", 13) == 0;
    *static_cast<bool*>(argument) = found;
    return found ? 1 : 0;
}

}  // namespace

void adaptive_objects_start() noexcept {
    if (first_count.load(std::memory_order_relaxed) != 0) return;
    Noted noted{0};
    dl_iterate_phdr(note_object, &noted);
    const auto end = first_objects.begin() + static_cast<std::ptrdiff_t>(noted.count);
    std::sort(first_objects.begin(), end, [](const Range& a, const Range& b) { return a.start < b.start; });
    first_count.store(noted.count, std::memory_order_release);
}

bool there_from_the_start(const void* address) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto end =
        first_objects.begin() + static_cast<std::ptrdiff_t>(first_count.load(std::memory_order_acquire));
    const auto after =
        std::upper_bound(first_objects.begin(), end, at,
                         [](std::uintptr_t value, const Range& one) { return value < one.start; });
    return after != first_objects.begin() && at < (after - 1)->end;
}

std::uint32_t object_facts(const LoadedObject& object) noexcept {
    std::uint32_t facts =
        there_from_the_start(object.dynamic) ? 0U : static_cast<std::uint32_t>(policy::kOpened);
    if (object.name != nullptr && std::strstr(object.name, "torchinductor") != nullptr)
        facts |= policy::kInductor;
    Segments segments{object.dynamic, false};
    dl_iterate_phdr(look_for_data, &segments);
    if (segments.thread_local_data) facts |= policy::kThreadLocal;
    const bool fortran = DynamicSection(object).any_relocation(
        [](const char* name, void* const*, const ElfW(Sym)&) { return is_fortrans(name); });
    return fortran ? facts | policy::kFortran : facts;
}

bool reached_past_hooks() noexcept {
    bool found = false;
    dl_iterate_phdr(look_for_ffi, &found);
    return found;
}

}  // namespace corun
