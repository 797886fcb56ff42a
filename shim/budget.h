// SPDX-License-Identifier: Apache-2.0
// How many CPUs this process may use: affinity mask, cgroup quota (v1 and v2), its share of the node and
// CORUN_CPUS; the smallest wins. What budget_watch.h looks at again and again. Nothing here allocates, takes
// a lock or calls a function that the program may have replaced: hooks come by from signal handlers and
// before any constructor.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace corun {

enum class BudgetLimit : std::uint8_t { affinity, quota, share, option };  ///< which one is in force

struct Budget {
    int cpus = 1;           ///< what is in force, >= 1
    int affinity = 1;       ///< CPUs in the mask
    double quota = 0.0;     ///< CPUs by cgroup quota; 0: none
    double share = 0.0;     ///< CPUs of the node that are this process's now; 0: all
    int option = 0;         ///< CORUN_CPUS; 0: not set
    int allowed = INT_MAX;  ///< by all but the mask; INT_MAX: any number
    BudgetLimit limit = BudgetLimit::affinity;
};

/// 0 stands for "no limit" in `quota`, `share` and `option`. A part of a CPU counts as a whole one.
[[nodiscard]] Budget make_budget(int affinity, double quota, double share, int option) noexcept;

[[nodiscard]] const char* limit_name(BudgetLimit limit) noexcept;

/// What a cgroup has had to wait because of its quota: counters of the kernel, of all processes in the group.
struct Throttling {
    std::uint64_t periods = 0;    ///< in which somebody ran
    std::uint64_t throttled = 0;  ///< of them, those in which the quota was used up
    double seconds = 0.0;         ///< waited for the next period, summed over CPUs
};

/// CPUs by a cpu.max of version 2 ("400000 100000", "max 100000"); 0: no limit.
[[nodiscard]] double quota_v2(std::string_view text) noexcept;
/// CPUs by cpu.cfs_quota_us and cpu.cfs_period_us of version 1; 0: no limit.
[[nodiscard]] double quota_v1(std::string_view quota, std::string_view period) noexcept;
/// A cpu.stat of either version.
[[nodiscard]] Throttling throttling_of(std::string_view text) noexcept;

/// Reads what the groups of a process allow. A limit on any ancestor holds as well. Large: not for a stack
/// that may be small.
class CgroupReader {
  public:
    /// @param root       where the hierarchies are mounted ("/sys/fs/cgroup")
    /// @param membership a file like /proc/self/cgroup
    /// Both have to outlive it.
    constexpr CgroupReader(const char* root, const char* membership)
        : root_(root), membership_file_(membership) {}

    void set_root(const char* root) noexcept { root_ = root; }

    /// The smallest quota (CPUs) on the way up to the root; 0 when there is none; < 0 when it cannot be read
    /// to which groups the process belongs (no file descriptor is left, or a new root has no /proc).
    [[nodiscard]] double quota() noexcept;
    /// The group whose quota that is, by its inode, which all its processes see alike; 0 when there is none.
    [[nodiscard]] std::uint64_t group() const noexcept { return group_; }
    /// Of the group on that way that waited longest.
    [[nodiscard]] Throttling throttling() noexcept;

  private:
    enum class Version { one, two };
    template <typename Visit>
    bool each_folder(Visit visit) noexcept;  ///< @return false: it is not known which they are
    template <typename Visit>
    void walk_up(Version version, const char* below, std::string_view path, Visit visit) noexcept;
    std::string_view read(const char* file) noexcept;

    const char* root_;
    const char* membership_file_;
    std::uint64_t group_ = 0;
    std::size_t folder_length_ = 0;
    char membership_[8192] = {};
    char folder_[4600] = {};  ///< room for a path and a file's name
    char text_[2048] = {};
};

/// CPUs in the mask of the calling thread, at least 1.
[[nodiscard]] int affinity_count() noexcept;

/// The beginning of a file, at most size - 1 bytes and a NUL. @return bytes; 0 too when it cannot be read
std::size_t read_file(const char* path, char* text, std::size_t size) noexcept;

}  // namespace corun
