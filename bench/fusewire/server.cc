// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/fusewire/server.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fusewire::bench {
namespace {

// Reused memory for requests; one piece for each concurrent request.
class Landings {
 public:
  Buffer Take() {
    if (free_.empty()) return Buffer::TryAllocate(kBulkBytes);
    Buffer landing = std::move(free_.back());
    free_.pop_back();
    return landing;
  }
  void GiveBack(Buffer landing) { free_.push_back(std::move(landing)); }

 private:
  Buffers free_;
};

class BulkSink final : public rpc::RequestSink {
 public:
  explicit BulkSink(Landings* landings) : landings_(landings), landing_(landings->Take()), part_(landing_.bytes()) {}
  ~BulkSink() override { landings_->GiveBack(std::move(landing_)); }
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }

 private:
  Landings* const landings_;
  Buffer landing_;
  const Bytes part_;
};

rpc::Method EchoMethod() {
  rpc::Method method;
  method.number = kEcho;
  method.name = "echo";
  method.handle = [](rpc::Request request, rpc::Reply reply) { reply.Send(Status::Ok(), request.head); };
  return method;
}

rpc::Method SinkMethod(Landings* landings) {
  rpc::Method method;
  method.number = kSink;
  method.name = "sink";
  method.make_sink = [landings](ConstBytes,
                                const rpc::SegmentSizes& sizes) -> Result<std::unique_ptr<rpc::RequestSink>> {
    if (sizes.total() != kBulkBytes) return Status::Invalid("a message of another size");
    return std::unique_ptr<rpc::RequestSink>(std::make_unique<BulkSink>(landings));
  };
  method.handle = [](rpc::Request, rpc::Reply reply) { reply.Send(Status::Ok()); };
  return method;
}

rpc::Method SegmentsMethod(Buffers* segments) {
  rpc::Method method;
  method.number = kSegments200;
  method.name = "segments";
  method.handle = [segments](rpc::Request, rpc::Reply reply) {
    Buffers body;
    body.reserve(segments->size());
    for (const Buffer& segment : *segments) body.push_back(Buffer::Wrap(segment.bytes(), nullptr, nullptr));
    reply.Send(Status::Ok(), ConstBytes(), std::move(body));
  };
  return method;
}

task::TransportChoice WireOf(const Options& options) {
  task::TransportChoice wire;
  if (!task::TransportChoiceOf(options.wire, &wire)) Die("--wire is auto, tcp, shm or ucx");
  return wire;
}

}  // namespace

task::TaskOptions TaskOptionsFor(const Options& options) {
  task::TaskOptions task;
  task.wire = WireOf(options);  // TCP by default, as for raw sockets and gRPC
  task.protection.checksums = options.checksums;
  if (!options.tls.empty()) {
    const std::string& folder = options.tls;
    task.protection.tls = {folder + "/task.crt", folder + "/task.key", folder + "/ca.crt", ""};
  }
  task.pool.busy_poll = options.case_name == "rtt_64B_busy";
  return task;
}

void ServeFusewire(const Options& options) {
  Result<std::unique_ptr<task::Task>> task = task::Task::Start(TaskOptionsFor(options));
  if (!task.ok()) Die(task.status().ToString());
  Landings landings;
  Buffers segments;
  for (const size_t size : SegmentSizes(options)) segments.push_back(Buffer::TryAllocate(size));

  std::vector<rpc::Method> methods;
  methods.push_back(EchoMethod());
  methods.push_back(SinkMethod(&landings));
  methods.push_back(SegmentsMethod(&segments));
  Result<std::unique_ptr<rpc::Server>> server =
      rpc::Server::Open(*task.value(), {"127.0.0.1", options.port}, std::move(methods));
  if (!server.ok()) Die(server.status().ToString());
  AnnouncePort(server.value()->address().port);
  while (true) pause();
}

}  // namespace fusewire::bench
