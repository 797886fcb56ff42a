// SPDX-License-Identifier: Apache-2.0
// How many iterations a thread takes at a time in the dynamically scheduled loop of one region: two chunks
// are measured, the tree of model/chunk.h proposes one from what they tell, and a search by measuring
// corrects it. Any chunk is one of the orders in which the program's own may be handed out, so that only its
// time is at stake. Pure: time is passed in.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>

#include "model/chunk.h"
#include "model/curve.h"
#include "policy/region.h"

namespace corun::policy {

/// May the loop of a region of this class be handed out in other chunks? Nothing there has to do with the
/// number of threads, so that a plan made by it outside does not matter.
[[nodiscard]] constexpr bool may_rechunk(RegionClass kind) {
    return may_resize(kind) || kind == RegionClass::planned_outside;
}

/// The chunk for a loop of `iterations`, where `chunk` was found for loops of `usual`: a shorter loop has as
/// many chunks, not fewer. At least `own`.
[[nodiscard]] constexpr std::uint64_t chunk_for(std::uint64_t chunk, std::uint64_t usual,
                                                std::uint64_t iterations, std::uint64_t own) {
    if (iterations < usual && iterations > 0) {
        const int halvings = std::bit_width(usual / iterations) - 1;
        chunk = halvings < 64 ? chunk >> halvings : 0;
    }
    return chunk > own ? chunk : own;
}

/// One call of the region, timed, at the program's own number of threads.
struct ChunkCall {
    int chunk = 1;            ///< that its loop ran with
    double iterations = 0.0;  ///< of one run of the loop
    double loops = 1.0;       ///< runs of it in the call
    int threads = 1;
    double seconds = 0.0;  ///< of the call
    double now = 0.0;      ///< at its end
};

class RegionChunk {
  public:
    /// @param own the program's chunk, >= 1
    /// @param explore share of the run time that trials may cost
    RegionChunk(int own, double explore, double now);

    void timed(const ChunkCall& call);

    [[nodiscard]] int chunk() const { return chunk_; }          ///< for the next call
    [[nodiscard]] double iterations() const { return usual_; }  ///< of the loops that it is for; 0: of none
    /// Until then the region keeps its own number of threads, and each call is to be timed.
    [[nodiscard]] bool settled() const { return stage_ == Stage::settled; }
    [[nodiscard]] const std::string& story() const { return story_; }

    // Kept together, with their reasons.
    static constexpr int kOwnCalls = 5;              // at the program's own chunk, before anything else
    static constexpr int kProbeCalls = 3;            // at another one, which tells what handing out costs
    static constexpr int kProbe = 16;                // that one: what is left of it then is a sixteenth
    static constexpr double kLongIteration = 10e-6;  // seconds: handing it out is not 1 % of it
    static constexpr double kLikeLength = 1.5;       // loops so much longer or shorter share a search
    static constexpr int kUnlikeCalls = 64;          // in a row of another length: begun anew for that
    static constexpr double kLeastDispatch = 5e-9;   // seconds: where the measured difference is noise
    static constexpr double kInitial = 0.002;        // seconds that trials may cost before that was earned

  private:
    enum class Stage : std::uint8_t { own, probe, search, settled };

    void begin_anew(const ChunkCall& call);
    void take(const ChunkCall& call, double each);
    void end_own(const ChunkCall& call);
    void end_probe(const ChunkCall& call);
    void choose();
    void settle(const char* why);
    [[nodiscard]] bool may_spend() const;

    int own_;
    double explore_;
    double began_;
    double now_;
    double spent_ = 0.0;
    Stage stage_ = Stage::own;
    double usual_ = 0.0;
    int unlike_ = 0;
    int chunk_;
    int probe_ = 1;
    model::RobustSamples own_seconds_;  // of an iteration: wall time of the call over all of them
    model::RobustSamples probe_seconds_;
    std::optional<model::ChunkSearch> search_;
    std::string story_;
};

}  // namespace corun::policy
