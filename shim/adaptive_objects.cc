// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive_objects.h"

#include <atomic>
#include <cstring>

#include "policy/region.h"

namespace corun {
namespace {

constinit std::atomic<const ElfW(Dyn)*> last_at_start{nullptr};

// The list is in the order of loading.
int note_last(dl_phdr_info* info, std::size_t, void*) {
    if (const ElfW(Dyn)* const dynamic = object_of(*info).dynamic) last_at_start.store(dynamic);
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

struct Order {
    const ElfW(Dyn) * wanted;
    bool found;
};

// Goes on until the last one that was there at the start.
int look_for_early(dl_phdr_info* info, std::size_t, void* argument) {
    auto& order = *static_cast<Order*>(argument);
    const ElfW(Dyn)* const dynamic = object_of(*info).dynamic;
    order.found = order.found || dynamic == order.wanted;
    return order.found || dynamic == last_at_start.load(std::memory_order_relaxed) ? 1 : 0;
}

bool there_from_the_start(const LoadedObject& object) {
    Order order{object.dynamic, false};
    if (last_at_start.load(std::memory_order_relaxed) != nullptr) dl_iterate_phdr(look_for_early, &order);
    return order.found;
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
    if (last_at_start.load(std::memory_order_relaxed) == nullptr) dl_iterate_phdr(note_last, nullptr);
}

std::uint32_t object_facts(const LoadedObject& object) noexcept {
    std::uint32_t facts = there_from_the_start(object) ? 0U : static_cast<std::uint32_t>(policy::kOpened);
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
