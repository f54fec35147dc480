// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/grpc/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "bench/grpc/message.h"

namespace fusewire::bench {
namespace {

constexpr std::chrono::seconds kConnectTimeout(10);

// The queue's next event; a failed one ends the benchmark.
void* NextTag(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  if (!queue->Next(&tag, &ok) || !ok) Die("gRPC completion queue");
  return tag;
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const Options& options, size_t index) {
  grpc::ChannelArguments arguments;
  ApplyFastSettings([&](const char* name, int value) { arguments.SetInt(name, value); });
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt("fusewire.bench.index", static_cast<int>(index));
  arguments.SetSslTargetNameOverride("task");
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel("ipv4:127.0.0.1:" + std::to_string(options.port),
                                                                     ClientCredentials(options), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kConnectTimeout)) Die("gRPC connect");
  return channel;
}

ClientCall::ClientCall(grpc::GenericStub* stub, grpc::CompletionQueue* queue, size_t request_size, size_t reply_size)
    : stub_(stub),
      queue_(queue),
      request_(RequestMessage(request_size, static_cast<uint32_t>(reply_size))),
      landing_(reply_size) {}

void ClientCall::Start() {
  reader_.reset();
  context_ = std::make_unique<grpc::ClientContext>();
  reader_ = stub_->PrepareUnaryCall(context_.get(), kMethodCall, request_, queue_);
  reader_->StartCall();
  reader_->Finish(&reply_, &status_, this);
}

void ClientCall::Finish() {
  if (!status_.ok()) Die("gRPC call: " + status_.error_message());
  if (Land(reply_, landing_.data(), landing_.size()) != landing_.size()) Die("a reply of another size");
}

ClientCalls::ClientCalls(std::vector<std::shared_ptr<grpc::Channel>> channels) {
  for (std::shared_ptr<grpc::Channel>& channel : channels) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(std::move(channel)));
  }
}

void ClientCalls::Add(size_t request_size, size_t reply_size) {
  grpc::GenericStub* stub = stubs_[calls_.size() % stubs_.size()].get();
  calls_.push_back(std::make_unique<ClientCall>(stub, &queue_, request_size, reply_size));
}

void ClientCalls::Run(uint64_t count) {
  uint64_t started = std::min<uint64_t>(count, calls_.size());
  for (uint64_t i = 0; i < started; ++i) calls_[i]->Start();
  for (uint64_t answered = 0; answered < count; ++answered) {
    ClientCall* call = NextAnswered();
    if (started == count) continue;
    call->Start();
    ++started;
  }
}

void ClientCalls::RunOne(size_t index) {
  calls_[index]->Start();
  NextAnswered();
}

ClientCall* ClientCalls::NextAnswered() {
  ClientCall* call = static_cast<ClientCall*>(NextTag(&queue_));
  call->Finish();
  return call;
}

void StreamBulk(const std::shared_ptr<grpc::Channel>& channel, uint64_t count) {
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream = stub.PrepareCall(&context, kMethodSink, &queue);
  stream->StartCall(stream.get());
  NextTag(&queue);
  const grpc::ByteBuffer message = StaticMessage(kBulkBytes);
  for (uint64_t i = 0; i < count; ++i) {
    stream->Write(message, stream.get());
    NextTag(&queue);
  }
  stream->WritesDone(stream.get());
  NextTag(&queue);

  grpc::ByteBuffer reply;
  grpc::Status status;
  stream->Read(&reply, stream.get());
  NextTag(&queue);
  stream->Finish(&status, stream.get());
  NextTag(&queue);
  uint64_t landed_bytes = 0;
  char bytes[sizeof(landed_bytes)];
  if (!status.ok() || Land(reply, bytes, sizeof(bytes)) != sizeof(bytes)) Die("gRPC stream: " + status.error_message());
  std::memcpy(&landed_bytes, bytes, sizeof(bytes));
  if (landed_bytes != count * kBulkBytes) Die("a stream that lost bytes");
}

}  // namespace fusewire::bench
