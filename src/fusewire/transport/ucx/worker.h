// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// UCX at one home: a context, a worker, and one endpoint for each worker of a peer that we speak with, whatever the
// number of connections. The worker's descriptor is watched like any other; before the loop parks, the worker is armed.
// UCX calls us back from inside of its own progress: then we only note what came. What came is delivered afterwards.
// Home: one reactor, which keeps it until it ends. Owns: all that UCX gives out. Fails: Of says why.
#ifndef FUSEWIRE_TRANSPORT_UCX_WORKER_H_
#define FUSEWIRE_TRANSPORT_UCX_WORKER_H_

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/library.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/ucx/record.h"
#include "fusewire/transport/ucx/ucx_options.h"

namespace fusewire {
namespace transport {

// One worker of a peer, and our endpoint to it.
struct UcxPeer {
  ucp_ep_h endpoint = nullptr;
  std::string address;
  uint64_t name = 0;    // of our endpoint, for the peer: a new one where it failed us, not where it had failed the peer
  uint64_t theirs = 0;  // the peer's name for its own, once we have heard it
  ucs_status_t failed = UCS_OK;
};

class UcxWorker;

// One end of a connection, as its worker sees it. In the list of those that have something to deliver.
class UcxEnd : public ListNode {
 public:
  explicit UcxEnd(UcxWorker* its_worker) : worker(its_worker) {}
  // Inside UCX. True: `data` is kept, and given back by GiveBack or Receive.
  virtual bool OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) = 0;
  // Inside UCX. A loan is back; or the loan of the peer has landed.
  virtual void OnLoanBack(ucs_status_t status) = 0;
  virtual void OnReceived(ucs_status_t status, size_t bytes) = 0;
  // At home, outside of UCX.
  virtual void Deliver() = 0;
  virtual void OnPeerFailed(const UcxPeer* peer, const Status& why) = 0;
  virtual bool Uses(const UcxPeer* peer) const = 0;

  UcxWorker* const worker;
  ucp_dt_iov_t loan_parts[kLandingPartsMax];  // where a loan lands in pieces; UCX reads it until the end

 protected:
  ~UcxEnd() = default;
};

// A message that is under way: its header, and its bytes where they were copied.
struct UcxSend : public ListNode {
  UcxWorker* worker = nullptr;
  UcxRecord record;
  UcxEnd* lender = nullptr;
  size_t bytes = 0;
  uint8_t data[kUcxBytesMax];
};

class UcxWorker final : private reactor::Flushable, private reactor::FdHandler {
 public:
  // The home's, made when first asked for. What went wrong then is said again.
  static Result<UcxWorker*> Of(reactor::Reactor& home, const UcxOptions& options);
  ~UcxWorker();

  ConstBytes address() const { return ConstBytes(address_.data(), address_.size()); }
  // The number that the end's peer shall write to.
  uint64_t Add(UcxEnd* end);
  void Remove(uint64_t id);
  Result<UcxPeer*> Reach(ConstBytes address);
  // The same, for a peer whose endpoint is `theirs`. If ours was made for another one, that one is gone: connections
  // that still use ours keep it, and this one gets a new one.
  Result<UcxPeer*> Meet(ConstBytes address, uint64_t theirs);

  // A message to be filled and then sent. The worker keeps it until it is done.
  UcxSend* Take();
  void Send(UcxPeer* peer, UcxSend* send);
  // Lends `bytes`, which stay valid until the lender hears that they are back.
  void Lend(UcxPeer* peer, UcxSend* send, ConstBytes bytes, UcxEnd* lender);
  // Lands what the peer lent. OnReceived follows only after UCS_INPROGRESS.
  ucs_status_t Receive(void* loan, const Bytes* parts, size_t count, UcxEnd* end);
  void GiveBack(void* data) { library_.ucp_am_data_release(worker_, data); }

  // Something was done or is to be delivered: look before the loop parks.
  void Touch() { home_.FlushLater(this); }
  void DeliverLater(UcxEnd* end) {
    if (!end->linked()) ready_.PushBack(end);
    Touch();
  }
  // Looks once; delivers nothing.
  bool Progress();
  bool ProgressAndDeliver();
  // Ends all that is under way with this peer, and with it every connection to it.
  void Break(UcxPeer* peer, ucs_status_t why);

  std::string Say(const char* call, ucs_status_t status) const { return library_.Say(call, status); }
  // A log line about a peer that is not reached over UCX, not too often.
  void TellFar(const std::string& peer, const Status& why);

  // A peer that closed when it was greeted does not know us: for a while it is not.
  bool IsStranger(const std::string& address) const;
  void MarkStranger(const std::string& address);

 private:
  explicit UcxWorker(reactor::Reactor& home) : home_(home), random_(SystemRandom64()) {}
  Status Open(const UcxOptions& options);
  void Flush() override;
  void OnEvents(uint32_t) override {
    Touch();
    ProgressAndDeliver();
  }
  bool PollNow() override { return ProgressAndDeliver(); }
  void DeliverReady();
  void EndFailedPeers();
  void EndRetiredPeers();
  void Post(UcxPeer* peer, UcxSend* send, ConstBytes bytes, uint32_t flags);
  void Finish(UcxSend* send, ucs_status_t status);
  void CloseEndpoint(ucp_ep_h endpoint);
  void Flush(UcxPeer* peer);
  void AwaitNone(const size_t* count);
  static ucs_status_t OnMessage(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                const ucp_am_recv_param_t* param);
  static void OnSent(void* request, ucs_status_t status, void* user_data);
  static void OnReceived(void* request, ucs_status_t status, size_t bytes, void* user_data);
  static void OnClosed(void* request, ucs_status_t status, void* self);
  static void OnFlushed(void* request, ucs_status_t status, void* self);
  static void OnError(void* self, ucp_ep_h endpoint, ucs_status_t status);

  reactor::Reactor& home_;
  UcxLibrary library_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<uint8_t> address_;
  int event_fd_ = -1;
  bool watched_ = false;
  std::unordered_map<uint64_t, UcxEnd*> ends_;
  List<UcxEnd> ready_;
  std::map<std::string, std::unique_ptr<UcxPeer>> peers_;  // by address
  std::vector<std::unique_ptr<UcxPeer>> retired_;          // until their last connection has gone
  List<UcxSend> sends_, spare_;                            // ours: under way, and to be used again
  size_t spare_count_ = 0;
  LogLimiter far_log_{10 * kSecondNs};
  size_t closing_ = 0, flushing_ = 0;  // endpoints
  int busy_turns_ = 0;
  reactor::Timer again_{[this] { Touch(); }};
  std::map<std::string, int64_t> strangers_;  // until when
  Random random_;
};

}  // namespace transport
}  // namespace fusewire

#endif

#endif  // FUSEWIRE_TRANSPORT_UCX_WORKER_H_
