// SPDX-License-Identifier: Apache-2.0
#include "shim/environment.h"

#include <sys/single_threaded.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace corun {
namespace {

constinit const char* lent_entry = nullptr;
constinit char** lent = nullptr;
constinit char** before = nullptr;
constinit std::size_t entries = 0;

}  // namespace

bool environment_lend(const char* entry) noexcept {
    before = environ;
    entries = 0;
    while (before != nullptr && before[entries] != nullptr) ++entries;
    // Never freed: some thread may read it for long.
    lent = static_cast<char**>(std::malloc((entries + 2) * sizeof(char*)));
    if (lent == nullptr) return false;
    if (entries > 0) std::memcpy(lent, before, entries * sizeof(char*));
    lent[entries] = const_cast<char*>(entry);
    lent[entries + 1] = nullptr;
    lent_entry = entry;
    __atomic_store_n(&environ, lent, __ATOMIC_RELEASE);
    return true;
}

void environment_take_back() noexcept {
    const bool is_ours = __atomic_load_n(&environ, __ATOMIC_ACQUIRE) == lent;
    if (is_ours && (entries == 0 || std::memcmp(lent, before, entries * sizeof(char*)) == 0) &&
        lent[entries] == lent_entry) {
        __atomic_store_n(&environ, before, __ATOMIC_RELEASE);
        return;
    }
    if (!__libc_single_threaded) return;
    char name[64];
    const char* const end = std::strchr(lent_entry, '=');
    const std::size_t length = end != nullptr ? static_cast<std::size_t>(end - lent_entry) : 0;
    if (length == 0 || length >= sizeof name) return;
    std::memcpy(name, lent_entry, length);
    name[length] = '\0';
    unsetenv(name);
}

}  // namespace corun
