// SPDX-License-Identifier: Apache-2.0
#include "emulated.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

// The program's own, so that it is what the shim under it calls.
extern "C" [[gnu::visibility("default")]] int clock_gettime(clockid_t clock, timespec* time) noexcept {
    if (clock != CLOCK_THREAD_CPUTIME_ID) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
    time->tv_sec = static_cast<time_t>(emulated::computed);
    time->tv_nsec = static_cast<long>((emulated::computed - std::floor(emulated::computed)) * 1e9);
    return 0;
}

namespace emulated {
namespace {

using Clock = std::chrono::steady_clock;

double now_seconds() {
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

thread_local double computed = 0.0;

void Cpus::advance(double now) {
    const double passed = std::max(0.0, now - at_);
    for (Job* const job : jobs_) job->left -= passed * job->rate;
    const auto busy = std::count_if(load_.begin(), load_.end(), [](int load) { return load > 0; });
    use_.busy += passed * static_cast<double>(busy);
    if (threads_ > busy) use_.crowd += passed;
    at_ = now;
}

void Cpus::place(Job& job, int width) {
    const auto wanted = std::min(static_cast<std::size_t>(width), load_.size());
    for (int load = 0; job.cpus.size() < wanted; ++load)
        for (std::size_t cpu = 0; cpu < load_.size() && job.cpus.size() < wanted; ++cpu)
            if (load_[cpu] == load) job.cpus.push_back(cpu);
    for (const std::size_t cpu : job.cpus) ++load_[cpu];
    threads_ += static_cast<int>(wanted);
    use_.most = std::max(use_.most, threads_);
}

void Cpus::update_rates() {
    for (Job* const job : jobs_) {
        int most = 1;
        for (const std::size_t cpu : job->cpus) most = std::max(most, load_[cpu]);
        const double before = std::exchange(job->rate, 1.0 / most);
        if (before != job->rate) job->changed.notify_one();
    }
}

void Cpus::compute(int width, double seconds) {
    Job job;
    job.left = seconds;
    std::unique_lock<std::mutex> hold(mutex_);
    const double begin = now_seconds();
    advance(begin);
    const auto at = jobs_.insert(jobs_.end(), &job);
    place(job, width);
    update_rates();
    while (job.left > 0.0) {
        const std::chrono::duration<double> left(job.left / job.rate);
        job.changed.wait_until(hold, Clock::now() + std::chrono::duration_cast<Clock::duration>(left));
        advance(now_seconds());
    }
    jobs_.erase(at);
    for (const std::size_t cpu : job.cpus) --load_[cpu];
    threads_ -= static_cast<int>(job.cpus.size());
    update_rates();
    computed += now_seconds() - begin;
}

Cpus::Use Cpus::use() {
    const std::lock_guard<std::mutex> hold(mutex_);
    advance(now_seconds());
    const Use used = use_;
    use_ = {0.0, 0.0, threads_};
    return used;
}

Executor::Executor(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

Executor::~Executor() {
    {
        const std::lock_guard<std::mutex> hold(mutex_);
        stop_ = true;
    }
    news_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Executor::run(const Graph& graph, const Body& body) {
    std::unique_lock<std::mutex> hold(mutex_);
    graph_ = &graph;
    body_ = &body;
    waits_ = graph.sources;
    left_ = graph.sources.size();
    for (std::uint32_t op = 0; op < left_; ++op)
        if (waits_[op] == 0) ready_.push_back(op);
    news_.notify_all();
    done_.wait(hold, [this] { return left_ == 0; });
}

void Executor::work() {
    std::unique_lock<std::mutex> hold(mutex_);
    while (true) {
        news_.wait(hold, [this] { return stop_ || !ready_.empty(); });
        if (stop_) return;
        const std::uint32_t op = ready_.front();
        ready_.pop_front();
        hold.unlock();
        (*body_)(op);
        hold.lock();
        for (const std::uint32_t next : graph_->successors[op]) {
            if (--waits_[next] > 0) continue;
            ready_.push_back(next);
            news_.notify_one();
        }
        if (--left_ == 0) done_.notify_one();
    }
}

}  // namespace emulated
