// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits (Fowler, Noll, Vo): for keys and checksums against damage, not against intent. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace corun::model {

class Fnv1a {
  public:
    constexpr void add(unsigned char byte) noexcept { value_ = (value_ ^ byte) * 0x100000001B3U; }
    constexpr void add(std::string_view text) noexcept {
        for (const char each : text) add(static_cast<unsigned char>(each));
    }
    void add(const void* bytes, std::size_t count) noexcept {
        add(std::string_view(static_cast<const char*>(bytes), count));
    }
    [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }

  private:
    std::uint64_t value_ = 0xCBF29CE484222325U;
};

[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) noexcept {
    Fnv1a hash;
    hash.add(text);
    return hash.value();
}

}  // namespace corun::model
