// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The sending side of one connection: puts small parts into the ring and lends large ones, and knows which Writes are
// unanswered, and why. It calls only the peer's doorbell: the connection answers the Writes.
//   a Write is answered   at once, if it lent nothing and nothing before it is unanswered
//                         once the peer has read its loans, and those before it
//                         with nothing, once there is room, if the ring was full
// Home: that of the connection.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/doorbell.h"
#include "fusewire/transport/shm/ring.h"
#include "fusewire/transport/shm/segment.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// The peer's doorbell at one end of a connection: rung for what this end writes and reads. A dialler's end begins
// without one, because its peer has no home yet, and that home may change once before the peer writes. Owns the peer.
// Change and ChangeLast say why they fail.
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
    doorbell_ = FUSEWIRE_TRY(own.OpenPeer(peer, {files[0].get(), files[1].get(), files[2].get()}, bit));
    return Status::Ok();
  }
  // The same; no other one follows.
  Status ChangeLast(reactor::Doorbell& own, pid_t peer, const Fd* files, uint32_t bit) {
    FUSEWIRE_CHECK(doorbell_ == nullptr);
    FUSEWIRE_TRY(Change(own, peer, files, bit));
    changes_left_ = 0;
    return Status::Ok();
  }
  void Ring() {
    if (doorbell_ != nullptr) doorbell_->Ring();
  }
  void RingSoftly() {
    if (doorbell_ != nullptr) doorbell_->RingSoftly();
  }
  void Drop() { doorbell_.reset(); }

 private:
  std::unique_ptr<reactor::PeerDoorbell> doorbell_;  // null: the peer has no home yet
  int changes_left_ = 2;  // a listener's end has a home, and perhaps one other before it writes
};

class ShmSender {
 public:
  ShmSender(Segment* segment, bool lend, PeerBell* peer_bell);

  // The answer, if it is known at once: how many bytes were taken.
  std::optional<size_t> Write(const ConstBytes* parts, size_t count);
  // A Write is answered when all its loans have been read: the reader finds the next one behind it.
  bool TakesMore() const { return unread_count_ > 0 && unread_count_ < kUnreadMax && !full_; }
  // A Write is unanswered because of its loans; or for any reason.
  bool lends() const { return unread_count_ > 0; }
  bool waits() const { return unread_count_ > 0 || room_due_; }
  // After a Write that is unanswered: it waits for room, and the reader made some before it could know. Nobody rings.
  bool MissedRoom() { return room_due_ && writer_.HasRoom(); }

  uint64_t LoansRead() const { return writer_.LoansRead(); }
  // The answer to the oldest Write whose loans are among the first `loans_read`.
  std::optional<size_t> PopRead(uint64_t loans_read);
  // True: the Write that waits for room has it, and is to be answered.
  bool TakeRoom();

  // Before the memory that was lent can change: the peer discards what it reads there from now on.
  void TakeBackLoans();

 private:
  size_t Put(const ConstBytes* parts, size_t count, size_t* offered);
  void WaitForRoom();
  bool MayLend();
  void ShowPeer(bool softly = false);

  Segment& segment_;
  PeerBell& peer_bell_;
  const bool lend_;
  RingWriter writer_;
  bool peer_reads_ = false;  // it has shown that it can read our memory
  bool full_ = false;        // the ring took less than it was offered: wait for room before the next try
  bool room_due_ = false;    // a Write waits for room
  // Writes that are answered once the peer has read that many loans.
  struct Unread {
    size_t bytes;
    uint64_t loans;
  };
  static constexpr size_t kUnreadMax = 2;
  Unread unread_[kUnreadMax] = {};
  size_t unread_count_ = 0;
};

// Any thread. The bytes that all connections of this process have written so far.
uint64_t BytesWrittenByAll();

}  // namespace fusewire::transport
