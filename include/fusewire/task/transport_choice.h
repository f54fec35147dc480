// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The transports that connections can run over, by name.
// Home: any thread. Fails: never; a transport that is not available here gives way as its line says.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "fusewire/base/status.h"

namespace fusewire::transport {
struct Protection;
struct TcpOptions;
class Transport;
}  // namespace fusewire::transport

namespace fusewire::task {

enum class TransportChoice {
  // Shared memory to a task of this machine and user, where it can be met; to all others RDMA where both ends have a
  // device for it, and else TCP. With a custom resolver of names (tcp.resolve): TCP.
  kAuto,
  kTcp,
  kShm,  // nothing else: a task elsewhere cannot be reached
  kUcx,  // UCX, whatever it runs over, with every task that has it too; TCP with the others
};

// auto, tcp, shm, and ucx or rdma; false for anything else.
bool TransportChoiceOf(std::string_view text, TransportChoice* choice);

// Any thread but a home. Tries it on this machine, and describes the result in a few words; a failure says why it is
// not available and what would carry its bytes instead.
struct TransportTrial {
  Status status;
  std::string says;
};
TransportTrial TryTransport(TransportChoice choice);

// If `protection` asks for any, every connection that leaves this machine has it; then neither RDMA nor a peer without
// it is used. Fails if a file of it cannot be used, or if it does not fit the choice.
Result<std::unique_ptr<transport::Transport>> MakeTransport(TransportChoice choice, transport::TcpOptions tcp,
                                                            transport::Protection protection);

}  // namespace fusewire::task
