// SPDX-License-Identifier: Apache-2.0
// Notices an op whose cost has left the band in which it was learned.
#pragma once

namespace corun::model {

/// Two-sided CUSUM on log(duration / learned median), with a slack, so that noise of 15 % and single bursts
/// of 2x do not trip it while a lasting change of 20 % or more does within some tens of samples.
class Drift {
  public:
    /// @return true once when the cost is found to have drifted; the detector then starts anew.
    bool add(double seconds, double learned_median);
    void clear();

  private:
    double up_ = 0.0;
    double down_ = 0.0;
};

}  // namespace corun::model
