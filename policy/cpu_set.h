// SPDX-License-Identifier: Apache-2.0
// A set of CPUs by number, plain, so that it can lie in shared memory. Numbers from kMostCpus on are left
// out.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace corun::policy {

inline constexpr std::size_t kMostCpus = 1024;

struct CpuSet {
    std::array<std::uint64_t, kMostCpus / 64> words{};

    void add(std::size_t cpu) {
        if (cpu < kMostCpus) words[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
    }
    [[nodiscard]] int count() const {
        int sum = 0;
        for (const std::uint64_t word : words) sum += std::popcount(word);
        return sum;
    }
    [[nodiscard]] bool meets(const CpuSet& other) const {
        for (std::size_t i = 0; i < words.size(); ++i)
            if ((words[i] & other.words[i]) != 0) return true;
        return false;
    }
    [[nodiscard]] bool within(const CpuSet& other) const {
        for (std::size_t i = 0; i < words.size(); ++i)
            if ((words[i] & ~other.words[i]) != 0) return false;
        return true;
    }
    void unite(const CpuSet& other) {
        for (std::size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
    }
    bool operator==(const CpuSet&) const = default;
};

}  // namespace corun::policy
