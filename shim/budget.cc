// SPDX-License-Identifier: Apache-2.0
#include "shim/budget.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace corun {
namespace {

constexpr std::size_t kFileName = 64;

std::string_view word_of(std::string_view& text) {
    constexpr std::string_view kBlank = " \t\n";
    text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
    const std::string_view word = text.substr(0, text.find_first_of(kBlank));
    text.remove_prefix(word.size());
    return word;
}

// A whole number; -1 where it is none, or negative.
double number_of(std::string_view text) {
    const std::string_view word = word_of(text);
    double value = 0.0;
    for (const char c : word) {
        if (c < '0' || c > '9') return -1.0;
        value = 10.0 * value + (c - '0');
    }
    return word.empty() ? -1.0 : value;
}

double ratio(double quota, double period) {
    return quota > 0 && period > 0 ? quota / period : 0.0;
}

bool has_word(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const auto cut = list.find(',');
        if (list.substr(0, cut) == word) return true;
        list.remove_prefix(cut == std::string_view::npos ? list.size() : cut + 1);
    }
    return false;
}

int rounded_up(double cpus) {
    return std::max(1, static_cast<int>(std::ceil(std::min(cpus, 1e6) - 0.01)));
}

}  // namespace

std::size_t read_file(const char* path, char* text, std::size_t size) noexcept {
    const int saved = errno;
    const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    std::size_t length = 0;
    while (file >= 0 && length + 1 < size) {
        const long got = syscall(SYS_read, file, text + length, size - 1 - length);
        if (got <= 0) break;
        length += static_cast<std::size_t>(got);
    }
    if (file >= 0) syscall(SYS_close, file);
    text[length] = '\0';
    errno = saved;
    return length;
}

int affinity_count() noexcept {
    unsigned long mask[65536 / (8 * sizeof(unsigned long))];  // a machine may have more CPUs than a cpu_set_t
    const int saved = errno;
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    errno = saved;
    int count = 0;
    for (std::size_t i = 0; bytes > 0 && i < static_cast<std::size_t>(bytes) / sizeof mask[0]; ++i)
        count += __builtin_popcountl(mask[i]);
    return std::max(1, count);
}

double quota_v2(std::string_view text) noexcept {
    const double quota = number_of(word_of(text));
    return ratio(quota, number_of(text));
}

double quota_v1(std::string_view quota, std::string_view period) noexcept {
    return ratio(number_of(quota), number_of(period));
}

Throttling throttling_of(std::string_view text) noexcept {
    Throttling result;
    for (std::string_view name = word_of(text); !name.empty(); name = word_of(text)) {
        const double value = std::max(0.0, number_of(word_of(text)));
        if (name == "nr_periods") result.periods = static_cast<std::uint64_t>(value);
        if (name == "nr_throttled") result.throttled = static_cast<std::uint64_t>(value);
        if (name == "throttled_time") result.seconds = 1e-9 * value;
        if (name == "throttled_usec") result.seconds = 1e-6 * value;
    }
    return result;
}

std::string_view CgroupReader::read(const char* file) noexcept {
    std::strncpy(folder_ + folder_length_, file, kFileName - 1);
    const std::size_t length = read_file(folder_, text_, sizeof text_);
    folder_[folder_length_] = '\0';
    return {text_, length};
}

// Inside a cgroup namespace the path may not exist below the mount; the walk then still reaches the root of
// the mount, which is the container's own group.
template <typename Visit>
void CgroupReader::walk_up(Version version, const char* below, std::string_view path, Visit visit) noexcept {
    const std::string_view mount(root_);
    const std::string_view hierarchy(below);
    const std::size_t top = mount.size() + hierarchy.size();
    if (top + path.size() + kFileName > sizeof folder_) return;
    std::memcpy(folder_, mount.data(), mount.size());
    std::memcpy(folder_ + mount.size(), hierarchy.data(), hierarchy.size());
    std::memcpy(folder_ + top, path.data(), path.size());
    folder_length_ = top + path.size();
    while (true) {
        std::memset(folder_ + folder_length_, 0, kFileName);
        visit(version);
        const std::string_view rest(folder_ + top, folder_length_ - top);
        const auto parent = rest.rfind('/');
        if (rest == "/" || parent == std::string_view::npos) return;
        folder_length_ = top + parent;
    }
}

template <typename Visit>
bool CgroupReader::each_folder(Visit visit) noexcept {
    std::string_view lines(membership_, read_file(membership_file_, membership_, sizeof membership_));
    const bool known = !lines.empty();
    while (!lines.empty()) {  // "4:cpu,cpuacct:/user.slice" or "0::/user.slice"
        const std::string_view line = lines.substr(0, lines.find('\n'));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        const auto first = line.find(':');
        const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const std::string_view path = line.substr(second + 1);
        if (controllers.empty()) {
            walk_up(Version::two, "", path, visit);
            walk_up(Version::two, "/unified", path, visit);
        } else if (has_word(controllers, "cpu")) {
            walk_up(Version::one, "/cpu", path, visit);
            walk_up(Version::one, "/cpu,cpuacct", path, visit);
        }
    }
    return known;
}

double CgroupReader::quota() noexcept {
    double smallest = 0.0;
    group_ = 0;
    const bool known = each_folder([&](Version version) {
        double quota = 0.0;
        if (version == Version::two) {
            quota = quota_v2(read("/cpu.max"));
        } else {
            const double wait = number_of(read("/cpu.cfs_quota_us"));
            if (wait > 0) quota = ratio(wait, number_of(read("/cpu.cfs_period_us")));
        }
        if (quota <= 0 || (smallest > 0.0 && quota >= smallest)) return;
        smallest = quota;
        struct stat status {};
        group_ = stat(folder_, &status) == 0 ? status.st_ino : 0;
    });
    return known ? smallest : -1.0;
}

Throttling CgroupReader::throttling() noexcept {
    Throttling most;
    each_folder([&](Version) {
        const Throttling here = throttling_of(read("/cpu.stat"));
        if (here.periods > 0 && (most.periods == 0 || here.seconds > most.seconds)) most = here;
    });
    return most;
}

Budget make_budget(int affinity, double quota, double share, int option) noexcept {
    Budget budget;
    budget.affinity = std::max(1, affinity);
    budget.quota = quota;
    budget.share = share;
    budget.option = option;
    budget.cpus = budget.affinity;
    const auto at_most = [&budget](int cpus, BudgetLimit limit) {
        budget.allowed = std::min(budget.allowed, cpus);
        if (cpus >= budget.cpus) return;
        budget.cpus = cpus;
        budget.limit = limit;
    };
    if (quota > 0) at_most(rounded_up(quota), BudgetLimit::quota);
    if (share > 0) at_most(rounded_up(share), BudgetLimit::share);
    if (option > 0) at_most(option, BudgetLimit::option);
    return budget;
}

const char* limit_name(BudgetLimit limit) noexcept {
    switch (limit) {
        case BudgetLimit::affinity:
            return "affinity";
        case BudgetLimit::quota:
            return "quota";
        case BudgetLimit::share:
            return "share";
        case BudgetLimit::option:
            return "CORUN_CPUS";
    }
    return "?";
}

}  // namespace corun
