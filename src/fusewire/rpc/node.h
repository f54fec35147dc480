// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Node is one task's part in a cluster: its reactors, its name and limits, its way to the network. Clients and
// servers stand on it. Home: any thread. Owns: the pool, the transport and the budgets. Outlives every Client and
// Server on it. Fails: Start says why.
#ifndef FUSEWIRE_RPC_NODE_H_
#define FUSEWIRE_RPC_NODE_H_

#include <memory>

#include "fusewire/base/status.h"
#include "fusewire/pipe/options.h"
#include "fusewire/pipe/transport_choice.h"
#include "fusewire/reactor/pool.h"
#include "fusewire/transport/transport.h"

namespace fusewire {
namespace rpc {

// The service number that rpc says in its hello.
constexpr uint16_t kRpcService = 1;
// Messages up to this overtake bulk: requests, small answers.
constexpr uint64_t kExpressBytes = 16 * 1024;

struct NodeOptions {
  pipe::Options pipe;
  reactor::PoolOptions pool;
  pipe::TransportChoice wire = pipe::TransportChoice::kAuto;
  transport::TcpOptions tcp;
};

class Node {
 public:
  // Over what options.wire says.
  static Result<std::unique_ptr<Node>> Start(NodeOptions options);
  // Over any transport and any reactors; for tests, simulation, and transports of one's own.
  static std::unique_ptr<Node> Make(pipe::Options options, std::unique_ptr<reactor::Pool> pool,
                                    std::unique_ptr<transport::Transport> transport);
  ~Node();

  pipe::Shared& shared() { return shared_; }
  reactor::Pool& pool() { return *pool_; }
  transport::Transport& transport() { return *transport_; }

 private:
  Node(pipe::Options options, std::unique_ptr<reactor::Pool> pool, std::unique_ptr<transport::Transport> transport);

  pipe::Shared shared_;
  std::unique_ptr<reactor::Pool> pool_;
  std::unique_ptr<transport::Transport> transport_;
};

}  // namespace rpc
}  // namespace fusewire

#endif  // FUSEWIRE_RPC_NODE_H_
