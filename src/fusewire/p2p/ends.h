// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Reports the end of an operation to its maker: once per Post, and never inside it.
// Home: the endpoint's.
#pragma once

#include <cstdint>
#include <utility>

#include "fusewire/base/list.h"
#include "fusewire/p2p/op.h"
#include "fusewire/reactor/drain.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::p2p {

class Ends final : private reactor::Flushable {
 public:
  // While one exists, an operation is being posted: `then` runs only when what was sent is on its way.
  class Posting {
   public:
    explicit Posting(Ends& ends) : ends_(ends), outer_(std::exchange(ends.posting_, true)) {}
    ~Posting() { ends_.posting_ = outer_; }
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;

   private:
    Ends& ends_;
    const bool outer_;
  };

  // `drain` counts the operations.
  Ends(reactor::Reactor& home, reactor::Drain& drain) : home_(home), drain_(drain) {}

  // Of an operation that has left the op table and has its status.
  void Report(Op* op);
  // Of an operation that Report had sent as mail.
  void OnMail(Op* op);

 private:
  void Flush() override;
  void Tell(Op* op);

  reactor::Reactor& home_;
  reactor::Drain& drain_;
  bool posting_ = false;
  List<Op> later_;
};

}  // namespace fusewire::p2p
