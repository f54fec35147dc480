// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/service_listener.h"

#include <algorithm>
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

// One pipe that came in, and the receiver that serves it once it is greeted.
class ServiceListener::Accepted final : private pipe::PipeHandler {
 public:
  enum class Stage { kGreeting, kTurnedAway, kHandedOver, kOpen };

  Accepted(ServiceListener& listener, Place& place_in, std::unique_ptr<transport::Connection> connection)
      : place(place_in),
        number(++place_in.last_number),
        pipe(listener.context_, place.home, std::move(connection), pipe::Role::kAcceptor, listener.service_, this),
        gone([this] { place.pipes.erase(number); }),
        listener_(listener) {}
  // A Done may need the receiver, and the receiver the pipe.
  ~Accepted() { pipe.Abort(Status::Cancelled("the acceptor has gone")); }

  Place& place;
  const uint64_t number;
  Stage stage = Stage::kGreeting;
  pipe::Pipe pipe;
  reactor::Timer gone;

 private:
  pipe::FrameHandler* OnOpen(const pipe::PeerInfo& peer) override {
    receiver_ = listener_.new_receiver_(pipe);
    FUSEWIRE_CHECK(receiver_ != nullptr);
    listener_.OnOpen(*this);
    return receiver_->OnOpen(peer);
  }
  void OnClosed(Status why) override {
    if (receiver_ != nullptr) receiver_->OnClosed(why);
    listener_.OnClosed(*this, why);  // destroys us
  }
  void OnHandedOver(pipe::HandedOver handed) override { listener_.OnHandedOver(*this, std::move(handed)); }

  ServiceListener& listener_;
  std::unique_ptr<pipe::Receiver> receiver_;  // behind the pipe: it goes first
};

ServiceListener::Place::Place(size_t index_in, reactor::Reactor& home_in) : index(index_in), home(home_in) {}
ServiceListener::Place::~Place() { FUSEWIRE_AT_HOME(home); }

ServiceListener::ServiceListener(AcceptorCounts& counts, uint16_t service, pipe::PipeContext& context,
                                 const std::vector<reactor::Reactor*>& homes, reactor::Reactor& first_home,
                                 size_t greetings_max, NewReceiver new_receiver, OnOtherService on_other_service)
    : counts_(counts),
      service_(service),
      context_(context),
      first_home_(first_home),
      greetings_max_(greetings_max),
      new_receiver_(std::move(new_receiver)),
      on_other_service_(std::move(on_other_service)),
      roster_(static_cast<size_t>(context.options().connections_max), context.options().silent_ns_max) {
  FUSEWIRE_CHECK(!homes.empty());
  for (reactor::Reactor* home : homes) places_.push_back(std::make_unique<Place>(places_.size(), *home));
}

ServiceListener::~ServiceListener() {
  first_home_.Run([this] { leaving_ = true; });
  for (size_t i = places_.size(); i-- > 0;) {
    places_[i]->home.Run([this, i] {
      int admitted = 0;
      uint64_t open = 0;
      for (const auto& [number, accepted] : places_[i]->pipes) {
        if (accepted->stage != Accepted::Stage::kHandedOver) ++admitted;
        if (accepted->stage == Accepted::Stage::kOpen) ++open;
      }
      places_[i].reset();
      counts_.connections.fetch_sub(admitted, std::memory_order_relaxed);
      counts_.open.fetch_sub(open, std::memory_order_relaxed);
    });
  }
  first_home_.Run([] {});  // what they posted has been delivered when this has
}

// ---- what comes in ----

void ServiceListener::Take(std::unique_ptr<transport::Incoming> incoming) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_DCHECK(!leaving_);
  FUSEWIRE_CHECK(incoming != nullptr);
  Place& place = NextPlace();
  auto accept = [this, &place, incoming = std::move(incoming)] { Accept(place, *incoming, nullptr); };
  if (place.home.AtHome()) {
    accept();
  } else {
    place.home.Post(std::move(accept));
  }
}

// Posted even at home: the old connection is still in the middle of a read.
void ServiceListener::Take(pipe::HandedOver handed) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_CHECK(handed.incoming != nullptr);
  Place& place = NextPlace();
  place.home.Post([this, &place, handed = std::move(handed)] { Accept(place, *handed.incoming, &handed); });
}

void ServiceListener::Accept(Place& place, transport::Incoming& incoming, const pipe::HandedOver* handed) {
  FUSEWIRE_AT_HOME(place.home);
  Result<std::unique_ptr<transport::Connection>> connection = incoming.Adopt(place.home);
  if (!connection.ok()) {
    counts_.TurnAway(incoming.peer_address(), connection.status(), place.home.now_ns());
    return;
  }
  if (place.greetings >= greetings_max_) MakeRoom(place);
  FUSEWIRE_DCHECK(place.greetings <= place.pipes.size());
  auto made = std::make_unique<Accepted>(*this, place, std::move(connection).value());
  Accepted& accepted = *made;
  place.pipes[accepted.number] = std::move(made);
  ++place.greetings;
  if (handed != nullptr) {
    accepted.pipe.GoOn(*handed);
  } else {
    accepted.pipe.Start(static_cast<bool>(on_other_service_));
  }
}

// The longest silent one is dropped: a flood of unknown clients does not keep peers out.
void ServiceListener::MakeRoom(Place& place) {
  for (auto& [number, accepted] : place.pipes) {
    if (accepted->stage != Accepted::Stage::kGreeting) continue;
    FUSEWIRE_CHECK(place.greetings > 0);
    accepted->stage = Accepted::Stage::kTurnedAway;
    --place.greetings;
    accepted->pipe.Close(Status::Overloaded("too many connections that have not said hello").Phase("greeting"));
    return;
  }
}

// ---- events of a pipe, at its home ----

void ServiceListener::OnOpen(Accepted& accepted) {
  Place& place = accepted.place;
  FUSEWIRE_AT_HOME(place.home);
  FUSEWIRE_CHECK(accepted.stage == Accepted::Stage::kGreeting);
  FUSEWIRE_CHECK(place.greetings > 0);
  accepted.stage = Accepted::Stage::kOpen;
  --place.greetings;
  counts_.greeted.fetch_add(1, std::memory_order_relaxed);
  counts_.open.fetch_add(1, std::memory_order_relaxed);
  const pipe::PeerInfo& peer = accepted.pipe.peer();
  if (peer.name.empty()) return;
  const Roster::PipeId id{place.index, accepted.number};
  first_home_.Post([this, id, name = peer.name, incarnation = peer.incarnation] {
    if (leaving_) return;
    for (const Roster::PipeId& old : roster_.OnGreeted(name, incarnation, id, first_home_.now_ns())) {
      counts_.superseded.fetch_add(1, std::memory_order_relaxed);
      Close(old, Status::Unavailable("another incarnation of " + name + " has taken its place")
                     .Phase("greeting")
                     .Next("nothing, if the task was restarted; else two tasks have the same name"));
    }
  });
}

void ServiceListener::OnClosed(Accepted& accepted, const Status& why) {
  Place& place = accepted.place;
  FUSEWIRE_AT_HOME(place.home);
  FUSEWIRE_CHECK(accepted.stage != Accepted::Stage::kHandedOver);
  FUSEWIRE_CHECK(place.pipes.count(accepted.number) == 1);
  FUSEWIRE_CHECK(accepted.stage != Accepted::Stage::kGreeting || place.greetings > 0);
  const pipe::PeerInfo& peer = accepted.pipe.peer();
  if (accepted.stage == Accepted::Stage::kGreeting) --place.greetings;
  if (accepted.stage != Accepted::Stage::kOpen) {
    counts_.TurnAway(peer.ToString(), why, place.home.now_ns());
  } else {
    counts_.connections.fetch_sub(1, std::memory_order_relaxed);
    counts_.open.fetch_sub(1, std::memory_order_relaxed);
    const Roster::PipeId id{place.index, accepted.number};
    if (!peer.name.empty())
      first_home_.Post([this, id, name = peer.name] { roster_.OnGone(name, id, first_home_.now_ns()); });
  }
  place.pipes.erase(accepted.number);
}

void ServiceListener::OnHandedOver(Accepted& accepted, pipe::HandedOver handed) {
  FUSEWIRE_CHECK(accepted.stage == Accepted::Stage::kGreeting);
  FUSEWIRE_CHECK(accepted.place.greetings > 0);
  accepted.stage = Accepted::Stage::kHandedOver;
  --accepted.place.greetings;
  on_other_service_(std::move(handed));
  accepted.place.home.Arm(&accepted.gone, 0);  // the pipe is still at work
}

// ---- closing ----

void ServiceListener::CloseAll(const Status& why, std::vector<reactor::Reactor*>* homes) {
  FUSEWIRE_AT_HOME(first_home_);
  for (auto& owned : places_) {
    Place& place = *owned;
    place.home.Post([&place, why] {
      for (auto& [number, accepted] : place.pipes) accepted->pipe.Close(why);
    });
    homes->push_back(&place.home);
  }
}

// No harm if it has gone already.
void ServiceListener::Close(Roster::PipeId id, const Status& why) {
  FUSEWIRE_AT_HOME(first_home_);
  FUSEWIRE_CHECK(id.home < places_.size());
  Place& place = *places_[id.home];
  place.home.Post([&place, number = id.number, why] {
    auto found = place.pipes.find(number);
    if (found != place.pipes.end()) found->second->pipe.Close(why);
  });
}

// ---- who is who ----

std::vector<Roster::PipeId> Roster::OnGreeted(const std::string& name, uint64_t incarnation, PipeId pipe,
                                              int64_t now_ns) {
  if (tasks_.size() >= tasks_max_ && tasks_.count(name) == 0) Forget();
  Known& task = tasks_[name];
  auto place = std::find(task.past.begin(), task.past.end(), incarnation);
  if (place != task.past.end()) {
    bool away = task.pipes.empty() && now_ns - task.left_ns >= away_ns_;
    if (!away) return {pipe};
    task.past.erase(place);
  }
  std::vector<PipeId> superseded;
  if (task.incarnation != incarnation) {
    superseded.assign(task.pipes.begin(), task.pipes.end());
    if (task.incarnation != 0) task.past.push_back(task.incarnation);
    if (task.past.size() > kPastMax) task.past.erase(task.past.begin());
    task.pipes.clear();
    task.incarnation = incarnation;
  }
  FUSEWIRE_DCHECK(task.past.size() <= kPastMax);
  FUSEWIRE_DCHECK(std::find(task.past.begin(), task.past.end(), task.incarnation) == task.past.end());
  const bool is_new = task.pipes.insert(pipe).second;
  FUSEWIRE_CHECK(is_new);
  return superseded;
}

void Roster::OnGone(const std::string& name, PipeId pipe, int64_t now_ns) {
  auto found = tasks_.find(name);
  if (found != tasks_.end() && found->second.pipes.erase(pipe) > 0) found->second.left_ns = now_ns;
}

void Roster::Forget() {
  for (auto it = tasks_.begin(); it != tasks_.end();) it = it->second.pipes.empty() ? tasks_.erase(it) : std::next(it);
}

}  // namespace fusewire::task
