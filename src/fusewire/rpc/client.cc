// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/client.h"

#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/pool.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/client_core.h"
#include "fusewire/task/task.h"

namespace fusewire::rpc {
namespace {

// How long Close waits for OnDones before it logs that.
constexpr int64_t kCloseLogNs = 10 * kSecondNs;

// A call whose caller waits for it.
class AskedCall final : public Call {
 public:
  using Call::Call;
  reactor::Completion answered;

 private:
  void OnDone(Status status) override { answered.Done(std::move(status)); }
};

}  // namespace

Client::Client(task::Task& task, const transport::Address& address, ClientOptions options) {
  reactor::Reactor& home = task.pool().Next();
  home.Run([&] { core_ = std::make_unique<ClientCore>(task, home, address, options); });
}

Client::~Client() {
  Close();
  home().Run([this] { core_.reset(); });
}

reactor::Reactor& Client::home() { return core_->home(); }

void Client::Start(Call* call) {
  core_->Prepare(call);
  if (home().AtHome()) {
    core_->Begin(call);
    return;
  }
  reactor::Task begin = [this, call] { core_->Begin(call); };
  if (!home().TryRunHere(begin)) home().Post(static_cast<Mail*>(call));
}

void Client::StartAndWait(Call* call, reactor::Completion* answered) {
  if (reactor::Reactor::InsideAny()) {
    core_->Refuse(call, Status::Invalid("a callback of a reactor must not wait for an answer")
                            .Next("use Start and go on in OnDone, or wait on a thread of your own"));
    return;
  }
  core_->Prepare(call);
  answered->PostAndWait(home(), call);
}

Client::Answer Client::Ask(uint16_t method, ConstBytes head, Buffers body, int64_t timeout_ns) {
  AskedCall call(method);
  call.head = head;
  call.body = std::move(body);
  call.timeout_ns = timeout_ns;
  StartAndWait(&call, &call.answered);
  return Answer{call.answered.TakeStatus(), std::move(call.reply_head), std::move(call.reply_body)};
}

void Client::Connect() {
  ClientCore* core = core_.get();
  home().Post([core] { core->Connect(); });
}

void Client::Close() {
  FUSEWIRE_CHECK(!home().AtHome());
  home().Run([this] { core_->Close(); });
  // Until the calls that it ends have had their OnDone, and those that were started again in it.
  while (true) {
    const Status drained = core_->under_way().Wait(home(), AddNs(home().clock()->NowNs(), kCloseLogNs));
    if (drained.ok()) return;
    FUSEWIRE_LOG(kWarn, "closing a client still waits: %s", drained.Explained().c_str());
  }
}

PeerSnapshot Client::Snapshot() {
  PeerSnapshot snapshot;
  home().Run([&] { snapshot = core_->Snapshot(); });
  return snapshot;
}

}  // namespace fusewire::rpc
