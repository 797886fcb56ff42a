// SPDX-License-Identifier: Apache-2.0
// Sets of CPUs, and the texts in which the kernel tells of them. Pure; no allocation, no lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace corun {

/// Up to kCpus of them; a machine with more is not spoken for.
class CpuMask {
  public:
    static constexpr int kCpus = 1024;

    /// From a mask as the kernel writes it. False when it holds a CPU beyond kCpus.
    [[nodiscard]] bool assign(const void* mask, std::size_t bytes) noexcept;
    /// Over such a mask; what is behind the last word becomes zero.
    void copy_to(void* mask, std::size_t bytes) const noexcept;

    [[nodiscard]] bool has(int cpu) const noexcept {
        return cpu >= 0 && cpu < kCpus && (words[word(cpu)] & bit(cpu)) != 0;
    }
    void add(int cpu) noexcept { words[word(cpu)] |= bit(cpu); }
    [[nodiscard]] int count() const noexcept;
    bool operator==(const CpuMask&) const = default;

    std::array<std::uint64_t, kCpus / 64> words{};

  private:
    static std::size_t word(int cpu) noexcept { return static_cast<std::size_t>(cpu) / 64; }
    static std::uint64_t bit(int cpu) noexcept { return std::uint64_t{1} << (cpu % 64); }
};

/// `wanted` CPUs of `all`, side by side. Neighbours (`which` and the next) get others, as far as there are.
[[nodiscard]] CpuMask choose_cpus(const CpuMask& all, int wanted, unsigned which) noexcept;

/// "0-1,7\n" as in /sys/devices/system/cpu/online. @return bytes, at most size
std::size_t write_cpu_list(const CpuMask& cpus, char* text, std::size_t size) noexcept;

/// How many CPUs such a list names; 0 when it is none.
[[nodiscard]] int count_cpu_list(std::string_view text) noexcept;

/// Goes through /proc/cpuinfo piece by piece and keeps the paragraphs of some CPUs, and those that are of
/// none.
class CpuinfoFilter {
  public:
    static constexpr std::size_t kHeld =
        64;  ///< bytes that may be kept back until it is known whose they are

    explicit CpuinfoFilter(const CpuMask& kept) noexcept : kept_(kept) {}

    /// Writes what stays of `text`. @return bytes, at most text.size() + kHeld
    std::size_t feed(std::string_view text, char* out) noexcept;
    /// At the end: what was kept back. @return bytes, at most kHeld
    std::size_t finish(char* out) noexcept;

  private:
    std::size_t decide(char* out) noexcept;

    const CpuMask& kept_;
    bool deciding_ = true;    ///< in the first line of a paragraph, which says whose it is
    bool keeping_ = true;     ///< this paragraph
    bool line_begin_ = true;  ///< outside of that line
    std::size_t held_ = 0;
    char line_[kHeld] = {};
};

}  // namespace corun
