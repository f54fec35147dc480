// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How two ends find out whether they share UCX, before the stream: what each control message means at which stage.
// Home: one reactor. Owns: what the handler wrote before the way was known. Fails: OnControl says why.
#pragma once

#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <string>
#include <utility>
#include <vector>

#include "fusewire/transport/transports.h"
#include "fusewire/transport/ucx/control_message.h"
#include "fusewire/transport/ucx/lower_connection.h"

namespace fusewire::transport {

enum class UcxStage {
  kAsking,     // a dialler that has sent its hello
  kListening,  // a listener that does not know yet what kind of peer this is
  kStayed,     // the stream is where it began
  kMoved,      // the stream goes over UCX
};

class UcxNegotiation {
 public:
  // The result of a control message.
  enum class Event {
    kNone,
    kStayed,   // the handler may write, over the lower connection
    kReached,  // by TakePeer() and peer_id()
    kEnd,      // the peer has closed; the message's value is the sequence behind its last record
  };

  // `worker` null: this end has no UCX. `dialled`: a dialler's address; empty at a listener.
  UcxNegotiation(UcxWorker* worker, uint64_t id, const UcxOptions& options, UcxLowerConnection* lower,
                 std::string dialled);

  UcxStage stage() const { return stage_; }
  bool moved() const { return stage_ == UcxStage::kMoved; }
  bool stayed() const { return stage_ == UcxStage::kStayed; }
  // A listener that has moved, and whose peer has not yet: it can neither write nor answer.
  bool awaits_move() const { return !dialler_address_.empty(); }
  UcxPeer* TakePeer() { return std::exchange(peer_, nullptr); }
  uint64_t peer_id() const { return peer_id_; }

  bool listens() const { return dialled_.empty(); }
  // The dialler's end, once.
  void Ask();
  Result<Event> OnControl(const UcxControlMessage& message, ConstBytes address);
  // The peer sends no control messages.
  Status OnStranger();
  // After kReached, at the dialler: the peer shall use our endpoint.
  void Move(const UcxPeer& peer);
  // The lower connection has ended.
  void OnLowerClosed();
  // The last control message, if it can still be sent. `end`: the sequence behind the last record.
  void Leave(uint64_t end);

  // Keeps what a dialler writes before the way is known; how much of it.
  size_t Keep(const ConstBytes* parts, size_t count);
  std::vector<uint8_t> TakeKept();

 private:
  Event OnHello(const UcxControlMessage& message, ConstBytes address);
  Result<Event> OnWelcome(const UcxControlMessage& message, ConstBytes address);
  Result<Event> OnMove(const UcxControlMessage& message);
  Event OnNo();
  Event OnStay();
  void Send(UcxControlKind kind, uint64_t value = 0, ConstBytes behind = ConstBytes());

  UcxWorker* const worker_;
  const uint64_t id_;
  const UcxOptions& options_;
  UcxLowerConnection& lower_;
  const std::string dialled_;
  UcxStage stage_;
  std::vector<uint8_t> dialler_address_;  // at a listener, the address of the dialler's worker, until it sends kMove
  std::vector<uint8_t> kept_;
  UcxPeer* peer_ = nullptr;
  uint64_t peer_id_ = 0;
  bool ended_ = false;  // kEnd has come
};

}  // namespace fusewire::transport

#endif
