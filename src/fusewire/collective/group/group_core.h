// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The part of a Group at home: it only passes calls, control messages and events of members to their owners.
// Home: the endpoint's reactor. Owns: seats, members, operations, the lane.
// Fails: a death or an abort breaks the epoch, and with it all operations.
//   group -> group_core -> survivors -> members -> seats
//                       -> operations -> operation_table, call_order, runners, ... -> group_operation (data)
//                       -> arena_lane
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/group/arena_lane.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/group_monitor.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/members.h"
#include "fusewire/collective/group/operations.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/collective/group/survivors.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

class GroupCore final : private MemberHandler, public LaneHandler, public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(p2p::Endpoint& endpoint, GroupOptions options);
  ~GroupCore();

  // At home.
  Status Open();
  // After StartWatch.
  void Show() { monitor_.Open(seats_); }
  // Or ends it, if the lane has run it.
  void Begin(std::unique_ptr<GroupOperation> operation);
  void Cancel(uint64_t number, const Status& why);
  void Break(const Status& why, bool tell);
  void Close();
  // Counts operations and messages that may still access the arrays, or this group's memory.
  reactor::Drain& under_way() { return under_way_; }
  void BeginShrink(int64_t timeout_ns, Done done);
  std::string NameOf(int rank) const;
  const Status& broken() const { return operations_.broken(); }

  // Any thread.
  reactor::Reactor& home() { return home_; }
  const GroupState& state() const { return state_; }
  OperationMaker& maker() { return maker_; }
  const GroupOptions& options() const { return options_; }
  p2p::Endpoint& endpoint() { return endpoint_; }
  // Null: the group has no arena.
  ArenaLane* lane() const { return lane_.get(); }
  void SendHome(std::unique_ptr<GroupOperation> operation) override;
  // Any thread but a home.
  Status RunOverMessages(std::unique_ptr<GroupOperation> operation) override;

 private:
  void OnControl(int seat, const ControlMessage& message) override;
  void OnReached(int seat) override { operations_.OnReached(seat); }
  void OnLost(int seat) override;
  bool WaitsToReach(int seat) const override { return operations_.WaitsToReach(seat); }

  void OnTurnFailed(uint32_t epoch, uint64_t turn, const Status& why) override;
  void SendFailed(uint32_t epoch, uint64_t turn, const Status& why);
  void OnFailureMessage(int seat, const ControlMessage& message);
  void EnterEpoch(const std::vector<bool>& dead);
  // Publishes the values of the epoch that begins, for other threads.
  void Publish();
  p2p::OfferAnswer OnOffer(const p2p::Offer& offer, uint32_t epoch);

  p2p::Endpoint& endpoint_;
  reactor::Reactor& home_;
  const GroupOptions options_;
  GroupMonitor monitor_;
  const std::unique_ptr<ArenaLane> lane_;
  reactor::Drain under_way_;
  Seats seats_;
  Members members_;
  Operations operations_;
  Survivors survivors_;
  bool closed_ = false;

  GroupState state_;
  OperationMaker maker_;
};

}  // namespace fusewire::collective
