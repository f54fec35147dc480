// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer's doorbell at one end of a connection: rung for what this end writes and reads. A dialler's end begins
// without one, as its peer has no home yet; the peer's home may change once more before the peer writes.
// Home: that of the connection. Owns: the rope. Fails: Change and TieLast say why.
#pragma once

#include <sys/types.h>

#include <memory>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

class PeerBell {
 public:
  // Takes the doorbell of the peer's home, or of its next one: `files` are rung, asleep and the eventfd. kCorrupt: the
  // peer has sent one too many.
  Status Change(reactor::Doorbell& own, pid_t peer, const Fd* files, uint32_t bit) {
    FUSEWIRE_CHECK(changes_left_ >= 0);
    if (changes_left_ == 0) {
      return Status::Corrupt("the peer sent another doorbell after the last one that it may send")
          .Next("run the same version of Fusewire on both sides");
    }
    --changes_left_;
    Result<std::unique_ptr<reactor::PeerDoorbell>> rope =
        own.Tie(peer, {files[0].get(), files[1].get(), files[2].get()}, bit);
    if (!rope.ok()) return rope.status();
    rope_ = std::move(rope).value();
    return Status::Ok();
  }
  // The same; no other one follows.
  Status TieLast(reactor::Doorbell& own, pid_t peer, const Fd* files, uint32_t bit) {
    FUSEWIRE_CHECK(rope_ == nullptr);
    FUSEWIRE_TRY(Change(own, peer, files, bit));
    changes_left_ = 0;
    return Status::Ok();
  }
  void Ring() {
    if (rope_ != nullptr) rope_->Ring();
  }
  void Drop() { rope_.reset(); }

 private:
  std::unique_ptr<reactor::PeerDoorbell> rope_;  // null: the peer has no home yet
  int changes_left_ = 2;                         // a listener's end has a home, and perhaps one other before it writes
};

}  // namespace fusewire::transport
