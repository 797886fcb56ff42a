// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_mask.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace corun {
namespace {

// A number at the beginning of `text`, which is taken off; -1 when there is none.
int take_number(std::string_view& text) {
    int value = -1;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        if (value > 1'000'000) return -1;
        value = 10 * std::max(value, 0) + (text.front() - '0');
        text.remove_prefix(1);
    }
    return value;
}

std::size_t write_number(int value, char* text, std::size_t size) {
    char digits[12];
    std::size_t count = 0;
    do {
        digits[count++] = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value > 0);
    const std::size_t length = std::min(count, size);
    for (std::size_t i = 0; i < length; ++i) text[i] = digits[count - 1 - i];
    return length;
}

}  // namespace

bool CpuMask::assign(const void* mask, std::size_t bytes) noexcept {
    const auto* const at = static_cast<const unsigned char*>(mask);
    words = {};
    std::memcpy(words.data(), at, std::min(bytes, sizeof words));
    return std::all_of(at + std::min(bytes, sizeof words), at + bytes,
                       [](unsigned char c) { return c == 0; });
}

void CpuMask::copy_to(void* mask, std::size_t bytes) const noexcept {
    auto* const at = static_cast<unsigned char*>(mask);
    const std::size_t known = std::min(bytes, sizeof words);
    std::memcpy(at, words.data(), known);
    std::memset(at + known, 0, bytes - known);
}

int CpuMask::count() const noexcept {
    int cpus = 0;
    for (const std::uint64_t one : words) cpus += std::popcount(one);
    return cpus;
}

CpuMask choose_cpus(const CpuMask& all, int wanted, unsigned which) noexcept {
    CpuMask chosen;
    const int there = all.count();
    if (wanted <= 0 || there == 0) return chosen;
    wanted = std::min(wanted, there);
    const auto blocks = static_cast<unsigned>((there + wanted - 1) / wanted);
    const int first = static_cast<int>(which % blocks) * wanted;
    for (int cpu = 0, index = 0; cpu < CpuMask::kCpus; ++cpu) {
        if (!all.has(cpu)) continue;
        // The last block may reach over the end: it goes on at the beginning.
        if ((index - first + there) % there < wanted) chosen.add(cpu);
        ++index;
    }
    return chosen;
}

std::size_t write_cpu_list(const CpuMask& cpus, char* text, std::size_t size) noexcept {
    std::size_t length = 0;
    const auto put = [&](char c) {
        if (length < size) text[length++] = c;
    };
    for (int cpu = 0; cpu < CpuMask::kCpus; ++cpu) {
        if (!cpus.has(cpu)) continue;
        const int first = cpu;
        while (cpus.has(cpu + 1)) ++cpu;
        if (length > 0) put(',');
        length += write_number(first, text + length, size - length);
        if (cpu == first) continue;
        put('-');
        length += write_number(cpu, text + length, size - length);
    }
    put('\n');
    return length;
}

int count_cpu_list(std::string_view text) noexcept {
    int count = 0;
    while (!text.empty() && text.front() != '\n') {
        const int first = take_number(text);
        int last = first;
        if (!text.empty() && text.front() == '-') {
            text.remove_prefix(1);
            last = take_number(text);
        }
        if (first < 0 || last < first) return 0;
        count += last - first + 1;
        if (!text.empty() && text.front() == ',') text.remove_prefix(1);
    }
    return count;
}

// "processor\t: 12": the first line of a CPU's paragraph. It is known now, or too long to be one.
std::size_t CpuinfoFilter::decide(char* out) noexcept {
    constexpr std::string_view kName = "processor";
    std::string_view line(line_, held_);
    deciding_ = line == "\n";
    line_begin_ = line.back() == '\n';
    keeping_ = true;
    if (line.substr(0, kName.size()) == kName) {
        line.remove_prefix(kName.size());
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        const bool named = line.substr(0, 1) == ":";
        line.remove_prefix(std::min(line.find_first_not_of(": "), line.size()));
        const int cpu = named ? take_number(line) : -1;
        keeping_ = cpu < 0 || kept_.has(cpu);
    }
    return finish(out);
}

std::size_t CpuinfoFilter::feed(std::string_view text, char* out) noexcept {
    std::size_t length = 0;
    for (const char c : text) {
        if (deciding_) {
            line_[held_++] = c;
            if (c == '\n' || held_ == sizeof line_) length += decide(out + length);
            continue;
        }
        if (keeping_) out[length++] = c;
        deciding_ = line_begin_ && c == '\n';
        line_begin_ = c == '\n';
    }
    return length;
}

std::size_t CpuinfoFilter::finish(char* out) noexcept {
    const std::size_t length = keeping_ ? held_ : 0;
    std::memcpy(out, line_, length);
    held_ = 0;
    return length;
}

}  // namespace corun
