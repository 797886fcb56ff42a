// SPDX-License-Identifier: Apache-2.0
#include "shim/op_table.h"

#include <algorithm>

#include "model/fnv.h"
#include "shim/process.h"

namespace corun {
namespace {

constexpr std::size_t kVariants = 64;  // shapes of one kind, before they are lumped together
constexpr std::size_t kRecordsLeft = 1024;

std::uint64_t mixed(const std::string& text) {
    const std::uint64_t hash = model::fnv1a(text);
    return hash ^ (hash >> 29);
}

}  // namespace

OpRecord* OpTable::resolve(Source source, OpText& text) {
    policy::OpInfo info{globals.sources[static_cast<std::size_t>(source)].name,
                        text.kind,
                        text.shapes,
                        text.example,
                        text.elements,
                        text.container};
    bool asked = text.asked;
    // A program whose shapes never repeat must not fill the table; and when it is full all the same, what is
    // new shares one key, so that it need not be looked up in every call.
    const auto known = variants_.find(info.kind);
    const std::size_t variants = known == variants_.end() ? 0 : known->second.size();
    if (variants == 0 || known->second.count(info.shapes) == 0) {
        if (variants >= kVariants) {
            info.shapes = "(varied)";
        } else if (controller_->op_count() + kRecordsLeft > kRecords) {
            info = {info.source,   info.container ? "(other container)" : "(other)", "", "", 0.0,
                    info.container};
            asked = false;
        } else {
            variants_[info.kind].insert(info.shapes);
        }
    }
    const std::size_t before = controller_->op_count();
    const model::OpId op = controller_->add_op(info);
    OpRecord& record = globals.records[op];
    if (op < before) return &record;
    record.bucket = static_cast<std::uint16_t>(1 + mixed(info.key()) % (policy::kHistogramBuckets - 1));
    const bool nests = globals.sources[static_cast<std::size_t>(source)].nests;
    const bool known_op = controller_->op(op).reference > 0.0;  // from a profile
    // Whether it is a container is a matter of time, which a frozen run must not depend on.
    const bool container = info.container || (nests && !known_op && process_frozen());
    record.flags.store(
        (container ? std::uint32_t{kContainer} : kWanted | (nests && !known_op ? kUnjudged : 0U)) |
            (asked ? std::uint32_t{kAsked} : 0U),
        std::memory_order_relaxed);
    if (asked) globals.asked_count.fetch_add(1, std::memory_order_relaxed);
    apply_row(op);
    globals.record_count.store(static_cast<std::uint32_t>(op + 1), std::memory_order_release);
    if (known_op) {
        frozen_.push_back(op);
        settle_frozen();
    }
    return &record;
}

void OpTable::rebind(policy::Controller& controller) {
    const policy::Controller& before = *controller_;
    controller_ = &controller;
    assigned_.clear();
    for (model::OpId op = 0; op < before.op_count(); ++op) {
        controller.add_op(before.op(op).info);  // in the order in which they have appeared: the same id
        OpRecord& record = globals.records[op];
        const std::uint32_t kept =
            record.flags.load(std::memory_order_relaxed) & (kContainer | kAsked | kUnjudged | kOwnRegion);
        record.reference.store(0, std::memory_order_relaxed);
        record.flags.store(kept | ((kept & kContainer) != 0 ? 0U : std::uint32_t{kWanted}),
                           std::memory_order_relaxed);
        if (controller.op(op).reference > 0.0) frozen_.push_back(op);
        apply_row(op);
    }
    settle_frozen();
}

void OpTable::apply_row(model::OpId op) {
    for (std::size_t arm = 0; arm < controller_->arms().size() && arm < policy::kArmSlots; ++arm) {
        const policy::WidthRow row = controller_->row(op, static_cast<policy::ArmId>(arm));
        for (std::size_t i = 0; i < row.size(); ++i)
            globals.records[op].width[arm][i].store(row[i], std::memory_order_relaxed);
    }
}

bool OpTable::apply_tables() {
    if (!controller_->take_tables_changed()) return false;
    for (model::OpId op = 0; op < controller_->op_count(); ++op) apply_row(op);
    return true;
}

// A reference cost was frozen: the op counts as work from now on; a cheap one is not timed any more.
void OpTable::settle_frozen() {
    for (const model::OpId op : frozen_) {
        OpRecord& record = globals.records[op];
        const double reference = controller_->op(op).reference;
        // Of what is lumped together one call tells little of the next; an untimed long one would look like a
        // pause.
        const bool lumped =
            controller_->op(op).info.shapes == "(varied)" || controller_->op(op).info.kind == "(other)";
        if (controller_->cheap(op)) record.flags.fetch_or(kCheap, std::memory_order_relaxed);
        if (controller_->trivial(op) && !lumped) record.flags.fetch_or(kTrivial, std::memory_order_relaxed);
        if (reference < kBriefSeconds && !lumped) record.flags.fetch_or(kBrief, std::memory_order_relaxed);
        record.flags.fetch_and(~static_cast<std::uint32_t>(kWanted), std::memory_order_relaxed);
        record.reference.store(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(reference / tick_)),
                               std::memory_order_relaxed);
    }
    frozen_.clear();
}

void OpTable::apply_assignments() {
    for (const model::OpId op : assigned_)
        globals.records[op].flags.fetch_and(~static_cast<std::uint32_t>(kAssigned),
                                            std::memory_order_relaxed);
    assigned_.clear();
    for (const model::Assignment& wish : controller_->assignments()) {
        OpRecord& record = globals.records[wish.op];
        record.assigned.store(static_cast<std::uint16_t>(wish.width), std::memory_order_relaxed);
        record.flags.fetch_or(kAssigned, std::memory_order_relaxed);
        assigned_.push_back(wish.op);
    }
}

}  // namespace corun
