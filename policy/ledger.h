// SPDX-License-Identifier: Apache-2.0
// Who holds how many CPUs inside the process: open scopes and the sum of their widths, in one atomic word.
#pragma once

#include <atomic>
#include <cstdint>

namespace corun::policy {

/// Exact at every instant for the scopes that are entered into it. Wait-free. Constant-initialised.
/// Layout: starts (24 bits, wraps) | open scopes (16) | sum of widths (24): 65,535 scopes of 255 CPUs each.
class Ledger {
  public:
    struct Ticket {
        std::uint32_t starts;  ///< value of the start counter just after this begin
        bool alone;            ///< nothing was open at the begin
    };

    Ticket begin(std::uint16_t width) noexcept {
        const std::uint64_t before = word_.fetch_add(kStart + kOpen + width, std::memory_order_relaxed);
        return {static_cast<std::uint32_t>((before + kStart) >> kStartBit), open(before) == 0};
    }

    /// @return true when nothing else was open between begin and end
    bool end(const Ticket& ticket, std::uint16_t width) noexcept {
        const std::uint64_t before = word_.fetch_sub(kOpen + width, std::memory_order_relaxed);
        return ticket.alone && static_cast<std::uint32_t>(before >> kStartBit) == ticket.starts;
    }

    struct Held {
        int open;    ///< scopes
        int widths;  ///< their sum
    };
    /// Both at one instant.
    [[nodiscard]] Held held() const noexcept {
        const std::uint64_t word = word_.load(std::memory_order_relaxed);
        return {open(word), widths(word)};
    }
    [[nodiscard]] int open() const noexcept { return open(word_.load(std::memory_order_relaxed)); }
    [[nodiscard]] int widths() const noexcept { return widths(word_.load(std::memory_order_relaxed)); }
    [[nodiscard]] int idle(int budget) const noexcept {
        const int left = budget - widths();
        return left > 0 ? left : 0;
    }
    void clear() noexcept { word_.store(0, std::memory_order_relaxed); }  ///< in a forked child

  private:
    static constexpr int kOpenBit = 24;
    static constexpr int kStartBit = 40;
    static constexpr std::uint64_t kStart = 1ULL << kStartBit;
    static constexpr std::uint64_t kOpen = 1ULL << kOpenBit;
    static int open(std::uint64_t word) noexcept { return static_cast<std::uint16_t>(word >> kOpenBit); }
    static int widths(std::uint64_t word) noexcept { return static_cast<int>(word & (kOpen - 1)); }

    std::atomic<std::uint64_t> word_{0};
};

}  // namespace corun::policy
