// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Lane is one pipe to a peer, dialled or accepted, whether it is the one in use or not.
// Home: the endpoint's. Owns: a dialled one its Link; an accepted one nothing. Fails: tells its peer, once per pipe.
#ifndef FUSEWIRE_P2P_LANE_H_
#define FUSEWIRE_P2P_LANE_H_

#include <cstdint>
#include <string>

#include "fusewire/p2p/matcher.h"
#include "fusewire/pipe/link.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/wire/p2p.h"

namespace fusewire {
namespace p2p {

class Core;
class PeerLink;

// A body that is coming in.
struct Arriving {
  bool used = false;
  uint64_t call = 0;     // of its header
  uint64_t op = 0;       // our operation that it lands in, or 0
  Kept* kept = nullptr;  // or the kept message
  uint64_t region = 0;   // or the region
  Bytes part;            // of the region
  Status refusal;        // it goes nowhere, and this is why
};

class Lane {
 public:
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;
  // The open pipe, or null.
  virtual pipe::Pipe* pipe() = 0;
  // As Pipe's, in whatever state the pipe is.
  virtual void Abandon(uint64_t call) = 0;
  virtual void Close(Status why) = 0;

  // A pipe has at most two unfinished bodies: a long one, and a short one between its chunks.
  Arriving* Take(uint64_t call);
  Arriving* Find(uint64_t call);
  // What is landing for this operation goes nowhere from now on.
  void AbandonOp(uint64_t op);
  void AbandonRegion(uint64_t region, const Status& why);

  pipe::PeerInfo info;
  bool said_open = false;
  bool heard_open = false;
  uint64_t promised = 0;  // of our memory for small messages, when we said it
  wire::P2pMessage open;  // what it said then, but for its views
  Arriving arriving[2];

 protected:
  Lane() = default;
};

class DialedLane final : public Lane, private pipe::LinkHandler {
 public:
  DialedLane(Core& core, PeerLink& peer, const transport::Address& address);
  ~DialedLane() override;

  void Want() { link_.Want(); }
  const transport::Address& address() const { return link_.address(); }
  pipe::Pipe* pipe() override { return link_.pipe(); }
  void Abandon(uint64_t call) override { link_.Abandon(wire::FrameKind::kMessage, call); }
  void Close(Status why) override { link_.Close(std::move(why)); }

 private:
  void OnUp(const pipe::PeerInfo& peer, bool restarted) override;
  void OnDown(Status why, bool was_up) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;

  Core& core_;
  PeerLink& peer_;
  pipe::Link link_;
};

class AcceptedLane final : public Lane, public pipe::Receiver {
 public:
  AcceptedLane(Core& core, pipe::Pipe& pipe) : core_(core), pipe_(pipe) {}
  ~AcceptedLane() override;

  pipe::Pipe* pipe() override { return pipe_.open() ? &pipe_ : nullptr; }
  void Abandon(uint64_t call) override { pipe_.Abandon(wire::FrameKind::kMessage, call); }
  void Close(Status why) override { pipe_.Close(std::move(why)); }

 private:
  void OnOpen(const pipe::PeerInfo& peer) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;
  void OnCancel(uint64_t) override {}  // nobody calls here
  void OnClosed(Status why) override;

  Core& core_;
  pipe::Pipe& pipe_;
  PeerLink* peer_ = nullptr;  // null: turned away
};

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_LANE_H_
