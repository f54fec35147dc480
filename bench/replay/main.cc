// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Loads one parameter server with the recorded steps of a worker, over a given number of connections; prints one
// line of JSON. bench/scale_suite.py starts it with a real parameter server and the worker that made the record.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "bench/harness/harness.h"
#include "bench/replay/crowd.h"
#include "bench/replay/record.h"

namespace fusewire::bench {
namespace {

constexpr unsigned kLifetimeSeconds = 300;
constexpr rlim_t kOtherFiles = 64;

struct ReplayOptions {
  std::string record;
  CrowdOptions crowd;
  double seconds = 1.0;
  double warmup_s = 0.2;
  pid_t server_pid = 0;
};

bool ParseReplay(int argc, char** argv, ReplayOptions* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = argv[i + 1];
    if (flag == "--record") {
      options->record = value;
    } else if (flag == "--workers") {
      options->crowd.workers = static_cast<size_t>(std::atol(value));
    } else if (flag == "--think-ms") {
      options->crowd.think_ns = static_cast<int64_t>(std::atof(value) * 1e6);
    } else if (flag == "--seed") {
      options->crowd.seed = static_cast<uint32_t>(std::atol(value));
    } else if (flag == "--seconds") {
      options->seconds = std::atof(value);
    } else if (flag == "--warmup") {
      options->warmup_s = std::atof(value);
    } else if (flag == "--server-pid") {
      options->server_pid = static_cast<pid_t>(std::atol(value));
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && !options->record.empty() && options->crowd.workers > 0 && options->crowd.think_ns >= 0 &&
         options->seconds > 0 && options->warmup_s >= 0 && options->server_pid > 0;
}

// A connection is a file, here and in the server.
void CheckFileLimit(size_t workers) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) DieOfErrno("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) DieOfErrno("setrlimit");
  if (limit.rlim_max >= workers + kOtherFiles) return;
  Die("a process may open " + std::to_string(limit.rlim_max) + " files here, which is not enough for " +
      std::to_string(workers) + " connections: raise its hard limit (ulimit -Hn)");
}

void SleepFor(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Sample Replay(const ReplayOptions& options) {
  task::TaskOptions task_options;
  task_options.wire = task::TransportChoice::kTcp;  // its workers represent other machines
  task_options.pool.reactors = 1;
  task_options.pool.name = "replay";
  Result<std::unique_ptr<task::Task>> task = task::Task::Start(std::move(task_options));
  if (!task.ok()) Die(task.status().ToString());
  // Never destroyed: it runs until the process ends.
  static const std::unique_ptr<task::Task> kept = std::move(task).value();
  static const Record steps = ReadRecord(options.record);
  static Crowd crowd(kept.get(), steps, options.crowd);

  const Window opening(options.server_pid);
  crowd.Open();
  Sample sample;
  sample.Set("open_s", opening.Seconds());
  crowd.Go();
  SleepFor(options.warmup_s);
  const uint64_t stalls = crowd.Stalls();
  crowd.Take();
  const Window window(options.server_pid);
  SleepFor(options.seconds);
  const Crowd::Count count = crowd.Take();
  window.Report(count.waits.count(), count.request_bytes + count.reply_bytes, &sample);
  sample.Set("stalls", static_cast<double>(crowd.Stalls() - stalls));
  sample.Set("mean_ms", count.waits.MeanUs() * 1e-3);
  sample.Set("p50_ms", count.waits.QuantileUs(0.5) * 1e-3);
  sample.Set("p99_ms", count.waits.QuantileUs(0.99) * 1e-3);
  sample.Set("calls_per_step", static_cast<double>(steps.steps[0].size()));
  sample.Set("recorded_steps", static_cast<double>(steps.steps.size()));
  sample.Set("request_bytes", static_cast<double>(count.request_bytes));
  sample.Set("reply_bytes", static_cast<double>(count.reply_bytes));
  return sample;
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  fusewire::bench::ReplayOptions options;
  if (!fusewire::bench::ParseReplay(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: %s --record FILE --server-pid PID [--workers N] [--think-ms T] [--seconds S] [--warmup S] "
                 "[--seed N]\n",
                 argv[0]);
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  alarm(fusewire::bench::kLifetimeSeconds);
  std::signal(SIGPIPE, SIG_IGN);
  fusewire::bench::CheckFileLimit(options.crowd.workers);
  const fusewire::bench::Sample sample = fusewire::bench::Replay(options);
  // While the connections are open, the reader of this line may read the server's memory and threads.
  std::printf("%s\n", sample.ToJson("replay", std::to_string(options.crowd.workers)).c_str());
  std::fflush(stdout);
  std::getchar();
  std::_Exit(0);
}
