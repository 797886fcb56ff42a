// SPDX-License-Identifier: Apache-2.0
// Shares of made-up processes, and one process's view of the others under a fake clock.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "policy/node_share.h"
#include "policy/node_view.h"
#include "policy/recent_use.h"

namespace corun::policy {
namespace {

CpuSet cpus(std::size_t first, std::size_t count) {
    CpuSet set;
    for (std::size_t cpu = first; cpu < first + count; ++cpu) set.add(cpu);
    return set;
}

Claim claim(int machine, double weight = 1.0) {
    Claim claim;
    claim.cpus = cpus(0, static_cast<std::size_t>(machine));
    claim.most = machine;
    claim.weight = weight;
    return claim;
}

std::vector<int> widths(const std::vector<Claim>& claims) {
    std::vector<int> result;
    for (const Share& share : share_out(claims)) result.push_back(share.width);
    return result;
}

using Widths = std::vector<int>;

// --- shares
// --------------------------------------------------------------------------------------------------

TEST(NodeShare, IsFair) {
    EXPECT_EQ(widths({claim(2)}), Widths({2}));
    EXPECT_EQ(widths({claim(2), claim(2)}), Widths({1, 1}));
    EXPECT_EQ(widths({claim(16), claim(16)}), Widths({8, 8}));
    EXPECT_EQ(widths({claim(7), claim(7), claim(7)}), Widths({3, 2, 2}));
}

TEST(NodeShare, IsAPartOfACpuWhereThereAreMoreProcesses) {
    const auto shares = share_out(std::vector{claim(2), claim(2), claim(2)});
    for (const Share& share : shares) {
        EXPECT_EQ(share.width, 1);
        EXPECT_NEAR(share.cpus, 2.0 / 3.0, 1e-9);
        EXPECT_EQ(share.peers, 2);
        EXPECT_TRUE(share.crowded);
    }
    const auto heavy = share_out(std::vector{claim(2, 10.0), claim(2), claim(2)});
    EXPECT_NEAR(heavy[0].cpus, 1.0, 1e-9);  // one thread uses no more
    EXPECT_NEAR(heavy[1].cpus, 0.5, 1e-9);
    EXPECT_FALSE(share_out(std::vector{claim(2), claim(2)})[0].crowded);
}

TEST(NodeShare, FollowsWeights) {
    EXPECT_EQ(widths({claim(4, 3.0), claim(4)}), Widths({3, 1}));
    EXPECT_EQ(widths({claim(12, 2.0), claim(12)}), Widths({8, 4}));
    EXPECT_EQ(widths({claim(8, 1000.0), claim(8)}), Widths({7, 1}));  // nobody is left without
}

TEST(NodeShare, NoMoreIsGivenOfBoundCpusThanThereAre) {
    // Eight bound to four CPUs, and one that may run anywhere.
    std::vector<Claim> claims(8, claim(64));
    for (Claim& bound : claims) bound.cpus = cpus(0, 4);
    claims.push_back(claim(64));
    std::vector<Share> shares = share_out(claims);
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(shares[i].width, 1);
        EXPECT_NEAR(shares[i].cpus, 0.5, 1e-9);
        EXPECT_TRUE(shares[i].crowded);
    }
    EXPECT_GE(shares[8].width, 32);
    EXPECT_FALSE(shares[8].crowded);
    // Four bound to a socket of 32: eight each.
    claims.assign(4, claim(64));
    for (Claim& bound : claims) bound.cpus = cpus(0, 32);
    claims.push_back(claim(64));
    shares = share_out(claims);
    int bound = 0;
    for (std::size_t i = 0; i < 4; ++i) bound += shares[i].width;
    EXPECT_EQ(bound, 32);
    EXPECT_EQ(shares[4].width, 32);
}

TEST(NodeShare, ASmallQuotaTakesNothingFromTheOthers) {
    std::vector<Claim> claims(10, claim(8));
    for (Claim& worker : claims) worker.group = 5, worker.group_quota = 1.0;
    claims.push_back(claim(8));
    const auto shares = share_out(claims);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(shares[i].cpus, 0.1, 1e-9);
    EXPECT_EQ(shares[10].width, 7);
    EXPECT_FALSE(shares[10].crowded);
}

TEST(NodeShare, OneQuotaIsSharedByWhoeverIsBoundElsewhere) {
    std::vector<Claim> ranks(4, claim(64));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        ranks[i].cpus = cpus(4 * i, 4);
        ranks[i].group = 9;
        ranks[i].group_quota = 4.0;
    }
    EXPECT_EQ(widths(ranks), Widths({1, 1, 1, 1}));
    for (Claim& rank : ranks) rank.group_quota = 8.0;
    EXPECT_EQ(widths(ranks), Widths({2, 2, 2, 2}));
}

TEST(NodeShare, GoesToWhoGains) {
    Claim flat = claim(8);
    flat.gains = {1.0F, 1.02F, 1.02F, 1.02F};
    EXPECT_EQ(widths({flat, claim(8)}), Widths({1, 7}));
    Claim to_two = claim(8);
    to_two.gains = {1.0F, 1.8F, 1.85F, 1.85F};
    EXPECT_EQ(widths({to_two, claim(8)}), Widths({2, 6}));
    Claim of_three = claim(3);
    of_three.gains = to_two.gains;
    EXPECT_EQ(widths({of_three, claim(3)}), Widths({1, 2}));  // of two that have as much, who gains more
    EXPECT_EQ(widths({flat, flat}), Widths({4, 4}));          // what nobody gains from is nobody's loss
}

TEST(NodeShare, IsNoMoreThanOneCanUse) {
    Claim two = claim(8);
    two.most = 2;
    EXPECT_EQ(widths({two, claim(8)}), Widths({2, 6}));
    EXPECT_EQ(widths({two, two}), Widths({2, 2}));
}

TEST(NodeShare, GoesToWhoWantsIt) {
    // One that has used one CPU (it wants two), beside one that is not known: not half of the machine each.
    std::vector<Claim> claims(2, claim(64));
    claims[0].wanted = 2.0;
    EXPECT_EQ(share_out(claims)[0].width, 2);
    EXPECT_EQ(share_out(claims)[1].width, 62);
    // What nobody wants is shared all the same, for who wants more next.
    claims[1].wanted = 6.0;
    EXPECT_EQ(share_out(claims)[0].width + share_out(claims)[1].width, 64);
    EXPECT_GE(share_out(claims)[0].width, 29);
    // On two CPUs one is everybody's.
    claims.assign(2, claim(2));
    claims[0].wanted = 0.01;
    EXPECT_EQ(share_out(claims)[0].width, 1);
    EXPECT_EQ(share_out(claims)[1].width, 1);
}

TEST(RecentUse, IsWhatWasUsedOrTwiceThatOfAFullShare) {
    RecentUse use;
    const auto work = [&](double seconds, double cpus, double share) {
        for (double t = 0.0; t < seconds; t += 0.08) use.note(0.08, cpus, share);
    };
    work(0.4, 1.0, 64);
    EXPECT_EQ(use.wanted(), 0.0);  // not known yet
    work(0.4, 1.01, 64);
    EXPECT_EQ(use.wanted(), 1.0);  // one thread
    work(0.08, 1.0, 1);
    EXPECT_EQ(use.wanted(), 2.0);  // all that it has: more at once
    for (int share = 2; share < 40; share *= 2) work(0.08, 0.9 * share, share);
    EXPECT_EQ(use.wanted(), 64.0);
    work(4.0, 20.0, 64);
    EXPECT_EQ(use.wanted(), 64.0);
    work(11.0, 10.0, 64);
    EXPECT_EQ(use.wanted(), 16.0);
    for (int i = 0; i < 50; ++i) {  // about half a step more or less: it stays
        work(11.0, i % 2 == 0 ? 8.2 : 14.9, 64);
        EXPECT_EQ(use.wanted(), 16.0);
    }
    work(20.0, 0.05, 64);
    EXPECT_DOUBLE_EQ(use.wanted(), 0.05);
    work(20.0, 0.0, 64);
    EXPECT_GT(use.wanted(), 0.0);
}

// Parts of it run on one thread: to lose CPUs for that would be for ever, as the rest could not show what it
// needs.
TEST(RecentUse, IsTheShareOfWhoUsesHalfOfIt) {
    RecentUse use;
    for (int i = 0; i < 200; ++i) use.note(0.08, 2.2, 4);
    EXPECT_EQ(use.wanted(), 4.0);
    RecentUse other;
    for (int i = 0; i < 200; ++i) other.note(0.08, 1.0, 1);  // a time of one thread, at a share of one
    EXPECT_EQ(other.wanted(), 2.0);
    for (int i = 0; i < 10; ++i) other.note(0.08, 1.3, 2);
    EXPECT_EQ(other.wanted(), 4.0);
}

TEST(RecentUse, OfWhoSeldomWorksIsSmall) {
    RecentUse use;
    for (int i = 0; i < 20; ++i) use.note(1.0, 0.02, 2);  // a brief request each second
    EXPECT_DOUBLE_EQ(use.wanted(), 0.02);
    for (int i = 0; i < 20; ++i) use.note(0.1, 1.9, 2);
    use.note(60.0, 0.0, 2);  // stopped for a minute: it goes on as before
    EXPECT_EQ(use.wanted(), 4.0);
    use.note(0.0, 1e9, 2);
    use.note(-1.0, 1e9, 2);
    EXPECT_EQ(use.wanted(), 4.0);
    use.note(0.1, 1e9, 2);
    EXPECT_EQ(use.wanted(), 65536.0);
}

TEST(NodeShare, IsLentWhileIdle) {
    Claim idle = claim(4);
    idle.idle = true;
    const auto shares = share_out(std::vector{claim(4), idle, claim(4)});
    EXPECT_EQ(shares[0].width, 2);
    EXPECT_EQ(shares[1].width, 0);
    EXPECT_EQ(shares[2].width, 2);
    EXPECT_EQ(shares[0].peers, 1);
}

TEST(NodeShare, IsOfTheCpusThatOneMayRunOn) {
    Claim left = claim(2);
    Claim right = claim(2);
    right.cpus = cpus(2, 2);
    EXPECT_EQ(widths({left, right}), Widths({2, 2}));  // pinned apart
    EXPECT_EQ(share_out(std::vector{left, right})[0].peers, 0);
    Claim inner = claim(2);
    EXPECT_EQ(widths({inner, claim(8)}), Widths({2, 6}));
    EXPECT_EQ(widths({left, right, claim(4)}), Widths({2, 1, 1}));
}

TEST(NodeShare, KeepsToACommonQuota) {
    Claim member = claim(64);
    member.most = 4;
    member.group = 77;
    member.group_quota = 4.0;
    EXPECT_EQ(widths({member, member}), Widths({2, 2}));
    EXPECT_EQ(widths({member, member, claim(64)}), Widths({2, 2, 60}));
    member.group_quota = 1.5;
    member.most = 2;
    const auto shares = share_out(std::vector{member, member});
    EXPECT_EQ(shares[0].width, 1);
    EXPECT_NEAR(shares[0].cpus, 0.75, 1e-9);
}

TEST(NodeShare, DoesNotTrustWhatIsClaimed) {
    Claim boast = claim(4);
    boast.gains = {1.0F, 1e30F, 1e30F, 1e30F};
    EXPECT_EQ(widths({boast, claim(4)}), Widths({2, 2}));
    EXPECT_NEAR(throughput(boast.gains, 4), 4.0, 1e-6);
    EXPECT_NEAR(throughput({1.0F, 0.1F, 0.2F}, 4), 1.0, 1e-6);  // never falls
    EXPECT_NEAR(throughput({}, 3), 3.0, 1e-9);
    EXPECT_NEAR(throughput({1.0F, 1.6F}, 8), 6.4, 1e-6);  // beyond what is known in proportion
    EXPECT_NEAR(throughput({1.0F, 1.6F, 2.0F}, 3), 1.8, 1e-6);
    Claim nowhere;
    EXPECT_EQ(widths({nowhere, claim(2)}), Widths({1, 2}));
}

TEST(NodeShare, NeverGivesMoreThanThereIs) {
    std::uint64_t random = 1;
    const auto next = [&](std::uint64_t most) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        return (random >> 33) % most;
    };
    for (int round = 0; round < 3000; ++round) {
        std::vector<Claim> claims(1 + next(9));
        for (Claim& one : claims) {
            one.cpus = cpus(next(6), 1 + next(12));
            one.most = static_cast<int>(1 + next(20));
            one.weight = 0.1 + static_cast<double>(next(50));
            for (float& gain : one.gains) gain = static_cast<float>(next(5)) * 0.7F;
            one.idle = next(4) == 0;
        }
        const auto shares = share_out(claims);
        CpuSet all;
        double given = 0.0;
        for (std::size_t i = 0; i < claims.size(); ++i) {
            if (claims[i].idle) {
                EXPECT_EQ(shares[i].width, 0);
                continue;
            }
            all.unite(claims[i].cpus);
            given += shares[i].cpus;
            EXPECT_GE(shares[i].width, 1);
            EXPECT_LE(shares[i].width, std::max(1, std::min(claims[i].most, claims[i].cpus.count())));
            EXPECT_GT(shares[i].cpus, 0.0);
            EXPECT_LE(shares[i].cpus, shares[i].width);
        }
        EXPECT_LE(given, all.count() + 1e-6);
    }
}

// --- the view
// --------------------------------------------------------------------------------------------------

/// Processes on a machine of two CPUs, seen by one of them.
class World {
  public:
    struct Other {
        Neighbour neighbour;
        Evidence evidence;
        double use = 1.0;
        bool beats = true;
        bool there = true;
    };

    explicit World(int machine = 2) : machine_(machine) {}

    Other& add(std::uint64_t nonce) {
        Other& other = others_[nonce];
        other.neighbour.nonce = nonce;
        other.neighbour.claim = claim(machine_);
        other.evidence.known = true;
        return other;
    }
    Other& operator[](std::uint64_t nonce) { return others_.at(nonce); }

    Share look() {
        std::vector<Neighbour> neighbours;
        std::vector<Other*> places;
        for (auto& [nonce, other] : others_) {
            if (!other.there) continue;
            neighbours.push_back(other.neighbour);
            places.push_back(&other);
        }
        asked_ = 0;
        return view.look(now_, claim(machine_), neighbours, 0, [&](std::size_t i) {
            ++asked_;
            return places[i]->evidence;
        });
    }

    /// @return the share after so many seconds, looking as often as a process does
    Share run(double seconds) {
        Share share;
        for (const double end = now_ + seconds; now_ < end;) {
            now_ += kNodeVisit;
            for (auto& [nonce, other] : others_) {
                if (other.beats) ++other.neighbour.beat;
                other.evidence.cpu_seconds += other.use * kNodeVisit;
            }
            share = look();
        }
        return share;
    }

    /// Seconds until the share's width is `width`; more than `most` when it does not become that.
    double until(int width, double most) {
        const double begin = now_;
        while (run(kNodeVisit).width != width)
            if (now_ - begin > most) break;
        return now_ - begin;
    }

    [[nodiscard]] int asked() const { return asked_; }

    NodeView view;

  private:
    int machine_;
    double now_ = 1000.0;
    int asked_ = 0;
    std::map<std::uint64_t, Other> others_;
};

TEST(NodeView, AloneHasEverything) {
    World world;
    const Share share = world.look();
    EXPECT_EQ(share.width, 2);
    EXPECT_EQ(share.peers, 0);
}

TEST(NodeView, ComesDownAtOnceAndNobodyIsAsked) {
    World world;
    world.look();
    world.add(7);
    EXPECT_EQ(world.look().width, 1);
    EXPECT_EQ(world.run(10.0).width, 1);
    EXPECT_EQ(world.asked(), 0);
}

TEST(NodeView, GetsAllBackWhenTheOtherLeaves) {
    World world;
    world.add(7);
    EXPECT_EQ(world.run(5.0).width, 1);
    world[7].there = false;
    EXPECT_EQ(world.look().width, 2);
}

TEST(NodeView, GetsAllBackWhenTheOtherIsKilled) {
    World world;
    world.add(7);
    EXPECT_EQ(world.run(5.0).width, 1);
    world[7].beats = false;
    world[7].evidence.dead = true;
    EXPECT_LT(world.until(2, 5.0), 0.5);
    EXPECT_EQ(world.view.dead(), std::vector<std::size_t>({0}));
}

TEST(NodeView, GetsAllBackWhenAnotherIsKilledWhomItCannotAskAbout) {
    World world;
    world.add(7).evidence.known = false;
    EXPECT_EQ(world.run(5.0).width, 1);
    world[7].beats = false;
    EXPECT_LT(world.until(2, 5.0), 0.7);
    EXPECT_TRUE(world.view.dead().empty());
    world[7].beats = true;
    EXPECT_EQ(world.run(kNodeVisit).width, 1);
    world[7].neighbour.patience = 2.0;
    world.run(10.0);
    world[7].beats = false;
    const double waited = world.until(2, 5.0);
    EXPECT_GT(waited, 1.9);
    EXPECT_LT(waited, 2.7);
}

TEST(NodeView, BorrowsFromWhoIsBlockedOrStopped) {
    World world;
    world.add(7);
    EXPECT_EQ(world.run(5.0).width, 1);
    world[7].beats = false;
    world[7].use = 0.0;
    EXPECT_LT(world.until(2, 5.0), 0.8);
    EXPECT_TRUE(world.view.idle(7));
    world.run(60.0);
    world[7].beats = true;
    EXPECT_EQ(world.run(kNodeVisit).width, 1);
    EXPECT_FALSE(world.view.idle(7));
}

TEST(NodeView, KeepsNothingForWhoOnlyWorksNowAndThen) {
    World world;
    World::Other& other = world.add(7);  // it beats all the time
    EXPECT_EQ(world.run(1.0).width, 1);
    other.neighbour.claim.wanted = 0.2;
    EXPECT_EQ(world.run(1.0).width, 2);
    other.neighbour.claim.wanted = 1.0;
    EXPECT_EQ(world.run(kNodeVisit).width, 1);
    // By the light one itself: its fair share, for the moments at which it works.
    Claim light = claim(64);
    light.wanted = 0.1;
    NodeView own;
    const std::vector<Neighbour> others{{1, 1, kNodeIdle, claim(64)}};
    EXPECT_EQ(own.look(0.0, light, others, 0, [](std::size_t) { return Evidence{}; }).width, 32);
    // It says little, but stands still in what is none of our ops.
    other.neighbour.claim.wanted = 0.2;
    world.run(12.0);
    other.beats = false;
    EXPECT_EQ(world.run(2.0).width, 1);
}

TEST(NodeView, ManyWhoWantLittleWantSomething) {
    World world;
    for (std::uint64_t nonce = 1; nonce <= 9; ++nonce) world.add(nonce).neighbour.claim.wanted = 0.2;
    EXPECT_EQ(world.run(1.0).width, 1);
    for (std::uint64_t nonce = 1; nonce <= 9; ++nonce) world[nonce].neighbour.claim.wanted = 0.05;
    EXPECT_EQ(world.run(1.0).width, 2);
}

TEST(NodeView, KnowsALongOpFromAPause) {
    World world(8);
    world.add(7);
    EXPECT_EQ(world.run(5.0).width, 4);
    world[7].beats = false;
    world[7].use = 4.0;
    EXPECT_EQ(world.run(3.0).width, 4);
    world[7].use = 1.0;  // between ops it prepares data on one CPU
    EXPECT_EQ(world.run(1.0).width, 7);
}

TEST(NodeView, BelievesNoSegmentOfThePast) {
    World world;
    world.add(7).beats = false;
    world[7].evidence.known = false;
    EXPECT_EQ(world.look().width, 1);  // may be somebody
    EXPECT_EQ(world.run(0.6).width, 2);
}

TEST(NodeView, DoesNotFollowWhoComesAndGoes) {
    World world;
    world.add(7);
    world.run(5.0);
    int rises = 0;
    int before = 1;
    for (int turn = 0; turn < 40; ++turn) {  // a minute of it
        world[7].beats = turn % 2 == 1;
        world[7].use = turn % 2 == 1 ? 1.0 : 0.0;
        const Share share = world.run(1.5);
        const int width = share.peers == 0 ? 2 : share.width;  // alone it has all
        if (width > before) ++rises;
        before = width;
    }
    EXPECT_GE(rises, 1);
    EXPECT_LE(rises, 4);
    world[7].beats = true;
    world[7].use = 1.0;
    World without = world;
    without[7].there = false;  // for good, after a minute
    EXPECT_EQ(without.run(kNodeVisit).width, 2);
    world.run(kNodeCalm + 5.0);  // quiet again: at once as ever
    world[7].there = false;
    EXPECT_EQ(world.look().width, 2);
}

}  // namespace
}  // namespace corun::policy
