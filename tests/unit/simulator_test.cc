// SPDX-License-Identifier: Apache-2.0
// The simulator on graphs whose time can be worked out by hand, and what it says of bad files.
#include "tools/sim/simulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tools/sim/learn.h"

namespace corun::tools::sim {
namespace {

Machine quiet_machine(int cores) {
    Machine machine;
    machine.name = "test";
    machine.cores = cores;
    machine.reference_core_gbs = 10.0;
    machine.core_gbs = 10.0;
    machine.socket_gbs = 20.0;
    return machine;
}

GraphKey key(const std::string& type, double seconds, int parts, double bytes = 0.0) {
    GraphKey made;
    made.type = type;
    made.parts = parts;
    made.bytes = bytes;
    made.seconds = {seconds};
    return made;
}

// Independent ops.
Graph side_by_side(std::vector<GraphKey> keys, std::vector<policy::KeyIndex> ops) {
    Graph graph{"test", std::move(keys), std::move(ops), {}, {}};
    graph.sources.resize(graph.ops.size());
    return graph;
}

StepResult simulate(const Machine& machine, const Graph& graph, policy::Strategy& strategy,
                    std::vector<Executed>* trace = nullptr) {
    const policy::TaskGraph tasks(graph.ops, graph.sources);
    const Learned exact = learn(machine, graph, "exact", 1);
    Simulator simulator(machine, graph, tasks, exact.table, {}, 1);
    return simulator.run(strategy, trace);
}

TEST(Cost, RooflineAddsWhatIsComputedMovedAndWoken) {
    Machine machine = quiet_machine(8);
    machine.core_slowdown = 2.0;
    machine.dispatch_us = 1.0;
    machine.wake_us = 3.0;
    machine.wake_per_thread_us = 0.5;
    const GraphKey conv = key("Conv", 0.010, 8, 20e6);  // 2 ms of it is memory
    EXPECT_NEAR(cost_parts(machine, conv, 1).seconds(), 0.016 + 0.002 + 1e-6, 1e-9);
    // 4 threads would draw 40 GB/s of 20.
    EXPECT_NEAR(cost_parts(machine, conv, 4).seconds(), 0.004 + 0.001 + 1e-6 + 4.5e-6, 1e-9);
    // 8 pieces on 5 threads take two rounds.
    EXPECT_NEAR(cost_parts(machine, conv, 5).compute, 0.016 * 2 / 8, 1e-9);
}

TEST(Simulator, OneOpAtATimeTakesTheSum) {
    const Machine machine = quiet_machine(4);
    const Graph graph = side_by_side({key("A", 0.004, 4), key("B", 0.002, 1)}, {0, 1, 0});
    const auto grid = policy::make_grid(1, 4);
    const StepResult result = simulate(machine, graph, *grid);
    EXPECT_NEAR(result.seconds, 0.001 + 0.002 + 0.001, 1e-9);
    EXPECT_NEAR(result.busy, 4 * 0.001 + 0.002 + 4 * 0.001, 1e-9);
    EXPECT_EQ(result.ops, 3U);
}

TEST(Simulator, OversubscribedOpsShareCores) {
    const Machine machine = quiet_machine(2);
    const Graph graph = side_by_side({key("A", 0.002, 2)}, {0, 0});
    const auto grid = policy::make_grid(2, 2);
    EXPECT_NEAR(simulate(machine, graph, *grid).seconds, 0.002, 1e-9);
    Machine losing = machine;
    losing.oversubscribed = 0.5;
    const auto again = policy::make_grid(2, 2);
    EXPECT_NEAR(simulate(losing, graph, *again).seconds, 0.003, 1e-9);
}

// Four threads on two CPUs have half as much to do each as two: together they take as long, but for the loss.
TEST(Simulator, MoreThreadsThanCpusDoTheSameWorkInSmallerPieces) {
    const Machine machine = quiet_machine(2);
    const Graph graph = side_by_side({key("A", 0.008, 8)}, {0});
    for (const int width : {2, 4, 8}) {
        const auto grid = policy::make_grid(1, width);
        EXPECT_NEAR(simulate(machine, graph, *grid).seconds, 0.004, 1e-9) << width;
    }
    const Graph two = side_by_side({key("A", 0.008, 8)}, {0, 0});
    const auto grid = policy::make_grid(2, 4);
    EXPECT_NEAR(simulate(machine, two, *grid).seconds, 0.008, 1e-9);
    Machine losing = machine;
    losing.oversubscribed = 0.5;
    const auto again = policy::make_grid(1, 4);
    EXPECT_NEAR(simulate(losing, graph, *again).seconds, 0.006, 1e-9);
}

TEST(Simulator, SiblingsShareTheYieldOfACore) {
    Machine machine = quiet_machine(1);
    machine.smt_yield = {1.0, 1.25};
    const Graph graph = side_by_side({key("A", 0.001, 1)}, {0, 0});
    const auto grid = policy::make_grid(2, 1);
    EXPECT_NEAR(simulate(machine, graph, *grid).seconds, 0.002 / 1.25, 1e-9);
}

TEST(Simulator, MemoryIsShared) {
    Machine machine = quiet_machine(4);
    machine.socket_gbs = 20.0;
    const Graph graph = side_by_side({key("Copy", 0.001, 1, 10e6)}, {0, 0, 0, 0});
    const auto grid = policy::make_grid(4, 1);
    EXPECT_NEAR(simulate(machine, graph, *grid).seconds, 0.002, 1e-6);  // 40 MB at 20 GB/s
}

TEST(Simulator, CachesThatAreSharedStretchMemoryTime) {
    Machine machine = quiet_machine(4);
    machine.socket_gbs = 1000.0;
    machine.cores_per_cache = 2;
    machine.cache_share = 1.5;
    const Graph graph = side_by_side({key("Copy", 0.001, 1, 10e6)}, {0, 0, 0, 0});
    const auto two = policy::make_grid(2, 1);  // on a cache each
    EXPECT_NEAR(simulate(machine, graph, *two).seconds, 0.002, 1e-6);
    const auto four = policy::make_grid(4, 1);
    EXPECT_NEAR(simulate(machine, graph, *four).seconds, 0.0015, 1e-6);
}

TEST(Simulator, ATeamThatChangesItsSizeIsCharged) {
    Machine machine = quiet_machine(4);
    machine.switch_us = 100.0;
    machine.switch_per_thread_us = 10.0;
    const Graph graph = side_by_side({key("A", 0.004, 4), key("B", 0.004, 2)}, {0, 1, 0});
    policy::KeyCosts wide{"A", {0.004, 0.002, 0.0015, 0.001}};
    policy::KeyCosts narrow{"B", {0.004, 0.002, 0.002, 0.002}};
    const policy::CostTable table({wide, narrow}, {100e-6, 10e-6});
    const policy::TaskGraph tasks(graph.ops, graph.sources);
    const auto s1 = policy::make_paper(tasks, table, {true, false, false, false});
    Simulator simulator(machine, graph, tasks, table, {}, 1);
    EXPECT_NEAR(simulator.run(*s1).seconds, 0.001 + 0.002 + 0.001 + 2 * 120e-6, 1e-9);
}

TEST(Simulator, NoCoreHasTwoOpsUnlessItIsOversubscribed) {
    const Machine machine = quiet_machine(8);
    Graph graph = side_by_side({key("A", 0.004, 8), key("B", 0.001, 3), key("C", 0.0005, 1)}, {});
    for (policy::OpIndex op = 0; op < 200; ++op) {
        graph.ops.push_back(op % 3);
        graph.sources.push_back(op < 5 ? std::vector<policy::OpIndex>{}
                                       : std::vector<policy::OpIndex>{op - 5, op - 3});
    }
    const policy::TaskGraph tasks(graph.ops, graph.sources);
    const Learned exact = learn(machine, graph, "exact", 1);
    for (const char* name : {"s3", "price", "idle", "cpa", "heft"}) {
        const auto strategy = policy::strategy_by_name(name, tasks, exact.table, 8);
        Simulator simulator(machine, graph, tasks, exact.table, {}, 1);
        std::vector<Executed> ops;
        simulator.run(*strategy, &ops);
        ASSERT_EQ(ops.size(), graph.ops.size());
        std::vector<double> ends(graph.ops.size());
        for (const Executed& each : ops) ends[each.op] = each.end;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            for (const policy::OpIndex source : graph.sources[ops[i].op])
                EXPECT_GE(ops[i].begin, ends[source] - 1e-12);
            for (std::size_t j = 0; j < i; ++j) {
                if (ops[i].begin >= ops[j].end - 1e-12 || ops[j].begin >= ops[i].end - 1e-12) continue;
                for (const int core : ops[i].cores)
                    EXPECT_EQ(std::count(ops[j].cores.begin(), ops[j].cores.end(), core), 0) << name;
                EXPECT_NE(ops[i].slot, ops[j].slot);
            }
        }
    }
}

TEST(Learn, TheWalksComeNearTheTrueCosts) {
    Machine machine = quiet_machine(32);
    machine.wake_per_thread_us = 5.0;
    machine.noise = 0.02;
    const Graph graph = side_by_side({key("A", 0.010, 1000)}, {0});
    const Learned exact = learn(machine, graph, "exact", 1);
    for (const char* model : {"fitted", "active", "step-2"}) {
        const Learned learned = learn(machine, graph, model, 3);
        EXPECT_GT(learned.samples, 2U) << model;
        const double chosen = exact.table.seconds(0, learned.table.optimum(0));
        EXPECT_LT(chosen, 1.25 * exact.table.seconds(0, exact.table.optimum(0))) << model;
    }
    EXPECT_THROW(static_cast<void>(learn(machine, graph, "step-0", 1)), std::runtime_error);
    EXPECT_THROW(static_cast<void>(learn(machine, graph, "magic", 1)), std::runtime_error);
}

class BadFile : public testing::Test {
  protected:
    std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) / "corun-bad.json";

    std::string said_of_machine(const std::string& content) {
        std::ofstream(path_) << content;
        try {
            static_cast<void>(read_machine(path_));
        } catch (const std::exception& error) {
            return error.what();
        }
        return "";
    }
    std::string said_of_graph(const std::string& content) {
        std::ofstream(path_) << content;
        try {
            static_cast<void>(read_graph(path_));
        } catch (const std::exception& error) {
            return error.what();
        }
        return "";
    }
    void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(BadFile, IsNamedWithWhatIsWrong) {
    const std::string machine = R"({"schema":"corun-machine","version":1,)";
    const std::string graph = R"({"schema":"corun-graph","version":1,)";
    EXPECT_EQ(said_of_machine(machine + R"("cores":4})"), "");
    EXPECT_NE(said_of_machine("{").find("is no JSON"), std::string::npos);
    EXPECT_NE(said_of_machine("{}").find("corun-machine"), std::string::npos);
    EXPECT_NE(said_of_machine(machine + R"("cores":0})").find("\"cores\" must be a whole number"),
              std::string::npos);
    EXPECT_NE(said_of_machine(machine + R"("cores":5,"sockets":2})").find("multiple"), std::string::npos);
    EXPECT_NE(
        said_of_machine(machine + R"("cores":4,"constants":{"wake":1}})").find("there is no constant 'wake'"),
        std::string::npos);
    EXPECT_NE(
        said_of_machine(machine + R"("cores":4,"constants":{"core_gbs":-1}})").find("core_gbs must be from"),
        std::string::npos);
    EXPECT_NE(said_of_graph(graph + R"("keys":[],"ops":[]})").find("\"keys\" must be a list"),
              std::string::npos);
    const std::string keys = R"("keys":[{"type":"A","seconds":{"1":1}}],)";
    EXPECT_EQ(said_of_graph(graph + keys + R"("ops":[[0,[]],[0,[0]]]})"), "");
    EXPECT_NE(said_of_graph(graph + keys + R"("ops":[[0,[]],[0,[1]]]})").find("does not come before"),
              std::string::npos);
    EXPECT_NE(said_of_graph(graph + keys + R"("ops":[[1,[]]]})").find("op 0 has key 1"), std::string::npos);
    EXPECT_NE(
        said_of_graph(graph + R"("keys":[{"type":"A","seconds":{"2":1}}],"ops":[[0,[]]]})").find("width 1"),
        std::string::npos);
    EXPECT_NE(
        said_of_graph(graph + R"("keys":[{"type":"A","seconds":{"1":0}}],"ops":[[0,[]]]})").find("above 0"),
        std::string::npos);
    EXPECT_THROW(static_cast<void>(read_graph("/nowhere/graph.json")), std::runtime_error);
}

}  // namespace
}  // namespace corun::tools::sim
