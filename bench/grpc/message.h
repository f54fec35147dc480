// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
//
// What the gRPC client and server of the benchmark agree on. Both use gRPC's generic interface with plain bytes: no
// protobuf stands in the way of the peer.
#ifndef FUSEWIRE_BENCH_GRPC_MESSAGE_H_
#define FUSEWIRE_BENCH_GRPC_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>

namespace fusewire::bench {

// One request, one reply. The request begins with the wanted size of the reply: u32, in the order of this machine.
inline constexpr char kMethodCall[] = "/fusewire.bench/Call";
// A stream of requests, then one reply of eight bytes: how many bytes have landed, u64.
inline constexpr char kMethodSink[] = "/fusewire.bench/Sink";

// A message over memory that lives as long as the process: gRPC copies nothing to make it.
grpc::ByteBuffer StaticMessage(size_t size);

// A message of `size` bytes that begins with the wanted size of the reply.
grpc::ByteBuffer RequestMessage(size_t size, uint32_t reply_size);

// Copies a received message, which gRPC delivers as a chain of slices, into the receiver's own memory of `capacity`
// bytes: that is where a receiver of tensors needs it. Returns the message's size.
size_t Land(const grpc::ByteBuffer& message, char* into, size_t capacity);

// The settings of channels and servers that measured best; bench/README.md says what was tried.
template <typename SetInt>
void ApplyFastSettings(const SetInt& set_int) {
  constexpr int kUnlimited = -1;
  set_int("grpc.max_send_message_length", kUnlimited);
  set_int("grpc.max_receive_message_length", kUnlimited);
  set_int("grpc.minimal_stack", 1);
}

}  // namespace fusewire::bench

#endif  // FUSEWIRE_BENCH_GRPC_MESSAGE_H_
