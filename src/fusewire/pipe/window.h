// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The arithmetic of credit, without I/O. Window bytes are header, meta and body of messages; the pipe's own frames are
// free. Home: the pipe's. Owns: the receiver's share of the process-wide budget. Fails: OnCredit, OnReceived and
// OnReturn say kCorrupt when the peer gives, takes or gives back more than is possible.
//   sender                                              receiver
//   sent <= limit                                       consumed <= received <= granted
//   a message starts when sent + cost <= limit          granted - consumed <= standing + reserved
//   limit grows by kCredit, shrinks by kReturn          granted grows by kCredit, shrinks by kReturn
//                                                       all but one large message <= standing + budget + slack
// Why no sender waits for ever: it asks for exactly what it sends next. A pipe in the budget's queue keeps
// nothing that lies idle, and credit that a sender cannot use is recalled; so the first in the queue gets all that the
// others have consumed, and if it needs more than the whole budget, it gets it once everything else has come back.
#pragma once

#include <cstdint>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/buffer/budget.h"

namespace fusewire::pipe {

class SendWindow {
 public:
  // The peer's hello: the credit to start with, which is also what we keep when idle.
  void Open(uint64_t standing_bytes) {
    FUSEWIRE_CHECK(sent_ == 0);
    limit_ = standing_ = standing_bytes;
  }
  bool CanSend(uint64_t cost) const {
    FUSEWIRE_DCHECK(sent_ <= limit_);
    return cost <= limit_ - sent_;
  }
  // Credit that bulk asks for but does not use, so that express messages do not wait for credit that bulk has taken. It
  // begins as long as they have half of it.
  uint64_t set_aside() const { return standing_ / 4; }
  void Take(uint64_t cost);
  Status OnCredit(uint64_t bytes);
  // `cost` is that of the next message; 0: there is none. True if the peer has to be asked for credit: `position` is
  // then the total that this side wants to have sent.
  bool Want(uint64_t cost, uint64_t* position);
  // How much unused credit to give back, because nothing that waits can use it; it is gone at once. 0: nothing to give.
  uint64_t GiveBack();
  uint64_t sent() const { return sent_; }
  uint64_t unused() const { return limit_ - sent_; }

 private:
  uint64_t standing_ = 0;
  uint64_t sent_ = 0;
  uint64_t limit_ = 0;
  uint64_t wanted_ = 0;  // the position that was last reported to the peer
};

class ReceiveWindow {
 public:
  // `on_room`: see Budget::Share.
  ReceiveWindow(uint64_t standing_bytes, Budget* budget, UniqueFunction<void()> on_room = nullptr)
      : standing_(standing_bytes), granted_(standing_bytes), budget_(*budget), share_(budget, std::move(on_room)) {}
  ~ReceiveWindow() { DcheckSums(); }
  // Another standing window than that of the beginning. Nothing has been received or granted yet.
  void Open(uint64_t standing) {
    FUSEWIRE_CHECK(received_ == 0);
    FUSEWIRE_CHECK(granted_ == standing_);
    standing_ = granted_ = standing;
  }
  ReceiveWindow(const ReceiveWindow&) = delete;
  ReceiveWindow& operator=(const ReceiveWindow&) = delete;

  // A message begins.
  Status OnReceived(uint64_t cost);
  // Every message that has begun has arrived completely.
  void OnArrived() { share_.Arrived(); }
  // The layer above is done with this much.
  void Consume(uint64_t cost);
  // The peer wants to have sent `position` bytes in all. More than `message_bytes_max` beyond what it has credit for is
  // of no use to an honest one, and not granted. `arriving`: the bytes of bodies that have begun and have not come yet.
  // A peer has to ask although nearly all that came is consumed: the path holds the rest of the window, which then
  // doubles, as far as much of the budget is free.
  void OnWant(uint64_t position, uint64_t message_bytes_max, uint64_t arriving = 0);
  Status OnReturn(uint64_t bytes);
  // The credit to grant now with a kCredit frame; 0: none. Call after Consume, OnWant and OnReturn, and while waiting()
  // is true also when there is room, and every Pace::kPeriodNs.
  // `idle_ns`: when the pipe's loop last ran out of work. `goes_along`: there is other output now. A frame without it
  // wakes the peer for itself, so the credit of a few messages waits for output, while the peer has half its window.
  uint64_t TakeGrant(int64_t now_ns = 0, int64_t idle_ns = 0, bool goes_along = true);
  // The peer wants more than the budget has at present.
  bool waiting() const { return waiting_; }
  // And is the next to get it.
  bool waits_first() const { return waiting_ && share_.is_first(); }
  // Ask every now and then while reserved_bytes() is not 0. True: others wait for the budget, and what lies idle here
  // has been given up.
  bool IsWanted();
  // True: the peer has more credit than it may keep while others wait. Ask for it with a kRecall frame.
  bool HasSpareCredit() const { return reserved_bytes() > 0 && promised_bytes() > standing_; }
  // What the peer holds of the budget, if so much of the bodies that have begun has not come yet.
  uint64_t HeldByPeer(uint64_t arriving) const {
    FUSEWIRE_DCHECK(arriving <= unconsumed_bytes());
    const uint64_t held = promised_bytes() + arriving;
    return held > standing_ ? held - standing_ : 0;
  }
  // The sum of what the peer has sent and given back.
  uint64_t MovedBytes(uint64_t arriving) const { return received_ - arriving + returned_; }
  // Nothing has come for a while: gives up what covers neither credit that is out nor messages that are held.
  void Rest() { Shrink(); }
  // Nothing will be received any more: gives up everything but what holds messages that are not consumed yet.
  void Close();

  uint64_t reserved_bytes() const { return share_.bytes(); }
  uint64_t unconsumed_bytes() const { return received_ - consumed_; }
  // The bytes that the peer may still send.
  uint64_t promised_bytes() const { return granted_ - received_; }

 private:
  // The sums above: called after each change.
  void DcheckSums() const;
  void Shrink();
  void Grow(int64_t now_ns, int64_t idle_ns);
  uint64_t room() const { return standing_ + reserved_bytes() - exposed(); }
  uint64_t exposed() const { return granted_ - consumed_; }  // what may still arrive, or has arrived and is held

  uint64_t standing_;
  uint64_t granted_;
  uint64_t received_ = 0;
  uint64_t consumed_ = 0;
  uint64_t returned_ = 0;
  uint64_t wanted_ = 0;
  uint64_t large_ = 0;       // a message that is larger than the whole budget, and not consumed yet
  uint64_t unanswered_ = 0;  // messages since there was output
  bool waiting_ = false;
  bool closed_ = false;
  bool grows_ = false;  // with the next grant
  Budget& budget_;
  Budget::Share share_;
};

// What the segments of messages cost beyond their bytes, which is all that both ends count as credit: each is memory of
// its own, aligned, with a Buffer and a place to land. Counted against the budget while the message is held, so that
// messages of tiny segments do not fill memory that the budget knows nothing of. OnReceived fails if one pipe holds
// very many segments while the budget is used up.
class Pieces {
 public:
  explicit Pieces(Budget* budget) : budget_(budget) {}
  ~Pieces();
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  // A message with this many segments begins.
  Status OnReceived(uint16_t segments) {
    if (segments <= 1) return Status::Ok();
    held_bytes_ += segments * kPieceBytes;
    return held_bytes_ <= taken_bytes_ + kFreeBytes ? Status::Ok() : Take();
  }
  // The layer above is done with it.
  void Consume(uint16_t segments) {
    if (segments <= 1) return;
    FUSEWIRE_CHECK(segments * kPieceBytes <= held_bytes_);
    held_bytes_ -= segments * kPieceBytes;
    if (taken_bytes_ > held_bytes_) GiveBack();
  }

 private:
  // Alignment, a Buffer, a place; rounded.
  static constexpr uint64_t kPieceBytes = 128;
  // This much is not counted, like a pipe's standing window: the usual message costs nothing here.
  static constexpr uint64_t kFreeBytes = 256 * 1024;

  Status Take();
  void GiveBack();

  Budget* const budget_;
  uint64_t held_bytes_ = 0;
  uint64_t taken_bytes_ = 0;  // from the budget
};

// Whether a peer uses what it holds of our budget while others wait for it. Only bytes of messages, and credit that is
// given back, are use: anything else that a peer sends moves nothing. Pure: no timer, no clock;
// every call is given the time.
//   in each period in which others wait, the peer must move a share of what it held when the period began:
//   share = all of it; at most 64 KiB a second, or a 240th if that is more
// An honest peer answers a recall at once: it gives back what its next message does not need, or begins that message.
// From then on only the network bounds it, and 16 such peers may share one of 1 MB/s.
class Recall {
 public:
  explicit Recall(int64_t silent_ns_max);

  // Every now and then. `held_bytes`: the peer's part of the budget now, as credit or as the rest of a body that it
  // has begun; `moved_bytes`: the sum of what it has sent and given back, ever; `wanted`: others wait. True: its time
  // is over.
  bool Look(uint64_t held_bytes, uint64_t moved_bytes, bool wanted, int64_t now_ns);
  // For how long others have waited in this period.
  int64_t waited_ns() const { return waited_ns_; }

 private:
  uint64_t ShareOf(uint64_t held_bytes) const;

  const int64_t look_ns_max_;
  const int64_t period_ns_;
  bool in_period_ = false;
  uint64_t due_bytes_ = 0;  // where `moved_bytes` has to be at the end of the period
  int64_t waited_ns_ = 0;
  int64_t looked_ns_ = 0;
};

}  // namespace fusewire::pipe
