// SPDX-License-Identifier: Apache-2.0
// The file in which processes meet: made, read, damaged.
#include "shim/node_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <string>

namespace corun {
namespace {

namespace fs = std::filesystem;
using Slots = std::array<NodeSlot, kNodeSlots>;

NodeSlot somebody(std::uint64_t nonce) {
    NodeSlot slot{};
    slot.nonce = nonce;
    slot.beat = 1;
    slot.pid = 10;
    slot.most = 2;
    slot.weight = 1.0F;
    slot.cpus.add(0);
    std::strcpy(slot.program, "python train.py");
    return slot;
}

class NodeSegment : public testing::Test {
  protected:
    NodeSegment() {
        char name[] = "/tmp/corun-node-test-XXXXXX";
        folder_ = mkdtemp(name);
        path_ = folder_ + "/corun-node-" + std::to_string(geteuid());
    }
    ~NodeSegment() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string content() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void put(const std::string& bytes) const {
        std::ofstream(path_, std::ios::binary) << bytes;
        chmod(path_.c_str(), 0600);
    }
    [[nodiscard]] bool refuses(const char* why) const {
        const NodeFile file(folder_.c_str(), true);
        return file.state() == NodeState::refused && std::strstr(file.problem(), why) != nullptr &&
               std::strstr(file.problem(), path_.c_str()) != nullptr;
    }

    std::string folder_;
    std::string path_;
    std::unique_ptr<Slots> slots_ = std::make_unique<Slots>();
};

TEST_F(NodeSegment, IsMadePrivateAndKeepsWhatIsWritten) {
    EXPECT_EQ(NodeFile(folder_.c_str(), false).state(), NodeState::none);
    EXPECT_FALSE(fs::exists(path_));
    {
        const NodeFile file(folder_.c_str(), true);
        ASSERT_EQ(file.state(), NodeState::open);
        EXPECT_EQ(file.read(*slots_), 0u);
        NodeSlot slot = somebody(7);
        EXPECT_TRUE(file.write(2, slot));
    }
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    const NodeFile file(folder_.c_str(), false);
    ASSERT_EQ(file.state(), NodeState::open);
    EXPECT_EQ(file.read(*slots_), 3u);
    EXPECT_FALSE(node_slot_holds((*slots_)[0]));
    EXPECT_TRUE(node_slot_holds((*slots_)[2]));
    EXPECT_STREQ((*slots_)[2].program, "python train.py");
    NodeSlot nobody{};
    EXPECT_TRUE(file.write(2, nobody));
    EXPECT_EQ(file.read(*slots_), 3u);
    EXPECT_FALSE(node_slot_holds((*slots_)[2]));
    EXPECT_EQ((*slots_)[2].check, 0u);
}

TEST_F(NodeSegment, RefusesWhatIsNotItsOwn) {
    put("no segment");
    EXPECT_TRUE(refuses("is damaged"));
    put(std::string(5000, 'x'));
    EXPECT_TRUE(refuses("is damaged"));
    EXPECT_EQ(content(), std::string(5000, 'x'));  // not ours to repair
    fs::remove(path_);
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    const std::string good = content();
    std::string other = good;
    other[8] = 9;
    put(other);
    EXPECT_TRUE(refuses("another version"));
    put(good);
    chmod(path_.c_str(), 0644);
    EXPECT_TRUE(refuses("not a private file"));
    chmod(path_.c_str(), 0600);
    fs::create_hard_link(path_, folder_ + "/second");
    EXPECT_TRUE(refuses("not a private file"));
    fs::remove(folder_ + "/second");
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    if (geteuid() == 0) {
        ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
        EXPECT_TRUE(refuses("not a private file"));
    }
    fs::rename(path_, folder_ + "/target");
    fs::create_symlink(folder_ + "/target", path_);
    EXPECT_TRUE(refuses("is no file"));
    fs::remove(path_);
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_TRUE(refuses("is no file"));
    fs::remove(path_);
    fs::create_directory(path_);
    EXPECT_TRUE(refuses("cannot be opened"));
}

TEST_F(NodeSegment, IsMadeAnewAfterATruncationAndAfterABoot) {
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    const std::string good = content();
    put("");
    EXPECT_EQ(NodeFile(folder_.c_str(), false).state(), NodeState::none);
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    EXPECT_EQ(content(), good);
    put(std::string(1024, '\0'));  // somebody wrote his slot after it
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    EXPECT_EQ(content().substr(0, 512), good);
    std::string before = good;
    before[20] = before[20] == 'a' ? 'b' : 'a';
    put(before);
    EXPECT_EQ(NodeFile(folder_.c_str(), false).state(), NodeState::none);
    EXPECT_TRUE(fs::exists(path_));
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::none);
    EXPECT_EQ(NodeFile(folder_.c_str(), true).state(), NodeState::open);
    EXPECT_EQ(content(), good);
    NodeFile(folder_.c_str(), true).remove();
    EXPECT_FALSE(fs::exists(path_));
}

TEST_F(NodeSegment, BelievesNoImpossibleSlot) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto holds = [](auto change) {
        NodeSlot slot = somebody(7);
        change(slot);
        slot.check = node_check(slot);
        return node_slot_holds(slot);
    };
    EXPECT_TRUE(holds([](NodeSlot&) {}));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.nonce = 0; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.pid = 0; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.most = 0; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.most = 1 << 30; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.weight = 0.0F; }));
    EXPECT_FALSE(holds([&](NodeSlot& s) { s.weight = nan; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.quota = -1.0F; }));
    EXPECT_FALSE(holds([&](NodeSlot& s) { s.gains[10] = nan; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { s.patience = 1e9F; }));
    EXPECT_FALSE(holds([](NodeSlot& s) { std::memset(s.program, 'x', sizeof s.program); }));
    std::mt19937_64 random(1);
    NodeSlot slot = somebody(7);
    slot.check = node_check(slot);
    for (int i = 0; i < 4096; ++i) {  // every single bit
        NodeSlot torn = slot;
        reinterpret_cast<unsigned char*>(&torn)[i / 8] ^= static_cast<unsigned char>(1U << (i % 8));
        EXPECT_FALSE(node_slot_holds(torn)) << i;
    }
    for (int i = 0; i < 2000; ++i) {
        auto* const words = reinterpret_cast<std::uint64_t*>(&slot);
        for (std::size_t word = 0; word < sizeof slot / 8; ++word) words[word] = random();
        EXPECT_FALSE(node_slot_holds(slot));
    }
}

TEST_F(NodeSegment, DoesNotEndAProgramByItsFileSizeLimit) {
    const NodeFile file(folder_.c_str(), true);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{600, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    NodeSlot slot = somebody(7);
    EXPECT_FALSE(file.write(4, slot));
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_TRUE(file.write(4, slot));
}

TEST(ProcessTimes, AreOfTheProcessMeant) {
    ProcessTimes first;
    ASSERT_EQ(process_times(getpid(), first), ProcessState::there);
    EXPECT_GT(first.start_time, 0u);
    volatile double x = 1.0;
    ProcessTimes later;
    do {
        for (int i = 0; i < 1000000; ++i) x = x * 1.0000001;
        ASSERT_EQ(process_times(getpid(), later), ProcessState::there);
    } while (later.cpu_seconds < first.cpu_seconds + 0.03);
    EXPECT_EQ(later.start_time, first.start_time);
    EXPECT_EQ(process_times(0x3fffffff, later), ProcessState::ended);
    EXPECT_NE(pid_space(), 0u);
}

TEST(ProcessTimes, AreUnknownWhereNoFileCanBeOpened) {
    rlimit before{};
    getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    ProcessTimes times;
    const ProcessState own = process_times(getpid(), times);
    const ProcessState gone = process_state(0x3fffffff, 1, times);
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_EQ(own, ProcessState::unknown);
    EXPECT_EQ(gone, ProcessState::unknown);
}

}  // namespace
}  // namespace corun
