// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include "bench/grpc/client.h"
#include "bench/grpc/server.h"
#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

std::vector<std::shared_ptr<grpc::Channel>> OpenChannels(const Options& options, size_t count) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (size_t i = 0; i < count; ++i) channels.push_back(OpenChannel(options, i));
  return channels;
}

Sample DriveRoundTrips(const Options& options) {
  ClientCalls calls(OpenChannels(options, 1));
  calls.Add(kSmallBytes, kSmallBytes);
  return MeasureRoundTrips(options, [&] { calls.RunOne(0); });
}

Sample DriveCalls(const Options& options) {
  ClientCalls calls(OpenChannels(options, 1));
  for (size_t i = 0; i < kCallDepth; ++i) calls.Add(kCallBytes, kCallBytes);
  return MeasureBursts(options, 2 * kCallBytes, [&](uint64_t count) { calls.Run(count); });
}

Sample DriveBulkCalls(const Options& options) {
  ClientCalls calls(OpenChannels(options, 1));
  for (size_t i = 0; i < kBulkDepth; ++i) calls.Add(kBulkBytes, 0);
  return MeasureBursts(options, kBulkBytes, [&](uint64_t count) { calls.Run(count); });
}

Sample DriveBulkStream(const Options& options) {
  const std::shared_ptr<grpc::Channel> channel = OpenChannel(options, 0);
  return MeasureBursts(options, kBulkBytes, [&](uint64_t count) { StreamBulk(channel, count); });
}

// 200 calls at once, and the next 200 when the last one of them is answered: what a step without fusion does.
Sample DriveReply(const Options& options, size_t channels) {
  ClientCalls calls(OpenChannels(options, channels));
  size_t step_bytes = 0;
  for (const size_t size : SegmentSizes(options)) {
    calls.Add(kSmallBytes, size);
    step_bytes += size;
  }
  return MeasureBursts(options, step_bytes, [&](uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) calls.Run(kSegments);
  });
}

Sample DriveReplyOneChannel(const Options& options) { return DriveReply(options, 1); }
Sample DriveReplyFourChannels(const Options& options) { return DriveReply(options, 4); }

Sample DriveLinks(const Options& options) {
  std::vector<std::unique_ptr<ClientCalls>> links;
  const auto open_to = [&](size_t count) {
    while (links.size() < count) {
      links.push_back(std::make_unique<ClientCalls>(
          std::vector<std::shared_ptr<grpc::Channel>>{OpenChannel(options, links.size())}));
      links.back()->Add(kSmallBytes, kSmallBytes);
      links.back()->RunOne(0);
    }
  };
  return MeasureLinks(options, open_to, [&](size_t link) { links[link]->RunOne(0); });
}

const std::vector<Case> kCases = {
    {"rtt_64B", ServeGrpc, DriveRoundTrips},
    {"calls_100B", ServeGrpc, DriveCalls},
    {"bulk_4MiB", ServeGrpc, DriveBulkCalls},
    {"bulk_4MiB_stream", ServeGrpc, DriveBulkStream},
    {"links_1024", ServeGrpc, DriveLinks},
    {"reply_200", ServeGrpc, DriveReplyOneChannel},
    {"reply_200_channels", ServeGrpc, DriveReplyFourChannels},
    {"reply_200_skewed", ServeGrpc, DriveReplyOneChannel},
    {"reply_200_skewed_channels", ServeGrpc, DriveReplyFourChannels},
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) { return fusewire::bench::Main(argc, argv, "grpc", fusewire::bench::kCases); }
