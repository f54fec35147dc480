// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One connection's stream over UCX: a sender and a receiver, which share the peer, and what UCX reports of both.
// Home: one reactor. Owns: both. Fails: broken() says why UCX lost the peer, receiver().corrupt() what the peer did.
#pragma once

#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include "fusewire/transport/ucx/ucx_receiver.h"
#include "fusewire/transport/ucx/ucx_sender.h"

namespace fusewire::transport {

// How long memory that is in the peer's hands may stay there after the end, before the way to the peer is cut.
constexpr int64_t kUcxSettleNs = 300 * kMillisecondNs;

class UcxStreamHandler {
 public:
  // At home, outside of UCX: something has come of the stream.
  virtual void OnStream() = 0;

 protected:
  ~UcxStreamHandler() = default;
};

class UcxStream final : private UcxEnd, private UcxPeerUser {
 public:
  // `its_worker` null: there is no UCX here, and the stream does nothing.
  UcxStream(UcxWorker* its_worker, UcxStreamHandler* handler);
  ~UcxStream();

  // The number that the peer writes to; 0: there is no UCX here.
  uint64_t id() const { return id_; }
  void Begin(UcxPeer* peer, uint64_t peer_id);
  UcxSender& sender() { return sender_; }
  UcxReceiver& receiver() { return receiver_; }
  const Status& broken() const { return broken_; }

  // Asks UCX what has come. True: something was done.
  bool Look() { return worker->progress().Look(); }
  void DeliverLater() { worker->DeliverLater(this); }
  void Touch() { worker->progress().Touch(); }

  // Whether neither UCX nor the peer holds memory of the handler's.
  bool settled() const { return !sender_.lends() && !receiver_.receiving(); }
  // Ends the endpoint, and with it all that is under way there.
  void Cut();
  // Waits until it is settled. A peer that does not give memory back is cut off.
  void Settle();
  // A rendezvous that has begun cannot be called off: the peer finishes it, or is cut off.
  void TakeBackLanding();

 private:
  bool OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) override;
  void OnReceived(ucs_status_t status, size_t bytes) override { receiver_.OnReceived(status, bytes); }
  void Deliver() override { handler_.OnStream(); }
  void OnPeerFailed(const Status& why) override;
  template <class Done>
  void DriveUntil(Done done);

  UcxStreamHandler& handler_;
  Status broken_;
  UcxSender sender_;
  UcxReceiver receiver_;
  uint64_t id_ = 0;
};

}  // namespace fusewire::transport

#endif
