// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A benchmark program is one variant (raw, grpc, fusewire) in two roles: `server` announces its port and serves until
// it is killed; `client` runs one case and prints one line of JSON. Both get the name of the case, and prepare for it.
// bench/README.md describes the cases.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fusewire::bench {

using Clock = std::chrono::steady_clock;

inline constexpr size_t kSmallBytes = 64;       // rtt_*, links_*
inline constexpr size_t kCallBytes = 100;       // calls_100B, request and reply
inline constexpr size_t kCallDepth = 64;        // calls_100B, calls in flight
inline constexpr size_t kBulkBytes = 4u << 20;  // bulk_4MiB, one message
inline constexpr size_t kBulkDepth = 4;         // bulk_4MiB, messages in flight where each one is acknowledged
inline constexpr size_t kSegments = 200;        // reply_200
inline constexpr size_t kLinks = 1024;          // links_1024

struct Options {
  std::string case_name;
  uint16_t port = 0;
  double seconds = 1.0;
  double warmup_s = 0.2;
  std::string wire = "tcp";  // ours only
  bool checksums = false;    // ours only
  std::string tls;           // gRPC and ours: a folder with task.crt, task.key and ca.crt; empty: none
  pid_t server_pid = 0;      // the client reads the server's CPU time and memory from the kernel, in all variants
};

// The figures of one run, printed as one flat JSON object.
class Sample {
 public:
  void Set(std::string name, double value) { figures_.emplace_back(std::move(name), value); }
  std::string ToJson(const std::string& variant, const std::string& case_name) const;

 private:
  std::vector<std::pair<std::string, double>> figures_;
};

struct Case {
  const char* name;
  void (*serve)(const Options& options);  // calls AnnouncePort() once it listens; never returns
  Sample (*drive)(const Options& options);
};

// Parses the command line and runs one role of one case. The process ends if it hangs or loses its parent.
int Main(int argc, char** argv, const char* variant, const std::vector<Case>& cases);

// Binds each of the two processes to its own processor, if there are two: for cases without sleeping. Two processes
// that poll on one processor would measure the scheduler's time slices.
void BindApart(bool serves);

// Prints the line with the port that the server's parent reads.
void AnnouncePort(uint16_t port);

// Ends the process with a message that names the failure: a benchmark can't continue without its peer.
[[noreturn]] void Die(const std::string& what);
// Directly after a system call that failed: the message says why, by errno.
[[noreturn]] void DieOfErrno(const std::string& call);

// The sizes of the 200 segments of a reply, from 1 KiB to 100 KiB, in a fixed shuffled order. reply_200 spaces them
// evenly (9.9 MiB in all); reply_200_skewed evenly in their logarithm, many small and few large, as a model's
// parameters are (4.2 MiB in all).
std::vector<size_t> SegmentSizes(const Options& options);

// Latencies in buckets no wider than 1/32 of their value: the memory is constant, the sum is exact. One thread.
class Latencies {
 public:
  Latencies() : counts_(kBuckets, 0) {}
  void Add(uint64_t ns);
  double MeanUs() const;
  double QuantileUs(double quantile) const;
  uint64_t count() const { return count_; }

 private:
  static constexpr size_t kSteps = 64;  // Of each power of two.
  static constexpr size_t kBuckets = 64 * kSteps;
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
};

// Wall time and the CPU time (user and system) of both processes between construction and Report().
class Window {
 public:
  explicit Window(pid_t server_pid);
  double Seconds() const;
  void Report(uint64_t ops, uint64_t bytes, Sample* sample) const;

 private:
  pid_t server_pid_;
  Clock::time_point start_;
  double client_cpu_s_;
  double server_cpu_s_;
};

// Runs `round_trip` back to back, first for the warm-up, then for the measured time.
Sample MeasureRoundTrips(const Options& options, const std::function<void()>& round_trip);

// The same if a reply is a callback: `chain(again)` makes one round trip after the other, calls again() after each,
// and returns when that returns false.
using Again = std::function<bool()>;
Sample MeasureRoundTripChain(const Options& options, const std::function<void(const Again& again)>& chain);

// Runs `burst(n)`, which returns when the peer has all n operations: first doubling n until a burst fills the warm-up,
// then once with the n that fills the measured time. The time of a one-way stream thus ends when the last byte arrives.
Sample MeasureBursts(const Options& options, size_t bytes_per_op, const std::function<void(uint64_t)>& burst);

// Memory and threads of both processes around the opening of 1,024 links, and the round trip on one of them before and
// after. `open_to(n)` brings the number of open links to n, and each new one has carried one round trip by then.
Sample MeasureLinks(const Options& options, const std::function<void(size_t)>& open_to,
                    const std::function<void(size_t)>& round_trip_on);

}  // namespace fusewire::bench
