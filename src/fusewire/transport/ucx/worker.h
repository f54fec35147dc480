// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// UCX at one home, for all connections there: it hands each message that comes to the connection's end whose number it
// has. Its parts own the rest: the handles, the loop, the endpoints, what is under way, the strangers.
// Home: one reactor, which keeps it until it ends. Owns: all that UCX gives out. Fails: Of says why.
#pragma once

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/library.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>
#include <unordered_map>

#include <map>
#include <string>
#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transports.h"
#include "fusewire/transport/ucx/endpoints.h"
#include "fusewire/transport/ucx/handles.h"
#include "fusewire/transport/ucx/outbox.h"

namespace fusewire::transport {

// Peers that are not reached over UCX. One that closed when it was greeted does not know our greeting: for a while it
// is a stranger, which is dialled without one. One that could not be reached gets a log line.
class UcxStrangers {
 public:
  explicit UcxStrangers(const reactor::Reactor& home) : home_(home) {}
  bool Has(const std::string& address) const {
    auto found = until_ns_.find(address);
    return found != until_ns_.end() && home_.now_ns() < found->second;
  }
  void Add(const std::string& address) {
    std::erase_if(until_ns_, [this](const auto& each) { return each.second <= home_.now_ns(); });
    until_ns_[address] = AddNs(home_.now_ns(), kStrangerNs);
  }
  // At most one line in 10 s.
  void LogUnreached(const std::string& peer, const Status& why) {
    uint64_t suppressed = 0;
    if (!log_.Allow(home_.now_ns(), &suppressed)) return;
    FUSEWIRE_LOG(kWarn, "%s is not reached over UCX (%llu more in between): %s", peer.c_str(),
                 static_cast<unsigned long long>(suppressed), why.ToString().c_str());
  }

 private:
  static constexpr int64_t kStrangerNs = 30 * kSecondNs;
  const reactor::Reactor& home_;
  std::map<std::string, int64_t> until_ns_;
  LogLimiter log_{10 * kSecondNs};
};

class UcxWorker;

// One end of a connection, as its worker sees it. In the list of those that have something to deliver.
class UcxEnd : public ListNode {
 public:
  explicit UcxEnd(UcxWorker* its_worker) : worker(its_worker) {}
  // Inside UCX. True: `data` is kept, and given back by GiveBack or Receive.
  virtual bool OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) = 0;
  // Inside UCX. The loan of the peer has landed.
  virtual void OnReceived(ucs_status_t status, size_t bytes) = 0;
  // At home, outside of UCX.
  virtual void Deliver() = 0;

  UcxWorker* const worker;
  ucp_dt_iov_t loan_parts[kLandingPartsMax];  // where a loan lands in pieces; UCX reads it until the end

 protected:
  ~UcxEnd() = default;
};

class UcxWorker final : private UcxProgressHandler {
 public:
  // The home's, made by the first call. If that failed, each call fails with its Status.
  static Result<UcxWorker*> Of(reactor::Reactor& home, const UcxOptions& options);
  ~UcxWorker();

  ConstBytes address() const { return handles_.address(); }
  const UcxLibrary& library() const { return handles_.library(); }
  UcxProgress& progress() { return progress_; }
  UcxEndpoints& endpoints() { return endpoints_; }
  UcxOutbox& outbox() { return outbox_; }
  UcxStrangers& strangers() { return strangers_; }

  // The number that the end's peer writes to.
  uint64_t Add(UcxEnd* end);
  void Remove(uint64_t id);
  void DeliverLater(UcxEnd* end) {
    if (!end->linked()) ready_.PushBack(end);
    progress_.Touch();
  }

  // Lands what the peer lent. OnReceived follows only after UCS_INPROGRESS.
  ucs_status_t Receive(void* loan, const Bytes* parts, size_t count, UcxEnd* end);
  void GiveBack(void* data) { library().ucp_am_data_release(handles_.worker(), data); }

 private:
  explicit UcxWorker(reactor::Reactor& home);
  Status Open(const UcxOptions& options);
  bool DeliverReady() override;
  static ucs_status_t OnMessage(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  static void OnReceived(void* request, ucs_status_t status, size_t bytes, void* user_data);

  UcxHandles handles_;
  UcxProgress progress_;
  UcxOutbox outbox_;
  UcxEndpoints endpoints_;
  UcxStrangers strangers_;
  std::unordered_map<uint64_t, UcxEnd*> ends_;
  List<UcxEnd> ready_;
  Random random_;
};

}  // namespace fusewire::transport

#endif
