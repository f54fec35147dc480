// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "bench/fusewire/calls.h"
#include "bench/fusewire/server.h"
#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

std::unique_ptr<task::Task> StartTask(const Options& options) {
  Result<std::unique_ptr<task::Task>> task = task::Task::Start(TaskOptionsFor(options));
  if (!task.ok()) Die(task.status().ToString());
  return std::move(task).value();
}

transport::Address ServerOf(const Options& options) { return {"127.0.0.1", options.port}; }

Sample DriveEcho(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  rpc::Client client(*task, ServerOf(options));
  EchoCall call(kSmallBytes);
  return MeasureRoundTrips(options, [&] { call.RunOn(&client); });
}

Sample DriveEchoChain(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  rpc::Client client(*task, ServerOf(options));
  EchoChain call(kSmallBytes);
  return MeasureRoundTripChain(options, [&](const Again& again) { call.RunOn(&client, again); });
}

Sample DriveCalls(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  rpc::Client client(*task, ServerOf(options));
  Flow flow(&client, kEcho, kCallDepth, kCallBytes, 0);
  return MeasureBursts(options, 2 * kCallBytes, [&](uint64_t count) { flow.Run(count); });
}

Sample DriveBulk(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  rpc::Client client(*task, ServerOf(options));
  Flow flow(&client, kSink, kBulkDepth, 0, kBulkBytes);
  return MeasureBursts(options, kBulkBytes, [&](uint64_t count) { flow.Run(count); });
}

Sample DriveReply(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  rpc::Client client(*task, ServerOf(options));
  SegmentsCall call(options);
  return MeasureBursts(options, call.step_bytes(), [&](uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) call.RunOn(&client);
  });
}

Sample DriveLinks(const Options& options) {
  const std::unique_ptr<task::Task> task = StartTask(options);
  std::vector<std::unique_ptr<rpc::Client>> links;
  EchoCall call(kSmallBytes);
  const auto open_to = [&](size_t count) {
    while (links.size() < count) {
      links.push_back(std::make_unique<rpc::Client>(*task, ServerOf(options)));
      call.RunOn(links.back().get());
    }
  };
  return MeasureLinks(options, open_to, [&](size_t link) { call.RunOn(links[link].get()); });
}

const std::vector<Case> kCases = {
    {"rtt_64B", ServeFusewire, DriveEcho},           {"rtt_64B_busy", ServeFusewire, DriveEchoChain},
    {"calls_100B", ServeFusewire, DriveCalls},       {"bulk_4MiB", ServeFusewire, DriveBulk},
    {"links_1024", ServeFusewire, DriveLinks},       {"reply_200", ServeFusewire, DriveReply},
    {"reply_200_skewed", ServeFusewire, DriveReply},
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) { return fusewire::bench::Main(argc, argv, "fusewire", fusewire::bench::kCases); }
