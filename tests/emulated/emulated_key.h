// SPDX-License-Identifier: Apache-2.0
// How the keys of a graph are named where it is emulated: kinds that no hook knows as anything else, and a
// shape for each key.
#pragma once

#include <cstddef>
#include <string>

namespace emulated {

inline std::string kind(const std::string& type) {
    return "Emulated" + type;
}
inline int size_of_key(std::size_t key) {
    return static_cast<int>(key) + 1;
}
inline std::string key_text(const std::string& type, std::size_t key) {
    return kind(type) + "(float[" + std::to_string(size_of_key(key)) + "])";
}

}  // namespace emulated
