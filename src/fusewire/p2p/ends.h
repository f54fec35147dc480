// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How the makers of operations hear of their ends: once per Post, and never inside it.
// Home: the endpoint's. Owns: nothing. Fails: never.
#ifndef FUSEWIRE_P2P_ENDS_H_
#define FUSEWIRE_P2P_ENDS_H_

#include <cstdint>
#include <utility>

#include "fusewire/base/list.h"
#include "fusewire/p2p/op.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire {
namespace p2p {

class Ends final : private reactor::Flushable {
 public:
  // While it lives an operation is being posted: `then` waits until what was sent is on its way.
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

  explicit Ends(reactor::Reactor& home) : home_(home) {}

  // It is in no table any more, and its status is set.
  void Report(Op* op);
  // It comes back as mail, in which Report had sent it.
  void OnMail(Op* op);
  uint32_t waiting() const { return waiting_; }

 private:
  void Flush() override;
  static void Tell(Op* op);

  reactor::Reactor& home_;
  bool posting_ = false;
  uint32_t waiting_ = 0;  // in the list or in the mail
  List<Op> later_;
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_ENDS_H_
