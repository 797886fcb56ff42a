// SPDX-License-Identifier: Apache-2.0
// What `corun top` makes of the slots.
#include "tools/node_table.h"

#include <gtest/gtest.h>

#include <cstring>

namespace corun::tools {
namespace {

NodeSlot other(std::uint64_t nonce, std::uint64_t beat) {  // of a namespace that this process is not in
    NodeSlot slot{};
    slot.nonce = nonce;
    slot.beat = beat;
    slot.pid = static_cast<std::int32_t>(nonce);
    slot.pid_space = 1;
    slot.most = 2;
    slot.weight = 1.0F;
    slot.share = 1.0F;
    slot.use = 0.75F;
    slot.ops = 12345.0F;
    slot.gain = 1.31F;
    std::strcpy(slot.state, "guard");
    std::strcpy(slot.arm, "uniform-1");
    std::strcpy(slot.program, "python\x1b[31m train.py");
    return slot;
}

TEST(NodeTable, ShowsWhoMoves) {
    NodeObserver observer;
    NodeTable table = observer.look(100.0, {other(41, 1), other(42, 1)}, 2, 50.0);
    ASSERT_EQ(table.rows.size(), 2u);
    table = observer.look(101.0, {other(41, 2), other(42, 1)}, 2, 52.0);
    ASSERT_EQ(table.rows.size(), 2u);
    EXPECT_EQ(table.rows[0].pid, 41);
    EXPECT_EQ(table.rows[0].state, "guard");
    EXPECT_NEAR(table.rows[0].use, 0.75, 1e-6);
    EXPECT_NEAR(table.rows[0].gain.value(), 1.31, 1e-6);
    EXPECT_EQ(table.rows[1].state, "idle");
    EXPECT_EQ(table.rows[1].share, 0.0);
    EXPECT_EQ(table.rows[1].ops, 0.0);
    EXPECT_NEAR(table.others, 2.0 - 0.75, 1e-6);
    table = observer.look(120.0, {other(41, 3), other(42, 1)}, 2, 52.0);
    EXPECT_EQ(table.rows.size(), 1u);  // nobody can tell, but it has most likely ended
}

TEST(NodeTable, LeavesOutWhoHasEnded) {
    NodeObserver observer;
    NodeSlot here = other(0x3fffffff, 1);
    here.pid_space = pid_space();
    EXPECT_TRUE(observer.look(1.0, {here}, 2, 0.0).rows.empty());
}

TEST(NodeTable, IsATable) {
    NodeObserver observer;
    static_cast<void>(observer.look(100.0, {other(41, 1)}, 2, 50.0));
    const NodeTable table = observer.look(101.0, {other(41, 2)}, 2, 51.0);
    EXPECT_EQ(
        render_node(table, "12:00:00", 0),
        "corun top - 12:00:00, 2 CPUs, 1 program of yours; all others use 0.2 CPUs\n"
        "\n"
        "     PID WEIGHT  SHARE    USE    OPS/S   GAIN  STATE      ARM            PROGRAM\n"
        "     ~41      1   1.00   0.75    12.3k   1.31  guard      uniform-1      python?[31m train.py\n");
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
        const std::string text = render_node(table, "12:00:00", 40);
        end = text.find('\n', at);
        EXPECT_LE((end == std::string::npos ? text.size() : end) - at, 40u);
    }
    const auto json = node_json(table);
    EXPECT_EQ(json["schema"], "corun-top");
    EXPECT_EQ(json["programs"][0]["pid"], 41);
    EXPECT_EQ(json["programs"][0]["visible"], false);
    EXPECT_NEAR(json["programs"][0]["gain"].get<double>(), 1.31, 1e-6);
}

TEST(NodeTable, SaysWhereNobodyIs) {
    try {
        static_cast<void>(read_node("/nowhere/at/all", true));
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::strstr(error.what(), "no program of yours shares this machine"), nullptr);
    }
    EXPECT_TRUE(read_node("/nowhere/at/all", false).empty());
}

}  // namespace
}  // namespace corun::tools
