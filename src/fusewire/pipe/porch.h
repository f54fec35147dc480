// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What one reactor holds of an acceptor: the pipes that came in and live here, greeted or not yet.
// Home: its reactor. Owns: those pipes and their receivers. Fails: each pipe on its own.
#ifndef FUSEWIRE_PIPE_PORCH_H_
#define FUSEWIRE_PIPE_PORCH_H_

#include <cstdint>
#include <map>
#include <memory>

#include "fusewire/pipe/acceptor.h"
#include "fusewire/pipe/pipe.h"

namespace fusewire {
namespace pipe {

// What a porch tells its acceptor. Called at the porch's home, which may be any reactor.
class PorchOwner {
 public:
  virtual std::unique_ptr<Receiver> NewReceiverFor(Pipe& pipe) = 0;
  virtual void OnGreeted(size_t porch, uint64_t id, const PeerInfo& peer) = 0;
  virtual void OnGone(size_t porch, uint64_t id, const PeerInfo& peer) = 0;
  virtual void OnTurnedAway(const PeerInfo& peer, const Status& why, int64_t now_ns) = 0;

 protected:
  ~PorchOwner() = default;
};

class Porch {
 public:
  Porch(PorchOwner* owner, size_t index, Shared& shared, reactor::Reactor& home, uint16_t service,
        size_t greetings_max);
  ~Porch();

  void Take(std::unique_ptr<transport::Connection> connection);
  // No harm if it has gone already.
  void ClosePipe(uint64_t id, const Status& why);
  void CloseAll(const Status& why);
  reactor::Reactor& home() { return home_; }

 private:
  class Served;

  void OnOpen(Served* served);
  void OnClosed(Served* served, const Status& why);
  void MakeRoom();

  PorchOwner* const owner_;
  const size_t index_;
  Shared& shared_;
  reactor::Reactor& home_;
  const uint16_t service_;
  const size_t greetings_max_;
  uint64_t next_id_ = 1;
  size_t greetings_ = 0;
  std::map<uint64_t, std::unique_ptr<Served>> served_;  // by id, so oldest first
};

}  // namespace pipe
}  // namespace fusewire

#endif  // FUSEWIRE_PIPE_PORCH_H_
