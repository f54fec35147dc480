// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <thread>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

uint64_t ElapsedNs(Clock::time_point from, Clock::time_point to) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

double SecondsSince(Clock::time_point start) { return static_cast<double>(ElapsedNs(start, Clock::now())) * 1e-9; }

// The kernel's CPU clock of any process of ours, to the nanosecond, without a request over the measured wire.
double CpuSeconds(pid_t pid) {
  clockid_t clock{};
  timespec now{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0) DieOfErrno("cpu clock of a process");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double StatusField(pid_t pid, const char* format) {
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) DieOfErrno("open " + path);
  char line[256];
  double value = -1;
  while (value < 0 && std::fgets(line, sizeof(line), file) != nullptr) {
    long number = 0;
    if (std::sscanf(line, format, &number) == 1) value = static_cast<double>(number);
  }
  std::fclose(file);
  if (value < 0) Die(path + " has no line '" + format + "'");
  return value;
}

double ResidentKib(pid_t pid) { return StatusField(pid, "VmRSS: %ld kB"); }
double Threads(pid_t pid) { return StatusField(pid, "Threads: %ld"); }

using Chain = std::function<void(const Again& again)>;

void RunChain(double seconds, const Chain& chain, Latencies* latencies) {
  Clock::time_point before = Clock::now();
  const Clock::time_point end = before + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  chain([&] {
    const Clock::time_point after = Clock::now();
    latencies->Add(ElapsedNs(before, after));
    before = after;
    return after < end;
  });
}

Chain ChainOf(const std::function<void()>& round_trip) {
  return [&round_trip](const Again& again) {
    do {
      round_trip();
    } while (again());
  };
}

void RunRoundTrips(double seconds, const std::function<void()>& round_trip, Latencies* latencies) {
  RunChain(seconds, ChainOf(round_trip), latencies);
}

void ReportLatencies(const Latencies& latencies, const std::string& suffix, Sample* sample) {
  sample->Set("mean_us" + suffix, latencies.MeanUs());
  sample->Set("p50_us" + suffix, latencies.QuantileUs(0.50));
  sample->Set("p99_us" + suffix, latencies.QuantileUs(0.99));
}

}  // namespace

void Latencies::Add(uint64_t ns) {
  const size_t power = static_cast<size_t>(std::bit_width(ns | (kSteps - 1))) - std::bit_width(kSteps - 1);
  const size_t bucket = power * kSteps + (ns >> power);
  ++counts_[std::min(bucket, kBuckets - 1)];
  ++count_;
  sum_ns_ += ns;
}

double Latencies::MeanUs() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_) * 1e-3;
}

double Latencies::QuantileUs(double quantile) const {
  const double wanted = quantile * static_cast<double>(count_);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(seen) < wanted) continue;
    const size_t power = i / kSteps;
    return (static_cast<double>(i % kSteps) + 0.5) * static_cast<double>(uint64_t{1} << power) * 1e-3;
  }
  return 0;
}

Window::Window(pid_t server_pid)
    : server_pid_(server_pid),
      start_(Clock::now()),
      client_cpu_s_(CpuSeconds(getpid())),
      server_cpu_s_(CpuSeconds(server_pid)) {}

double Window::Seconds() const { return SecondsSince(start_); }

void Window::Report(uint64_t ops, uint64_t bytes, Sample* sample) const {
  sample->Set("seconds", Seconds());
  sample->Set("ops", static_cast<double>(ops));
  sample->Set("bytes", static_cast<double>(bytes));
  sample->Set("client_cpu_s", CpuSeconds(getpid()) - client_cpu_s_);
  sample->Set("server_cpu_s", CpuSeconds(server_pid_) - server_cpu_s_);
}

Sample MeasureRoundTrips(const Options& options, const std::function<void()>& round_trip) {
  return MeasureRoundTripChain(options, ChainOf(round_trip));
}

Sample MeasureRoundTripChain(const Options& options, const Chain& chain) {
  Latencies warmup;
  RunChain(options.warmup_s, chain, &warmup);
  Sample sample;
  Latencies latencies;
  const Window window(options.server_pid);
  RunChain(options.seconds, chain, &latencies);
  window.Report(latencies.count(), 2 * kSmallBytes * latencies.count(), &sample);
  ReportLatencies(latencies, "", &sample);
  return sample;
}

Sample MeasureBursts(const Options& options, size_t bytes_per_op, const std::function<void(uint64_t)>& burst) {
  uint64_t ops = 1;
  double burst_s = 0;
  while (true) {
    const Clock::time_point start = Clock::now();
    burst(ops);
    burst_s = SecondsSince(start);
    if (burst_s >= options.warmup_s) break;
    ops *= 2;
  }
  ops = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(ops) * options.seconds / burst_s));
  Sample sample;
  const Window window(options.server_pid);
  burst(ops);
  window.Report(ops, ops * bytes_per_op, &sample);
  return sample;
}

Sample MeasureLinks(const Options& options, const std::function<void(size_t)>& open_to,
                    const std::function<void(size_t)>& round_trip_on) {
  Sample sample;
  Latencies warmup;
  Latencies alone;
  Latencies crowded;
  open_to(1);
  RunRoundTrips(
      options.warmup_s, [&] { round_trip_on(0); }, &warmup);
  RunRoundTrips(
      options.seconds, [&] { round_trip_on(0); }, &alone);
  const double client_kib = ResidentKib(getpid());
  const double server_kib = ResidentKib(options.server_pid);

  const Clock::time_point start = Clock::now();
  open_to(kLinks);
  sample.Set("open_s", SecondsSince(start));
  constexpr double kAdded = kLinks - 1;
  sample.Set("client_kib_per_link", (ResidentKib(getpid()) - client_kib) / kAdded);
  sample.Set("server_kib_per_link", (ResidentKib(options.server_pid) - server_kib) / kAdded);
  sample.Set("client_threads", Threads(getpid()));
  sample.Set("server_threads", Threads(options.server_pid));

  RunRoundTrips(
      options.warmup_s, [&] { round_trip_on(kLinks / 2); }, &warmup);
  const Window window(options.server_pid);
  RunRoundTrips(
      options.seconds, [&] { round_trip_on(kLinks / 2); }, &crowded);
  window.Report(crowded.count(), 2 * kSmallBytes * crowded.count(), &sample);
  ReportLatencies(alone, "_alone", &sample);
  ReportLatencies(crowded, "", &sample);
  return sample;
}

}  // namespace fusewire::bench
