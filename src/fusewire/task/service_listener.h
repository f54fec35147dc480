// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One service of an acceptor: its pipes at each of its homes, greeted or not yet, and which incarnation of each peer is
// the present one.
// Home: made and destroyed from any thread that is not a home. Owns: those pipes and their receivers. Fails: each pipe
// on its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fusewire/base/unique_function.h"
#include "fusewire/pipe/pipe.h"
#include "fusewire/pipe/pipe_context.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"

namespace fusewire::task {

// Makes the receiver of a new pipe. Called at the pipe's home, on any reactor of the pool; the pipe outlives the
// receiver, which is destroyed at home after OnClosed, or without it when the acceptor goes.
using NewReceiver = UniqueFunction<std::unique_ptr<pipe::Receiver>(pipe::Pipe& pipe)>;

// Takes a connection whose peer wants another service. Called at any home of the service.
using OnOtherService = UniqueFunction<void(pipe::HandedOver handed)>;

// The counts of all services of an acceptor together. Any thread.
struct AcceptorCounts {
  // An admitted connection was rejected, and why.
  void TurnAway(const std::string& peer_address, const Status& why, int64_t now_ns);
  void TellTurnedAway(const std::string& peer_address, const Status& why, int64_t now_ns);

  transport::Address address;       // for words; constant once something comes in
  std::atomic<int> connections{0};  // admitted, greeted or not
  std::atomic<uint64_t> accepted{0}, greeted{0}, turned_away{0}, superseded{0}, open{0};
  pipe::SourceLog turned_away_log;
};

// Which incarnation of each task is the present one. Pure: no thread, no pipe.
class Roster {
 public:
  // An accepted pipe: at which home of the service, and which of the pipes there.
  struct PipeId {
    size_t home = 0;
    uint64_t number = 0;
    bool operator<(const PipeId& other) const { return home != other.home ? home < other.home : number < other.number; }
    bool operator==(const PipeId& other) const { return home == other.home && number == other.number; }
  };

  // Tasks that are remembered although none of their pipes is open. `away_ns`: a task that has been away for so long
  // may have gone for good.
  Roster(size_t tasks_max, int64_t away_ns) : tasks_max_(tasks_max), away_ns_(away_ns) {}

  // A task has said hello. The incarnation that came last is the present one: returned are the pipes to close, which is
  // the new one itself if its incarnation has been superseded before. Incarnations have no order, though: if the older
  // one came here last, the younger one was superseded by mistake, and may come back once the present one is away.
  std::vector<PipeId> OnGreeted(const std::string& name, uint64_t incarnation, PipeId pipe, int64_t now_ns);
  void OnGone(const std::string& name, PipeId pipe, int64_t now_ns);
  size_t size() const { return tasks_.size(); }

 private:
  static constexpr size_t kPastMax = 8;
  struct Known {
    uint64_t incarnation = 0;
    std::set<PipeId> pipes;
    int64_t left_ns = 0;         // when the last of them went
    std::vector<uint64_t> past;  // must not come back
  };
  void Forget();

  const size_t tasks_max_;
  const int64_t away_ns_;
  std::map<std::string, Known> tasks_;
};

class ServiceListener {
 public:
  // Pipes get the homes in turn. `first_home`: where the roster lives. `greetings_max`: at each home.
  // `on_other_service`: null where the transport hands nothing over. All outlive the listener.
  ServiceListener(AcceptorCounts& counts, uint16_t service, pipe::PipeContext& context,
                  const std::vector<reactor::Reactor*>& homes, reactor::Reactor& first_home, size_t greetings_max,
                  NewReceiver new_receiver, OnOtherService on_other_service);
  // Its pipes end without a goodbye.
  ~ServiceListener();

  // At the first home. The acceptor has counted the connection already.
  void Take(std::unique_ptr<transport::Incoming> incoming);
  void Take(pipe::HandedOver handed);
  // At the first home. Says goodbye to all, once it has been delivered at the homes that are added to *homes.
  void CloseAll(const Status& why, std::vector<reactor::Reactor*>* homes);

 private:
  class Accepted;
  // The pipes that live at one home.
  struct Place {
    Place(size_t index_in, reactor::Reactor& home_in);
    ~Place();
    const size_t index;
    reactor::Reactor& home;
    uint64_t last_number = 0;
    size_t greetings = 0;
    std::map<uint64_t, std::unique_ptr<Accepted>> pipes;  // by number, so oldest first
  };

  Place& NextPlace() { return *places_[next_place_++ % places_.size()]; }
  // `handed`: null, or what it has been handed over with.
  void Accept(Place& place, transport::Incoming& incoming, const pipe::HandedOver* handed);
  void MakeRoom(Place& place);
  void OnOpen(Accepted& accepted);
  void OnClosed(Accepted& accepted, const Status& why);
  void OnHandedOver(Accepted& accepted, pipe::HandedOver handed);
  void Close(Roster::PipeId id, const Status& why);

  AcceptorCounts& counts_;
  const uint16_t service_;
  pipe::PipeContext& context_;
  reactor::Reactor& first_home_;
  const size_t greetings_max_;
  NewReceiver new_receiver_;
  OnOtherService on_other_service_;
  Roster roster_;         // at first_home_
  bool leaving_ = false;  // likewise: nothing is posted to the places any more
  std::vector<std::unique_ptr<Place>> places_;
  size_t next_place_ = 0;
};

}  // namespace fusewire::task
