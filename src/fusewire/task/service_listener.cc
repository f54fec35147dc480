// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/service_listener.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"

namespace fusewire::task {

void AcceptorCounts::TurnAway(const std::string& peer_address, const Status& why, int64_t now_ns) {
  const int before = connections.fetch_sub(1, std::memory_order_relaxed);
  FUSEWIRE_CHECK(before > 0);
  TellTurnedAway(peer_address, why, now_ns);
}

void AcceptorCounts::TellTurnedAway(const std::string& peer_address, const Status& why, int64_t now_ns) {
  turned_away.fetch_add(1, std::memory_order_relaxed);
  uint64_t held_back = 0;
  if (!turned_away_log.Allow(peer_address, now_ns, &held_back)) return;
  FUSEWIRE_LOG(kWarn, "listener %s turned %s away (%llu more in between): %s", address.ToString().c_str(),
               peer_address.c_str(), static_cast<unsigned long long>(held_back), why.Explained().c_str());
}

ServiceListener::ServiceListener(AcceptorCounts& counts, uint16_t service, pipe::PipeContext& context,
                                 std::vector<reactor::Reactor*> homes, reactor::Reactor& first_home,
                                 size_t greetings_max, NewReceiver new_receiver, pipe::OtherHomes* others)
    : counts_(counts),
      service_(service),
      context_(context),
      first_home_(first_home),
      new_receiver_(std::move(new_receiver)),
      roster_(static_cast<size_t>(context.options().connections_max), context.options().silent_ns_max) {
  FUSEWIRE_CHECK(!homes.empty());
  PendingOwner* const owner = this;
  for (reactor::Reactor* home : homes) {
    pending_.push_back(
        std::make_unique<PendingConnections>(owner, pending_.size(), context, *home, service, greetings_max, others));
  }
}

ServiceListener::~ServiceListener() {
  first_home_.Run([this] { leaving_ = true; });
  for (size_t i = pending_.size(); i-- > 0;) {
    pending_[i]->home().Run([this, i] {
      const auto [seated, open] = pending_[i]->Count();
      pending_[i].reset();
      counts_.connections.fetch_sub(static_cast<int>(seated), std::memory_order_relaxed);
      counts_.open.fetch_sub(open, std::memory_order_relaxed);
    });
  }
  first_home_.Run([] {});  // what they posted has been delivered when this has
}

void ServiceListener::Take(std::unique_ptr<transport::Incoming> incoming) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_DCHECK(!leaving_);
  FUSEWIRE_CHECK(incoming != nullptr);
  PendingConnections* pending = NextPending();
  auto seat = [this, pending, incoming = std::move(incoming)] { SeatAt(pending, incoming.get(), nullptr); };
  if (pending->home().AtHome()) {
    seat();
  } else {
    pending->home().Post(std::move(seat));
  }
}

// Posted also at home: the connection that it was is still in the middle of a read.
void ServiceListener::Take(pipe::HandedOver handed) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_CHECK(handed.incoming != nullptr);
  PendingConnections* pending = NextPending();
  pending->home().Post(
      [this, pending, handed = std::move(handed)] { SeatAt(pending, handed.incoming.get(), &handed); });
}

void ServiceListener::SeatAt(PendingConnections* pending, transport::Incoming* incoming,
                             const pipe::HandedOver* handed) {
  FUSEWIRE_AT_HOME(pending->home());
  Result<std::unique_ptr<transport::Connection>> connection = incoming->Adopt(pending->home());
  if (connection.ok()) {
    pending->Take(std::move(connection).value(), handed);
  } else {
    counts_.TurnAway(incoming->peer_address(), connection.status(), pending->home().now_ns());
  }
}

void ServiceListener::CloseAll(const Status& why, std::vector<reactor::Reactor*>* homes) {
  FUSEWIRE_AT_HOME(first_home_);
  for (auto& pending : pending_) {
    PendingConnections* one = pending.get();
    one->home().Post([one, why] { one->CloseAll(why); });
    homes->push_back(&one->home());
  }
}

void ServiceListener::OnGreeted(size_t pending, uint64_t id, const pipe::PeerInfo& peer) {
  counts_.greeted.fetch_add(1, std::memory_order_relaxed);
  counts_.open.fetch_add(1, std::memory_order_relaxed);
  if (peer.name.empty()) return;
  first_home_.Post([this, seat = Seat{pending, id}, name = peer.name, incarnation = peer.incarnation] {
    if (leaving_) return;
    for (const Seat& old : roster_.OnGreeted(name, incarnation, seat, first_home_.now_ns())) {
      counts_.superseded.fetch_add(1, std::memory_order_relaxed);
      ClosePipe(old, Status::Unavailable("another incarnation of " + name + " has taken its place")
                         .Phase("greeting")
                         .Next("nothing, if the task was restarted; else two tasks have the same name"));
    }
  });
}

void ServiceListener::OnGone(size_t pending, uint64_t id, const pipe::PeerInfo& peer) {
  counts_.connections.fetch_sub(1, std::memory_order_relaxed);
  counts_.open.fetch_sub(1, std::memory_order_relaxed);
  if (peer.name.empty()) return;
  first_home_.Post(
      [this, seat = Seat{pending, id}, name = peer.name] { roster_.OnGone(name, seat, first_home_.now_ns()); });
}

void ServiceListener::OnTurnedAway(const pipe::PeerInfo& peer, const Status& why, int64_t now_ns) {
  counts_.TurnAway(peer.ToString(), why, now_ns);
}

void ServiceListener::ClosePipe(Seat seat, const Status& why) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_CHECK(seat.pending < pending_.size());
  PendingConnections* pending = pending_[seat.pending].get();
  pending->home().Post([pending, id = seat.id, why] { pending->ClosePipe(id, why); });
}

}  // namespace fusewire::task
