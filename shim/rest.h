// SPDX-License-Identifier: Apache-2.0
// While nothing is in force and nothing is compared, most ops need not be seen at all: to make a record of
// one costs PyTorch as much as some of its ops take. The driver rests between two windows; sources that can,
// skip their ops meanwhile.
#pragma once

#include <cstdint>

namespace corun {

/// Not thread-safe: whoever calls holds the driver's lock.
class Rest {
  public:
    /// Unless ops of a source that cannot rest came since this was asked last, or the CPUs are shared, with
    /// other programs or among threads: who takes part has to be seen. @param length ticks
    void begin(std::uint64_t now, std::uint64_t length, std::uint64_t slice) noexcept;
    [[nodiscard]] bool on() const noexcept { return end_ != 0; }
    /// False when it is over. One op in a slice is seen, so that it can be cut short. @param asked it is
    /// wanted
    [[nodiscard]] bool lasts(std::uint64_t now, bool asked) noexcept;
    [[nodiscard]] std::uint64_t until() const noexcept { return until_; }  ///< the end of the slice
    void end(std::uint64_t now) noexcept;
    /// Ticks of the rests that have ended since this was asked last.
    [[nodiscard]] std::uint64_t take() noexcept;

  private:
    void next_slice(std::uint64_t now) noexcept;

    std::uint64_t from_ = 0;
    std::uint64_t end_ = 0;  ///< 0: there is none
    std::uint64_t slice_ = 0;
    std::uint64_t until_ = 0;
    std::uint64_t rested_ = 0;
    std::uint64_t others_ = ~std::uint64_t{0};  ///< ops so far of sources that cannot rest
};

}  // namespace corun
