// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The stream over UCX, outwards: small parts side by side in messages, large ones as loans, within the peer's window.
// Home: one reactor. Owns: nothing; what is lent is the handler's. Fails: `broken` is set, once.
#pragma once

#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <optional>

namespace fusewire::transport {

class UcxSender final : private UcxLender {
 public:
  // `end` is notified when a loan is returned. `broken`: why UCX lost the peer; the first reason counts.
  UcxSender(UcxEnd* end, Status* broken) : end_(*end), broken_(*broken) {}

  void Begin(UcxPeer* peer, uint64_t peer_id);
  // Nothing is sent any more.
  void Lose() { peer_ = nullptr; }
  UcxPeer* peer() const { return peer_; }

  // The answer, if it is known at once. `seen`: the sequence of the next record that we wait for.
  std::optional<size_t> Write(const ConstBytes* parts, size_t count, uint64_t seen);
  // The answer to the Write that waits, if what it waits for has come.
  std::optional<size_t> Answer();
  // Bytes that the handler wrote before the stream moved.
  void WriteEarly(ConstBytes bytes, uint64_t seen);
  // The sequence behind the last answered Write: what follows need not arrive.
  uint64_t answered() const { return answered_; }

  bool lends() const { return loans_out_ > 0; }
  // A record whose sender had seen our records up to `seen` may answer what we lent: our Write is answered first.
  bool IsAnswerToLoan(uint64_t seen) const { return lent_answer_ > 0 && seen >= lent_to_; }

  // Inside UCX: the peer has taken this much. False: that is more than we sent.
  bool OnTaken(uint64_t cost);
  // Tells the peer what was taken of its records. False: there is no way to it.
  bool SendTaken(uint64_t cost);

 private:
  void OnLoanBack(ucs_status_t status) override;
  size_t Put(const ConstBytes* parts, size_t count, size_t* offered, uint64_t seen);
  UcxSend* NewRecord(UcxRecordKind kind, uint64_t seen);
  bool HasRoom(uint64_t cost) const { return sent_cost_ - taken_by_peer_ + cost <= kUcxWindowBytes; }

  UcxEnd& end_;
  Status& broken_;
  UcxPeer* peer_ = nullptr;
  uint64_t peer_id_ = 0;
  uint64_t next_ = 0, answered_ = 0;  // sequences: of the next record, and behind the last answered Write
  uint64_t sent_cost_ = 0, taken_by_peer_ = 0;
  bool full_ = false;
  size_t loans_out_ = 0;
  uint64_t lent_to_ = 0;    // behind the last loan
  size_t lent_answer_ = 0;  // what the Write is answered once all loans are back; 0: it waits for room
};

}  // namespace fusewire::transport

#endif
