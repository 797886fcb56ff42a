// SPDX-License-Identifier: Apache-2.0
// The controller step by step: ops, reference costs, windows made by hand, what it says.
#include "policy/controller.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace corun::policy {
namespace {

constexpr double kCost = 100e-6;

ControllerSettings two_cpus() {
    ControllerSettings settings;
    settings.budget = settings.explorer.max_width = 2;
    return settings;
}

OpInfo op_named(const std::string& kind, bool container = false) {
    return {"fake", kind, "(4)", "example", 4.0, container};
}

class ControllerTest : public testing::Test {
  protected:
    void start(ControllerSettings settings = two_cpus()) { controller_.emplace(settings, 0.0); }

    /// One op of this cost; its reference is frozen by enough of them.
    void sample(OpId op, double seconds, bool plain = true) {
        OpSample sample{.op = op,
                        .begin = now_,
                        .seconds = seconds,
                        .width = plain ? 0 : 1,
                        .solo = true,
                        .plain = plain};
        controller_->sample(sample, frozen_);
        now_ += seconds;
    }
    void make_known(OpId op, double seconds = kCost) {
        for (int i = 0; i < 20; ++i) sample(op, seconds);
    }
    /// A window in which buckets hold this work.
    void window(std::initializer_list<std::pair<std::size_t, double>> work, double wall = 0.25) {
        Window window;
        window.arm = controller_->directive().arm;
        window.wall = window.open = wall;
        for (const auto& [bucket, seconds] : work) window.work.at(bucket) = seconds;
        now_ += wall;
        controller_->window_ended(window, now_);
    }

    std::optional<Controller> controller_;
    std::vector<OpId> frozen_;
    double now_ = 0.0;
};

TEST_F(ControllerTest, ACallThatBuildsIsNoSample) {
    start();
    const OpId op = controller_->add_op(op_named("A"));
    make_known(op);
    for (int i = 0; i < 5; ++i) {
        now_ += 1.0;
        controller_->sample(
            {.op = op, .begin = now_, .seconds = 9 * kCost, .width = 1, .solo = true, .builds = true},
            frozen_);
    }
    EXPECT_FALSE(controller_->explorer().curve(op)->solo(1).has_value());
    now_ += 1.0;
    sample(op, 2 * kCost, false);
    EXPECT_NEAR(controller_->explorer().curve(op)->solo(1).value(), 2 * kCost, 1e-9);
}

TEST_F(ControllerTest, OpsAreKnownByTheirKey) {
    start();
    EXPECT_EQ(controller_->add_op(op_named("A")), 0U);
    EXPECT_EQ(controller_->add_op(op_named("B")), 1U);
    EXPECT_EQ(controller_->add_op(op_named("A")), 0U);
    EXPECT_EQ(controller_->op_count(), 2U);
    EXPECT_EQ(controller_->op(1).info.key(), "fake/B(4)");
}

TEST_F(ControllerTest, AReferenceIsTheMedianOfPlainSamplesWithoutTheFirst) {
    start();
    const OpId op = controller_->add_op(op_named("A"));
    sample(op, 1.0);  // makes its primitives
    sample(op, 0.5);
    for (int i = 0; i < 30; ++i) sample(op, 1e-6, false);  // of another arm: no yardstick
    EXPECT_EQ(controller_->op(op).reference, 0.0);
    for (int i = 0; i < 8; ++i) sample(op, kCost);
    EXPECT_TRUE(frozen_.empty());
    sample(op, 3.0);
    EXPECT_EQ(frozen_, std::vector<OpId>{op});
    EXPECT_NEAR(controller_->op(op).reference, kCost, 1e-9);
    for (int i = 0; i < 100; ++i) sample(op, 2.0 * kCost);
    EXPECT_NEAR(controller_->op(op).reference, kCost, 1e-9);  // frozen
    EXPECT_EQ(frozen_.size(), 1U);
}

TEST_F(ControllerTest, ContainersHaveNoCost) {
    start();
    const OpId op = controller_->add_op(op_named("While", true));
    make_known(op);
    EXPECT_EQ(controller_->op(op).reference, 0.0);
    EXPECT_TRUE(frozen_.empty());
}

TEST_F(ControllerTest, CheapOpsAreNotExplored) {
    start();
    const OpId cheap = controller_->add_op(op_named("Cheap"));
    make_known(cheap, 1e-6);
    EXPECT_GT(controller_->op(cheap).reference, 0.0);
    EXPECT_EQ(controller_->explorer().curve(cheap), nullptr);
}

TEST_F(ControllerTest, ShortAtOneThreadIsNotCheap) {
    ControllerSettings settings = two_cpus();
    settings.policy = "uniform-1";
    start(settings);
    const OpId op = controller_->add_op(op_named("Short"));
    for (int i = 0; i < 20; ++i) sample(op, 2e-6, false);
    EXPECT_GT(controller_->op(op).reference, 0.0);
    EXPECT_FALSE(controller_->cheap(op));
    const OpId cheap = controller_->add_op(op_named("Cheap"));
    make_known(cheap, 2e-6);
    EXPECT_TRUE(controller_->cheap(cheap));
    EXPECT_FALSE(controller_->trivial(cheap));
    // So short that nobody would have brought a team for it.
    const OpId trivial = controller_->add_op(op_named("Trivial"));
    for (int i = 0; i < 20; ++i) sample(trivial, 0.5e-6, false);
    EXPECT_TRUE(controller_->cheap(trivial));
    EXPECT_TRUE(controller_->trivial(trivial));
}

TEST_F(ControllerTest, UnderACeilingOpsAreMeasuredButNotCheap) {
    start();
    const OpId op = controller_->add_op(op_named("Short"));
    for (int i = 0; i < 20; ++i) {
        now_ += 1.0;
        controller_->sample({.op = op, .begin = now_, .seconds = 2e-6, .plain = true, .bounded = true},
                            frozen_);
    }
    EXPECT_GT(controller_->op(op).reference, 0.0);  // or nothing would ever be decided
    EXPECT_FALSE(controller_->cheap(op));
}

TEST_F(ControllerTest, EverythingIsRecordedUntilThePhaseHasAName) {
    start();
    EXPECT_TRUE(controller_->directive().record_all);
    EXPECT_EQ(controller_->directive().arm, kPassThrough);
    EXPECT_EQ(controller_->current(), nullptr);
    const OpId op = controller_->add_op(op_named("A"));
    make_known(op);
    for (int i = 0; i < 3; ++i) {
        window({{1, 0.2}});
        EXPECT_EQ(controller_->current(), nullptr);
    }
    window({{1, 0.2}});
    ASSERT_NE(controller_->current(), nullptr);
    EXPECT_EQ(controller_->state(), State::learn);
    EXPECT_TRUE(controller_->directive().record_all);
}

TEST_F(ControllerTest, UnknownWorkIsLearnedAnewInPassThrough) {
    start();
    make_known(controller_->add_op(op_named("A")));
    for (int i = 0; i < 5; ++i) window({{1, 0.2}});
    ASSERT_NE(controller_->current(), nullptr);
    window({{0, 0.1}, {1, 0.1}});
    window({{0, 0.1}, {1, 0.1}});
    EXPECT_NE(controller_->current(), nullptr);  // may be an odd one
    window({{0, 0.1}, {1, 0.1}});
    EXPECT_EQ(controller_->current(), nullptr);
    EXPECT_TRUE(controller_->directive().record_all);
    EXPECT_EQ(controller_->directive().arm, kPassThrough);
    for (int i = 0; i < 100; ++i) window({{0, 0.1}, {1, 0.1}});
    EXPECT_FALSE(controller_->directive().record_all);  // not for ever
    window({{1, 0.2}});
    EXPECT_NE(controller_->current(), nullptr);  // the phase that was known
    EXPECT_EQ(controller_->phases().size(), 1U);
}

TEST_F(ControllerTest, AStoppedProcessSaysNothing) {
    start();
    make_known(controller_->add_op(op_named("A")));
    for (int i = 0; i < 4; ++i) window({{1, 0.2}});
    const double before = controller_->longest()->seconds();
    Window stopped;
    stopped.wall = 3600.0;
    stopped.work[5] = 1.0;
    stopped.stopped = true;
    now_ += 3600.0;
    controller_->window_ended(stopped, now_);
    window({{1, 0.2}});
    EXPECT_LE(controller_->longest()->seconds(), before + 1.0);
    EXPECT_EQ(controller_->phases().size(), 1U);
}

TEST_F(ControllerTest, ThePhasesTimeHoldsTheSettlingBetweenWindows) {
    start();
    make_known(controller_->add_op(op_named("A")));
    for (int i = 0; i < 4; ++i) window({{1, 0.2}});
    const double before = controller_->longest()->seconds();
    now_ += 0.1;  // settling
    window({{1, 0.2}});
    EXPECT_NEAR(controller_->longest()->seconds(), before + 0.35, 1e-9);
}

TEST_F(ControllerTest, WithOneCpuThereIsNothingToChoose) {
    ControllerSettings settings;
    settings.budget = settings.explorer.max_width = 1;
    start(settings);
    make_known(controller_->add_op(op_named("A")));
    for (int i = 0; i < 200; ++i) {
        window({{1, 0.2}});
        ASSERT_EQ(controller_->directive().arm, kPassThrough);
    }
    EXPECT_EQ(controller_->state(), State::stood_down);
}

TEST_F(ControllerTest, PoliciesAreFoundByName) {
    for (const char* policy :
         {"uniform-2", "s2", "price-0.05", "random", "idle", "pass-through", "price-0.123"}) {
        ControllerSettings settings;
        settings.budget = settings.explorer.max_width = 68;  // its race has the most arms
        settings.policy = policy;
        start(settings);
        EXPECT_LE(controller_->arms().size(), kArmSlots);
        make_known(controller_->add_op(op_named("A")));
        for (int i = 0; i < 100; ++i) window({{1, 0.2}}, 0.5);
        ASSERT_EQ(controller_->state(), State::fixed) << policy;
        const auto arm = static_cast<std::size_t>(controller_->directive().arm);
        EXPECT_EQ(controller_->arms().at(arm).name, policy);
        EXPECT_NE(controller_->explain(*controller_->current()).find(policy), std::string::npos);
    }
}

TEST_F(ControllerTest, EveryStateHasASentence) {
    start();
    const OpId op = controller_->add_op(op_named("A"));
    const OpId container = controller_->add_op(op_named("While", true));
    make_known(op);
    bool stood_down = false;
    for (int i = 0; i < 400; ++i) {
        window({{1, 0.2}});
        if (controller_->current() == nullptr) continue;
        const std::string sentence = controller_->explain(*controller_->current());
        EXPECT_FALSE(sentence.empty());
        stood_down = stood_down || sentence.find("stands down, decided after") != std::string::npos;
        EXPECT_FALSE(controller_->explain_op(op, *controller_->current()).empty());
        EXPECT_EQ(controller_->explain_op(container, *controller_->current()),
                  "a label or holds other ops: nothing is set");
    }
    EXPECT_TRUE(stood_down);
}

}  // namespace
}  // namespace corun::policy
