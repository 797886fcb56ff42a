// SPDX-License-Identifier: Apache-2.0
// Made by tools/chunk_tree/train.py; see there for the command. Not to be edited.
#pragma once

#include <array>
#include <cstdint>

namespace corun::model {

/// A node: with a feature, on to `below` when it is at most `value`, else to `above`; without
/// one (-1) a leaf, and `value` is log2 of the chunks that a thread takes.
struct ChunkNode {
    std::int16_t feature;
    std::uint8_t below;
    std::uint8_t above;
    float value;
};

// Features: 0: log2(iterations / threads), 1: log2(mean / dispatch), 2: spread, 3: log2(threads).
// clang-format off
inline constexpr std::array<ChunkNode, 63> kChunkTree{{
    {1, 1, 32, 1.6391F},
    {0, 2, 17, 8.9865F},
    {0, 3, 10, 6.3692F},
    {0, 4, 7, 4.3652F},
    {1, 5, 6, -0.2172F},
    {-1, 0, 0, -2.0F},
    {-1, 0, 0, 0.5F},
    {1, 8, 9, -0.2624F},
    {-1, 0, 0, 0.5F},
    {-1, 0, 0, 2.0F},
    {1, 11, 14, -0.6100F},
    {1, 12, 13, -1.5784F},
    {-1, 0, 0, 1.5F},
    {-1, 0, 0, 2.0F},
    {0, 15, 16, 7.6952F},
    {-1, 0, 0, 2.5F},
    {-1, 0, 0, 3.0F},
    {1, 18, 25, -1.1046F},
    {0, 19, 22, 11.1414F},
    {1, 20, 21, -2.4049F},
    {-1, 0, 0, 2.0F},
    {-1, 0, 0, 3.0F},
    {1, 23, 24, -3.3294F},
    {-1, 0, 0, 3.5F},
    {-1, 0, 0, 4.5F},
    {0, 26, 29, 10.7028F},
    {1, 27, 28, 0.4094F},
    {-1, 0, 0, 3.5F},
    {-1, 0, 0, 4.5F},
    {0, 30, 31, 12.0794F},
    {-1, 0, 0, 5.0F},
    {-1, 0, 0, 6.0F},
    {0, 33, 48, 7.1258F},
    {0, 34, 41, 4.1466F},
    {0, 35, 38, 2.5038F},
    {0, 36, 37, 1.7515F},
    {-1, 0, 0, 1.5F},
    {-1, 0, 0, 2.0F},
    {1, 39, 40, 3.3599F},
    {-1, 0, 0, 2.0F},
    {-1, 0, 0, 4.0F},
    {1, 42, 45, 4.6928F},
    {1, 43, 44, 2.7808F},
    {-1, 0, 0, 3.0F},
    {-1, 0, 0, 3.5F},
    {0, 46, 47, 5.3228F},
    {-1, 0, 0, 5.0F},
    {-1, 0, 0, 6.0F},
    {0, 49, 56, 10.4173F},
    {1, 50, 53, 4.1985F},
    {0, 51, 52, 8.3281F},
    {-1, 0, 0, 4.5F},
    {-1, 0, 0, 5.0F},
    {0, 54, 55, 8.3375F},
    {-1, 0, 0, 6.5F},
    {-1, 0, 0, 7.5F},
    {1, 57, 60, 4.3015F},
    {0, 58, 59, 12.0902F},
    {-1, 0, 0, 6.5F},
    {-1, 0, 0, 7.0F},
    {0, 61, 62, 12.0936F},
    {-1, 0, 0, 8.5F},
    {-1, 0, 0, 9.0F},
}};
// clang-format on

}  // namespace corun::model
