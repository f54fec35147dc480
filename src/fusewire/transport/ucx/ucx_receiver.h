// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The stream over UCX, inwards: records wait until their turn; then small ones are copied to where the handler wants
// them, and loans land there.
// Home: one reactor. Owns: the records, until they are delivered. Fails: corrupt() is what the peer did; or `broken` is
// set, once.
#pragma once

#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <map>
#include <memory>
#include "fusewire/base/bytes.h"
#include "fusewire/transport/transport.h"

namespace fusewire::transport {

// Bytes that are here already, for a handler that says where it wants them.
// Gives it all of `data`, or what it takes until it has closed the connection.
void Feed(ConnectionHandler* handler, const bool* closed, ConstBytes data);

class UcxReceiver {
 public:
  // `end` is notified when a loan has landed. `broken`: why UCX lost the peer; the first reason counts.
  UcxReceiver(UcxEnd* end, Status* broken) : end_(*end), broken_(*broken) {}
  ~UcxReceiver() { Drop(); }
  UcxReceiver(const UcxReceiver&) = delete;
  UcxReceiver& operator=(const UcxReceiver&) = delete;

  // Inside UCX. True: `data` is kept.
  bool OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous);
  void OnReceived(ucs_status_t status, size_t bytes);
  // Inside UCX: the peer violated the protocol; nothing more is taken from it.
  void Refuse(const char* what);
  // Nothing more is delivered, and nothing is taken.
  void Drop();
  bool takes() const { return !dropped_ && corrupt_.ok(); }
  const Status& corrupt() const { return corrupt_; }

  // Whether a record can be delivered now; and how many of our records its sender had seen.
  bool ready() const { return loan_ == Loan::kNone && HasNext(); }
  uint64_t NextSaw() const { return records_.begin()->second.saw; }
  // Returns the record's bytes.
  size_t DeliverNext(ConnectionHandler* handler);
  // Delivers the loan that has landed since, if one has.
  void FinishLoan(ConnectionHandler* handler);

  // A loan is landing. In memory of ours: the handler can have its own back.
  bool receiving() const { return loan_ == Loan::kLanding; }
  bool lands_aside() const { return aside_ != nullptr; }
  // A loan did not land: nothing after it is valid.
  bool lost() const { return loan_ == Loan::kLost; }

  // The peer has closed: nothing follows from this sequence on.
  void SetEnd(uint64_t sequence) { end_sequence_ = sequence; }
  bool has_end() const { return end_sequence_ != UINT64_MAX; }
  // Something that the peer had sent is still to come.
  bool IsShort() const { return receiving() || HasNext() || (has_end() && next_ < end_sequence_); }

  // Sequence of the next record.
  uint64_t next() const { return next_; }
  // The total cost of taken records; whether the peer should be notified.
  uint64_t taken() const { return taken_cost_; }
  bool OwesTaken() const { return taken_cost_ - taken_told_ >= kUcxWindowBytes / 4; }
  void OnTakenTold() { taken_told_ = taken_cost_; }

 private:
  // Of the one loan at a time. kLanded: inside UCX, and not delivered yet. kLost: for good.
  enum class Loan { kNone, kLanding, kLanded, kLost };
  struct Record {
    void* data = nullptr;
    size_t bytes = 0;
    bool loan = false;
    uint64_t saw = 0;
  };
  bool HasNext() const { return !records_.empty() && records_.begin()->first == next_ && next_ < end_sequence_; }
  void ReceiveLoan(ConnectionHandler* handler, const Record& record);

  UcxEnd& end_;
  Status& broken_;
  bool dropped_ = false;
  std::map<uint64_t, Record> records_;  // by sequence
  uint64_t next_ = 0;
  uint64_t end_sequence_ = UINT64_MAX;
  uint64_t came_cost_ = 0, taken_cost_ = 0, taken_told_ = 0;
  Loan loan_ = Loan::kNone;
  ucs_status_t receive_status_ = UCS_OK;
  size_t receive_bytes_ = 0;
  std::unique_ptr<uint8_t[]> aside_;  // where it lands if the handler has less room
  Status corrupt_;                    // the peer violated the protocol, and we were inside UCX
};

}  // namespace fusewire::transport

#endif
