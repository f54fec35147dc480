// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/grpc/server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <memory>
#include <vector>

#include "bench/grpc/message.h"

namespace fusewire::bench {
namespace {

constexpr size_t kCallsWaiting = 256;  // more than any case has in flight: no call waits for a free ServerCall

struct Server {
  grpc::AsyncGenericService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  std::vector<char> landing = std::vector<char>(kBulkBytes);
};

// Serves one call after another.
class ServerCall {
 public:
  explicit ServerCall(Server* server) : server_(server) { Wait(); }

  void Advance(bool ok) {
    switch (state_) {
      case State::kWaiting:
        if (!ok) Die("wait for a call");
        streamed_ = context_->method() == kMethodSink;
        state_ = State::kReading;
        stream_->Read(&request_, this);
        return;
      case State::kReading:
        if (ok) landed_bytes_ += Land(request_, server_->landing.data(), server_->landing.size());
        if (ok && streamed_) {
          stream_->Read(&request_, this);
        } else {
          state_ = State::kReplying;
          stream_->WriteAndFinish(MakeReply(), grpc::WriteOptions(), grpc::Status::OK, this);
        }
        return;
      case State::kReplying: Wait(); return;
    }
  }

 private:
  enum class State { kWaiting, kReading, kReplying };

  void Wait() {
    state_ = State::kWaiting;
    landed_bytes_ = 0;
    stream_.reset();
    context_ = std::make_unique<grpc::GenericServerContext>();
    stream_ = std::make_unique<grpc::GenericServerAsyncReaderWriter>(context_.get());
    server_->service.RequestCall(context_.get(), stream_.get(), server_->queue.get(), server_->queue.get(), this);
  }

  grpc::ByteBuffer MakeReply() const {
    if (streamed_) {
      const grpc::Slice slice(&landed_bytes_, sizeof(landed_bytes_));
      return grpc::ByteBuffer(&slice, 1);
    }
    uint32_t reply_size = 0;
    std::memcpy(&reply_size, server_->landing.data(), sizeof(reply_size));
    return StaticMessage(reply_size);
  }

  Server* const server_;
  State state_ = State::kWaiting;
  bool streamed_ = false;
  uint64_t landed_bytes_ = 0;
  grpc::ByteBuffer request_;
  std::unique_ptr<grpc::GenericServerContext> context_;
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream_;  // Refers to context_.
};

}  // namespace

void ServeGrpc(const Options& options) {
  Server server;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(options.port), ServerCredentials(options), &port);
  ApplyFastSettings([&](const char* name, int value) { builder.AddChannelArgument(name, value); });
  builder.RegisterAsyncGenericService(&server.service);
  server.queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> running = builder.BuildAndStart();
  if (running == nullptr || port == 0) Die("start of the gRPC server");

  std::vector<std::unique_ptr<ServerCall>> calls;
  for (size_t i = 0; i < kCallsWaiting; ++i) calls.push_back(std::make_unique<ServerCall>(&server));
  AnnouncePort(static_cast<uint16_t>(port));
  void* tag = nullptr;
  bool ok = false;
  while (server.queue->Next(&tag, &ok)) static_cast<ServerCall*>(tag)->Advance(ok);
}

}  // namespace fusewire::bench
