// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Shared by the gRPC client and server of the benchmark. Both use gRPC's generic interface with plain bytes, without
// protobuf.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "bench/harness/harness.h"

namespace fusewire::bench {

// One request, one reply. The request begins with the requested size of the reply: u32, in this machine's byte order.
inline constexpr char kMethodCall[] = "/fusewire.bench/Call";
// A stream of requests, then one reply of eight bytes: the number of landed bytes, u64.
inline constexpr char kMethodSink[] = "/fusewire.bench/Sink";

// A message over memory that lives as long as the process: gRPC does not copy it.
grpc::ByteBuffer StaticMessage(size_t size);

// A message of `size` bytes that begins with the wanted size of the reply.
grpc::ByteBuffer RequestMessage(size_t size, uint32_t reply_size);

// Copies a received message, which gRPC delivers as a chain of slices, into the receiver's own memory of `capacity`
// bytes: that is where a receiver of tensors needs it. Returns the message's size.
size_t Land(const grpc::ByteBuffer& message, char* into, size_t capacity);

// Of options.tls; insecure without it. Both ends show a certificate, as ours do.
std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const Options& options);
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const Options& options);

// The fastest settings of channels and servers; bench/README.md lists the alternatives.
template <typename SetInt>
void ApplyFastSettings(const SetInt& set_int) {
  constexpr int kUnlimited = -1;
  set_int("grpc.max_send_message_length", kUnlimited);
  set_int("grpc.max_receive_message_length", kUnlimited);
  set_int("grpc.minimal_stack", 1);
}

}  // namespace fusewire::bench
