// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#ifndef FUSEWIRE_BENCH_GRPC_CLIENT_H_
#define FUSEWIRE_BENCH_GRPC_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {

// A channel with a connection of its own (gRPC would share one among channels to the same address), connected.
std::shared_ptr<grpc::Channel> OpenChannel(uint16_t port, size_t index);

// One call at a time, with the memory its reply lands in; used again and again.
class ClientCall {
 public:
  ClientCall(grpc::GenericStub* stub, grpc::CompletionQueue* queue, size_t request_size, size_t reply_size);
  void Start();
  void Finish();  // After its tag came out of the queue: checks the reply and lands it.

 private:
  grpc::GenericStub* const stub_;
  grpc::CompletionQueue* const queue_;
  const grpc::ByteBuffer request_;
  std::vector<char> landing_;
  grpc::ByteBuffer reply_;
  grpc::Status status_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader_;  // Refers to context_.
};

// Calls that share one completion queue, driven by the thread that waits for them.
class ClientCalls {
 public:
  explicit ClientCalls(std::vector<std::shared_ptr<grpc::Channel>> channels);
  // Adds a call on the next channel in turn.
  void Add(size_t request_size, size_t reply_size);
  // Makes `count` calls, as many at once as were added, and returns when the last one is answered.
  void Run(uint64_t count);
  // Makes call number `index` alone.
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

#endif  // FUSEWIRE_BENCH_GRPC_CLIENT_H_
