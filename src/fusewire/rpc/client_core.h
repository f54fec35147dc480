// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The part of a Client that runs at home.
#pragma once

#include <string>

#include "fusewire/base/list.h"
#include "fusewire/base/slots.h"
#include "fusewire/pipe/link.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/call.h"
#include "fusewire/rpc/client_options.h"
#include "fusewire/rpc/stats.h"
#include "fusewire/task/task.h"
#include "fusewire/wire/wire.h"

namespace fusewire::rpc {

class ClientCore final : private pipe::LinkHandler {
 public:
  ClientCore(task::Task& task, reactor::Reactor& home, const transport::Address& address, ClientOptions options);
  ~ClientCore();

  // Any thread.
  reactor::Reactor& home() { return home_; }
  void Prepare(Call* call);                    // the part of Start on the caller's thread
  void Refuse(Call* call, const Status& why);  // ends a call that was not started

  // At home.
  void Begin(Call* call);
  void OnDeadline(Call* call);
  void OnCancelWanted(uint64_t id);
  void Connect() {
    if (over_.ok()) link_.Want();
  }
  void GiveUp(const Status& why);
  void Close();
  // From Begin to the return of OnDone.
  reactor::Drain& under_way() { return under_way_; }
  PeerSnapshot Snapshot();

 private:
  // pipe::LinkHandler
  void OnUp(const pipe::PeerInfo& peer, bool restarted) override;
  void OnDown(Status why, bool was_up) override;
  Result<pipe::Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override;
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override;

  void Send(Call* call);
  void SendWaiting();
  void GiveUpWaiting();
  Status OnReply(Call* call, const wire::FrameHeader& header, ConstBytes head);
  void End(Call* call, Status status);
  static void Retire(Call* call);
  void EndSoon(Call* call, Status status);
  Status Words(const Call& call, Status status) const;

  reactor::Reactor& home_;
  const ClientOptions options_;
  pipe::Link link_;
  Slots<Call> calls_;  // their names are the ids of docs/wire.md
  reactor::Drain under_way_;
  List<Call> waiting_;  // for the link, oldest first
  Status last_failure_;
  Status over_;  // how calls end from now on; ok: they are made
  reactor::Timer patience_;
  const std::string peer_address_;
  std::string peer_;  // for messages, at home
  uint64_t late_replies_ = 0;
  MethodTable methods_;
};

}  // namespace fusewire::rpc
