// SPDX-License-Identifier: Apache-2.0
#include "shim/node.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "policy/node_view.h"
#include "policy/recent_use.h"
#include "shim/budget_watch.h"
#include "shim/clock.h"
#include "shim/message.h"
#include "shim/node_segment.h"
#include "shim/process.h"

namespace corun {
namespace {

using policy::Claim;
using policy::Evidence;
using policy::Neighbour;

constexpr double kUseSeconds = 0.5;       // over which use and ops per second are taken
constexpr double kGapBusy = 0.5;          // CPUs in use between two visits: it was at work all the time
constexpr double kPatienceFactor = 2.0;   // over the longest such gap
constexpr double kPatienceMemory = 0.99;  // of it, from visit to visit
constexpr double kRefusedSeconds = 5.0;   // until a file that was refused is looked at again
constexpr double kNoneSeconds = 0.5;      // ... one that could not be made, or has yet to be made anew
constexpr double kTakeOverSeconds = 5.0;  // without a move, where no slot is free

// "python train.py": the words without their folders.
void describe_program(char* text, std::size_t size) {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string words;
    for (std::string word; words.size() < size && std::getline(file, word, '\0');) {
        const auto slash = word.rfind('/');
        if (slash != std::string::npos && slash + 1 < word.size()) word.erase(0, slash + 1);
        words += (words.empty() ? "" : " ") + word;
    }
    std::snprintf(text, size, "%s", words.c_str());
}

// As the kernel weighs a process: a step of nice is a quarter more or less; one that only takes what is left
// over counts next to nothing.
double kernel_weight() {
    if (sched_getscheduler(0) == SCHED_IDLE) return 0.003;
    return std::pow(1.25, -getpriority(PRIO_PROCESS, static_cast<id_t>(getpid())));
}

// Anywhere, while that is not known: nobody is missed.
policy::CpuSet own_cpus() {
    policy::CpuSet set;
    set.words.fill(~std::uint64_t{0});
    budget_cpu_set(set);
    return set;
}

class Node {
  public:
    Node() : folder_(process_options()[OptionId::node_folder]), space_(pid_space()) {
        ProcessTimes times;
        if (process_times(getpid(), times) == ProcessState::there) start_time_ = times.start_time;
        if (getrandom(&nonce_, sizeof nonce_, GRND_NONBLOCK) != sizeof nonce_)
            nonce_ = monotonic_nanoseconds() * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(getpid());
        nonce_ |= 1;
        own_.cpus = own_cpus();
        describe_program(own_.program, sizeof own_.program);
    }

    void visit(const NodeNews& news);
    void leave();
    [[nodiscard]] const NodeStory& story() const { return story_; }

  private:
    static constexpr std::size_t kNone = kNodeSlots;

    void tell(const NodeNews& news);
    [[nodiscard]] std::size_t find_slot();
    void take_slot();
    [[nodiscard]] bool is_my_past(const NodeSlot& slot) const;
    [[nodiscard]] bool has_ended(const NodeSlot& slot) const;  ///< false where nobody can tell
    [[nodiscard]] Evidence ask(std::size_t index) const;
    [[nodiscard]] policy::Share look(double now, const NodeFile& file);
    void apply(const policy::Share& share);

    std::string folder_;
    std::uint64_t space_;
    std::uint64_t start_time_ = 0;
    std::uint64_t nonce_ = 0;
    NodeSlot own_{};
    std::size_t slot_ = kNone;
    std::array<NodeSlot, kNodeSlots> slots_{};
    std::size_t count_ = 0;
    std::array<std::uint64_t, kNodeSlots> odd_{};  ///< what a slot that does not hold was seen to be before
    policy::NodeView view_;
    std::vector<Neighbour> neighbours_;
    std::vector<std::size_t> places_;  ///< of the neighbours
    double retry_at_ = 0.0;
    double visited_ = -1.0;
    double cpu_ = 0.0;  ///< seconds at the latest visit
    double used_since_ = 0.0;
    double used_cpu_ = 0.0;
    double used_ops_ = 0.0;
    double gap_ = 0.0;  ///< the longest between visits while at work; fades
    float most_used_ = 0.0F;
    policy::RecentUse recent_;
    double quiet_ = 0.0;  ///< seconds at the latest visit
    int applied_ = 0;     ///< CPUs; 0: all
    double given_ = 1.0;  ///< CPUs
    NodeStory story_;
};

// What this process says of itself.
void Node::tell(const NodeNews& news) {
    const double cpu = cpu_seconds();
    if (visited_ >= 0.0) {
        const double gap = news.now - visited_;
        gap_ *= kPatienceMemory;
        if (cpu - cpu_ > kGapBusy * gap) gap_ = std::max(gap_, gap);
        // Who waits for a CPU in the middle of an op has work for one, whatever it gets.
        const double working = std::clamp(1.0 - (news.quiet - quiet_) / gap, 0.0, 1.0);
        recent_.note(gap, std::max((cpu - cpu_) / gap, working), given_);
        if (gap > policy::kNodeIdle && cpu - cpu_ < policy::kNodeBusy * gap) story_.lent_seconds += gap;
    }
    visited_ = news.now;
    cpu_ = cpu;
    quiet_ = news.quiet;
    if (own_.beat == 0 || news.now - used_since_ >= kUseSeconds) {
        const double seconds = news.now - used_since_;
        if (own_.beat != 0) {
            own_.use = static_cast<float>(std::max(0.0, cpu - used_cpu_) / seconds);
            own_.ops = static_cast<float>(std::max(0.0, news.ops - used_ops_) / seconds);
        }
        used_since_ = news.now;
        used_cpu_ = cpu;
        used_ops_ = news.ops;
    }
    own_.nonce = nonce_;
    ++own_.beat;
    own_.pid = getpid();
    own_.pid_space = space_;
    own_.start_time = start_time_;
    const Budget budget = process_lasting_budget();
    budget_cpu_set(own_.cpus);  // or as it was
    own_.most = budget.cpus;
    own_.group = budget_group();
    own_.quota = own_.group != 0 ? static_cast<float>(std::clamp(budget.quota, 0.0, 65536.0)) : 0.0F;
    own_.weight = static_cast<float>(
        std::clamp(process_options().number(OptionId::weight) * kernel_weight(), 1e-4, 1e4));
    own_.patience =
        static_cast<float>(std::clamp(kPatienceFactor * gap_, policy::kNodeIdle, policy::kNodeIdleMost));
    own_.wanted = static_cast<float>(recent_.wanted());
    own_.gain = static_cast<float>(std::clamp(news.gain, 0.0, 1e6));
    own_.gains = news.gains;
    // Curves are of one op at a time; what runs side by side can use CPUs too.
    most_used_ = std::max(most_used_, own_.use);
    for (std::size_t point = 0; point < own_.gains.size() && own_.gains[point] > 0.0F; ++point)
        own_.gains[point] =
            std::max(own_.gains[point], std::min(static_cast<float>(1U << point), most_used_));
    std::snprintf(own_.state, sizeof own_.state, "%s", news.state);
    std::snprintf(own_.arm, sizeof own_.arm, "%s", news.arm);
}

// The same process before it executed another program.
bool Node::is_my_past(const NodeSlot& slot) const {
    return slot.pid == own_.pid && slot.pid_space == space_ && slot.start_time == start_time_;
}

bool Node::has_ended(const NodeSlot& slot) const {
    if (space_ == 0 || slot.pid_space != space_) return false;
    ProcessTimes times;
    return process_state(slot.pid, slot.start_time, times) == ProcessState::ended;
}

// A slot that nobody holds; one that is being written looks odd for a moment, a damaged one for longer.
std::size_t Node::find_slot() {
    std::size_t free = kNone;
    for (std::size_t i = 0; i < kNodeSlots; ++i) {
        const bool there = i < count_;
        const bool holds = there && node_slot_holds(slots_[i]);
        const bool odd = there && !holds && (slots_[i].nonce != 0 || slots_[i].check != 0);
        const std::uint64_t content = odd ? node_check(slots_[i]) : 0;
        const bool usable = !holds && content == odd_[i];
        odd_[i] = content;
        if (holds && (slots_[i].nonce == nonce_ || is_my_past(slots_[i]))) return i;
        if (free == kNone && (usable || (holds && has_ended(slots_[i])))) free = i;
    }
    return free;
}

void Node::take_slot() {
    if (slot_ != kNone && slot_ < count_ && node_slot_holds(slots_[slot_]) && slots_[slot_].nonce == nonce_)
        return;
    slot_ = find_slot();
    if (slot_ != kNone) return;
    // All are held. By processes of other namespaces, perhaps, of which nobody can tell that they have ended.
    double longest = kTakeOverSeconds;
    for (std::size_t i = 0; i < count_; ++i) {
        const double still = view_.still(slots_[i].nonce, visited_);
        if (slots_[i].pid_space != space_ && still > longest) longest = still, slot_ = i;
    }
}

Evidence Node::ask(std::size_t index) const {
    const NodeSlot& slot = slots_[places_[index]];
    Evidence evidence;
    if (space_ == 0 || slot.pid_space != space_) return evidence;
    ProcessTimes times;
    const ProcessState state = process_state(slot.pid, slot.start_time, times);
    evidence.known = state != ProcessState::unknown;
    evidence.dead = state == ProcessState::ended;
    evidence.cpu_seconds = times.cpu_seconds;
    return evidence;
}

Claim claim_of(const NodeSlot& slot) {
    Claim claim;
    claim.cpus = slot.cpus;
    claim.most = slot.most;
    claim.wanted = slot.wanted;
    claim.weight = slot.weight;
    claim.gains = slot.gains;
    claim.group = slot.group;
    claim.group_quota = slot.quota;
    return claim;
}

policy::Share Node::look(double now, const NodeFile& file) {
    neighbours_.clear();
    places_.clear();
    std::size_t before = 0;
    for (std::size_t i = 0; i < count_; ++i) {
        const NodeSlot& slot = slots_[i];
        if (i == slot_ || !node_slot_holds(slot) || slot.nonce == nonce_) continue;
        if (i < slot_) ++before;
        neighbours_.push_back({slot.nonce, slot.beat, slot.patience, claim_of(slot)});
        places_.push_back(i);
    }
    const policy::Share share = view_.look(now, claim_of(own_), neighbours_, before,
                                           [this](std::size_t index) { return ask(index); });
    for (const std::size_t index : view_.dead()) {
        NodeSlot nobody{};
        static_cast<void>(file.write(places_[index], nobody));
    }
    return share;
}

void Node::visit(const NodeNews& news) {
    if (news.now < retry_at_) return;
    const double before = visited_;
    tell(news);
    NodeFile file(folder_.c_str(), true);
    if (file.state() != NodeState::open) {
        retry_at_ = news.now + (file.state() == NodeState::refused ? kRefusedSeconds : kNoneSeconds);
        if (file.state() == NodeState::refused) {
            const std::string sentence = std::string(file.problem()) +
                                         ": CPUs are not shared out between this user's programs; remove "
                                         "it, or set CORUN_NODE=no";
            if (!story_.refused) message(Level::warning, sentence.c_str());
            story_.refused = true;
        }
        return apply({});
    }
    count_ = file.read(slots_);
    take_slot();
    const policy::Share share = look(news.now, file);
    own_.share = static_cast<float>(share.cpus);
    if (slot_ != kNone && !file.write(slot_, own_)) slot_ = kNone;
    story_.most_peers = std::max(story_.most_peers, share.peers);
    if (applied_ != 0 && before >= 0.0)
        story_.shared_seconds += std::min(news.now - before, policy::kNodeIdle);
    apply(share);
}

void Node::apply(const policy::Share& share) {
    const bool all = share.peers == 0 || share.width >= own_.most;
    applied_ = all ? 0 : share.width;
    given_ = all ? own_.most : share.cpus;
    budget_share_set(all ? 0.0 : share.cpus, slot_ == kNone ? -1 : static_cast<int>(slot_));
}

void Node::leave() {
    NodeFile file(folder_.c_str(), false);
    if (file.state() != NodeState::open) return;
    count_ = file.read(slots_);
    bool others = false;
    for (std::size_t i = 0; i < count_; ++i) {
        if (!node_slot_holds(slots_[i])) continue;
        if (slots_[i].nonce != nonce_ && !has_ended(slots_[i])) {
            others = true;
            continue;
        }
        NodeSlot nobody{};
        static_cast<void>(file.write(i, nobody));
    }
    if (!others) file.remove();
}

double neighbours_use() {
    const std::string folder(process_options()[OptionId::node_folder]);
    const NodeFile file(folder.c_str(), false);
    if (file.state() != NodeState::open) return 0.0;
    const auto slots = std::make_unique<std::array<NodeSlot, kNodeSlots>>();
    const std::size_t count = file.read(*slots);
    const std::uint64_t space = pid_space();
    const policy::CpuSet cpus = own_cpus();
    double use = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
        const NodeSlot& slot = (*slots)[i];
        ProcessTimes times;
        // Of another namespace's nobody can tell at one look whether it has ended.
        if (node_slot_holds(slot) && slot.pid_space == space && slot.pid != getpid() &&
            slot.cpus.meets(cpus) && process_state(slot.pid, slot.start_time, times) == ProcessState::there)
            use += slot.use;
    }
    return use;
}

constinit Node* node = nullptr;  // never destroyed: see driver.cc
constinit bool faulty = false;
constinit bool left = false;  // with the process's end: not to come back

template <typename Body>
void guarded(Body body) noexcept {
    try {
        body();
    } catch (const std::exception& error) {
        faulty = true;
        budget_share_set(0.0);
        message_fault(error.what());
    }
}

}  // namespace

bool node_wanted() noexcept {
    return !faulty && !left && process_options().is(OptionId::node, "auto");
}

void node_visit(const NodeNews& news) noexcept {
    if (!node_wanted()) return;
    guarded([&] {
        if (node == nullptr) node = new Node;
        node->visit(news);
    });
}

void node_end() noexcept {
    if (node == nullptr) return;
    left = true;
    guarded([] { node->leave(); });
}

void node_after_fork() noexcept {
    left = false;
    node = nullptr;  // the parent's; what it holds is small and stays
}

double node_neighbours_use() noexcept {
    double use = 0.0;
    if (node_wanted()) guarded([&] { use = neighbours_use(); });
    return use;
}

NodeStory node_story() noexcept {
    return node != nullptr ? node->story() : NodeStory{};
}

}  // namespace corun
