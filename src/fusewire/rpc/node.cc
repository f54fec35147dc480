// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/node.h"

#include <utility>

namespace fusewire {
namespace rpc {

Result<std::unique_ptr<Node>> Node::Start(NodeOptions options) {
  FUSEWIRE_TRY(pipe::CheckOptions(options.pipe));
  Result<std::unique_ptr<reactor::Pool>> pool = reactor::Pool::Start(options.pool);
  if (!pool.ok()) return pool.status();
  return Make(std::move(options.pipe), std::move(pool).value(),
              pipe::MakeTransport(options.wire, std::move(options.tcp)));
}

std::unique_ptr<Node> Node::Make(pipe::Options options, std::unique_ptr<reactor::Pool> pool,
                                 std::unique_ptr<transport::Transport> transport) {
  return std::unique_ptr<Node>(new Node(std::move(options), std::move(pool), std::move(transport)));
}

Node::Node(pipe::Options options, std::unique_ptr<reactor::Pool> pool, std::unique_ptr<transport::Transport> transport)
    : shared_(std::move(options)), pool_(std::move(pool)), transport_(std::move(transport)) {}

Node::~Node() {
  transport_.reset();  // its resolver may still have answers for the reactors
  pool_->Close();
}

}  // namespace rpc
}  // namespace fusewire
