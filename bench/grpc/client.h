// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {

// A connected channel with its own connection (gRPC would share one among channels to the same address).
std::shared_ptr<grpc::Channel> OpenChannel(const Options& options, size_t index);

// One call at a time, with the memory of its reply; reused.
class ClientCall {
 public:
  ClientCall(grpc::GenericStub* stub, grpc::CompletionQueue* queue, size_t request_size, size_t reply_size);
  void Start();
  void Finish();  // when the queue has returned its tag: checks the reply and lands it

 private:
  grpc::GenericStub* const stub_;
  grpc::CompletionQueue* const queue_;
  const grpc::ByteBuffer request_;
  std::vector<char> landing_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;  // refers to context_
};

// Calls that share one completion queue, driven by the waiting thread.
class ClientCalls {
 public:
  explicit ClientCalls(std::vector<std::shared_ptr<grpc::Channel>> channels);
  // Adds a call on the next channel in turn.
  void Add(size_t request_size, size_t reply_size);
  // Makes `count` calls, as many at once as were added, and returns when the last one has its reply.
  void Run(uint64_t count);
  // Makes only call number `index`.
  void RunOne(size_t index);

 private:
  ClientCall* NextAnswered();

  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<ClientCall>> calls_;
};

// Streams `count` messages of kBulkBytes through one call of kMethodSink; checks that every byte has landed.
void StreamBulk(const std::shared_ptr<grpc::Channel>& channel, uint64_t count);

}  // namespace fusewire::bench
