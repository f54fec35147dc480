// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <sys/epoll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace transport {
namespace {

constexpr unsigned kMessageId = 1;
constexpr int kProgressMax = 64;
constexpr size_t kSpareMax = 32;
// So often in a row a worker may say that it is busy; then it gets a pause, and the processor is free.
constexpr int kBusyTurnsMax = 100;
constexpr int64_t kBusyPauseNs = kMillisecondNs;
// How long what was written may take to leave when the reactor ends.
constexpr int64_t kFarewellNs = 500 * kMillisecondNs;
constexpr int64_t kStrangerNs = 30 * kSecondNs;
// UCX reads an address as its own words say, without being told where it ends.
constexpr size_t kAddressSlackBytes = 4096;
constexpr char kUcxKey = 0;  // its address names the resident

// What a home keeps: the worker, or why there is none.
class Opened final : public reactor::Resident {
 public:
  Opened(std::unique_ptr<UcxWorker> made, Status failed) : worker(std::move(made)), why(std::move(failed)) {}
  const std::unique_ptr<UcxWorker> worker;
  const Status why;
};

}  // namespace

Result<UcxWorker*> UcxWorker::Of(reactor::Reactor& home, const UcxOptions& options) {
  FUSEWIRE_AT_HOME(home);
  auto* opened = static_cast<Opened*>(home.resident(&kUcxKey));
  if (opened == nullptr) {
    std::unique_ptr<UcxWorker> worker(new UcxWorker(home));
    Status why = worker->Open(options);
    if (!why.ok()) {
      FUSEWIRE_LOG(kWarn, "reactor %s goes without UCX: %s", home.name().c_str(), why.ToString().c_str());
      worker.reset();
    }
    auto made = std::make_unique<Opened>(std::move(worker), why);
    opened = made.get();
    home.Keep(&kUcxKey, std::move(made));
  }
  if (opened->worker == nullptr) return opened->why;
  return opened->worker.get();
}

Status UcxWorker::Open(const UcxOptions& options) {
  Result<UcxLibrary> library = UcxLibrary::Load(options.library);
  if (!library.ok()) return library.status();
  library_ = library.value();
  auto failed = [this](const char* call, ucs_status_t status) {
    return Status::Unavailable(library_.Say(call, status))
        .Phase("start UCX " + library_.Version())
        .Next("run `ucx_info -d`, and look at UCX_TLS and UCX_NET_DEVICES; until then all goes over TCP");
  };
  ucp_config_t* config = nullptr;
  ucs_status_t status = library_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return failed("ucp_config_read", status);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  // Messages, and nothing else: UCX's remote access, where no device checks it, would touch whatever address a peer
  // names.
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "fusewire";
  status = library_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  library_.ucp_config_release(config);
  if (status != UCS_OK) {
    context_ = nullptr;
    return failed("ucp_init", status);
  }
  ucp_worker_params_t worker_params = {};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // whoever is at home
  status = library_.ucp_worker_create(context_, &worker_params, &worker_);
  if (status != UCS_OK) {
    worker_ = nullptr;
    return failed("ucp_worker_create", status);
  }
  status = library_.ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return failed("ucp_worker_get_efd", status);
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  status = library_.ucp_worker_get_address(worker_, &address, &address_bytes);
  if (status != UCS_OK) return failed("ucp_worker_get_address", status);
  const auto* begin = reinterpret_cast<const uint8_t*>(address);
  address_.assign(begin, begin + address_bytes);
  library_.ucp_worker_release_address(worker_, address);
  if (address_.size() > kUcxAddressBytesMax) return failed("a worker's address is too long", UCS_ERR_EXCEEDS_LIMIT);
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = &UcxWorker::OnMessage;
  handler.arg = this;
  status = library_.ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return failed("ucp_worker_set_am_recv_handler", status);
  Status watched = home_.Watch(event_fd_, EPOLLIN, this);
  watched_ = watched.ok();
  if (watched_) Touch();
  return watched;
}

UcxWorker::~UcxWorker() {
  if (watched_) home_.Unwatch(event_fd_, this);
  if (worker_ != nullptr) {
    FUSEWIRE_CHECK(retired_.empty());  // no end is left that uses one
    for (auto& [address, peer] : peers_) Flush(peer.get());
    AwaitNone(&flushing_);
    // Ends what could not leave in time, and asks nobody else.
    for (auto& [address, peer] : peers_) CloseEndpoint(std::exchange(peer->endpoint, nullptr));
    AwaitNone(&closing_);
    library_.ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) library_.ucp_cleanup(context_);
  for (List<UcxSend>* list : {&sends_, &spare_}) {
    while (UcxSend* send = list->PopFront()) const std::unique_ptr<UcxSend> ours(send);
  }
}

void UcxWorker::AwaitNone(const size_t* count) {
  const int64_t end_ns = AddNs(home_.clock()->NowNs(), kFarewellNs);
  while (*count > 0 && home_.clock()->NowNs() < end_ns) {
    if (!Progress()) std::this_thread::yield();
  }
}

// ---- ends and peers ----

uint64_t UcxWorker::Add(UcxEnd* end) {
  for (;;) {
    const uint64_t id = random_.Next();
    if (id != 0 && ends_.emplace(id, end).second) return id;
  }
}

Result<UcxPeer*> UcxWorker::Reach(ConstBytes address) {
  std::string key = address.ToString();
  auto found = peers_.find(key);
  if (found != peers_.end() && found->second->failed == UCS_OK) return found->second.get();
  EndFailedPeers();
  auto peer = std::make_unique<UcxPeer>();
  peer->address = key;
  peer->name = random_.Next() | 1;
  key.resize(key.size() + kAddressSlackBytes);
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(key.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxWorker::OnError;
  params.err_handler.arg = this;
  const ucs_status_t status = library_.ucp_ep_create(worker_, &params, &peer->endpoint);
  if (status != UCS_OK) {
    return Status::Unavailable(library_.Say("ucp_ep_create", status))
        .Next("check that UCX_TLS and UCX_NET_DEVICES name what both hosts have, and what notices a peer's death");
  }
  Touch();
  UcxPeer* reached = peer.get();
  peers_[peer->address] = std::move(peer);
  return reached;
}

Result<UcxPeer*> UcxWorker::Meet(ConstBytes address, uint64_t theirs) {
  Result<UcxPeer*> peer = Reach(address);
  if (peer.ok() && peer.value()->theirs != 0 && peer.value()->theirs != theirs) {
    const uint64_t name = peer.value()->name;
    auto old = peers_.find(address.ToString());
    retired_.push_back(std::move(old->second));
    peers_.erase(old);
    EndRetiredPeers();
    peer = Reach(address);
    if (peer.ok()) peer.value()->name = name;
  }
  if (peer.ok()) peer.value()->theirs = theirs;
  return peer;
}

void UcxWorker::Remove(uint64_t id) {
  ends_.erase(id);
  EndRetiredPeers();
}

void UcxWorker::EndRetiredPeers() {
  std::erase_if(retired_, [this](const std::unique_ptr<UcxPeer>& peer) {
    const bool used =
        std::any_of(ends_.begin(), ends_.end(), [&peer](const auto& each) { return each.second->Uses(peer.get()); });
    if (!used) CloseEndpoint(peer->endpoint);
    return !used;
  });
}

void UcxWorker::OnError(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto* worker = static_cast<UcxWorker*>(self);
  auto tell = [&](UcxPeer* peer) {
    if (peer->endpoint == endpoint && peer->failed == UCS_OK) peer->failed = status;
  };
  for (auto& [address, peer] : worker->peers_) tell(peer.get());
  for (auto& peer : worker->retired_) tell(peer.get());
}

void UcxWorker::TellFar(const std::string& peer, const Status& why) {
  uint64_t suppressed = 0;
  if (!far_log_.Allow(home_.now_ns(), &suppressed)) return;
  FUSEWIRE_LOG(kWarn, "%s is not reached over UCX (%llu more in between): %s", peer.c_str(),
               static_cast<unsigned long long>(suppressed), why.ToString().c_str());
}

void UcxWorker::Break(UcxPeer* peer, ucs_status_t why) {
  if (peer->failed == UCS_OK) peer->failed = why;
  EndFailedPeers();
}

void UcxWorker::EndFailedPeers() {
  std::vector<std::unique_ptr<UcxPeer>> failed;
  for (auto it = peers_.begin(); it != peers_.end();) {
    if (it->second->failed != UCS_OK) {
      failed.push_back(std::move(it->second));
      it = peers_.erase(it);
    } else {
      ++it;
    }
  }
  for (auto& peer : retired_) {
    if (peer->failed != UCS_OK) failed.push_back(std::move(peer));
  }
  std::erase(retired_, nullptr);
  for (const auto& peer : failed) {
    CloseEndpoint(peer->endpoint);
    const Status why = Status::Unavailable(std::string("UCX: ") + library_.ucs_status_string(peer->failed))
                           .Next("check that the peer is running and reachable");
    for (auto& [id, end] : ends_) end->OnPeerFailed(peer.get(), why);
  }
}

void UcxWorker::CloseEndpoint(ucp_ep_h endpoint) {
  if (endpoint == nullptr) return;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = &UcxWorker::OnClosed;
  param.user_data = this;
  if (UCS_PTR_IS_PTR(library_.ucp_ep_close_nbx(endpoint, &param))) ++closing_;
  Touch();
}

void UcxWorker::OnClosed(void* request, ucs_status_t, void* self) {
  auto* worker = static_cast<UcxWorker*>(self);
  --worker->closing_;
  worker->library_.ucp_request_free(request);
}

void UcxWorker::Flush(UcxPeer* peer) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxWorker::OnFlushed;
  param.user_data = this;
  if (UCS_PTR_IS_PTR(library_.ucp_ep_flush_nbx(peer->endpoint, &param))) ++flushing_;
}

void UcxWorker::OnFlushed(void* request, ucs_status_t, void* self) {
  auto* worker = static_cast<UcxWorker*>(self);
  --worker->flushing_;
  worker->library_.ucp_request_free(request);
}

bool UcxWorker::IsStranger(const std::string& address) const {
  auto found = strangers_.find(address);
  return found != strangers_.end() && home_.now_ns() < found->second;
}

void UcxWorker::MarkStranger(const std::string& address) {
  std::erase_if(strangers_, [this](const auto& each) { return each.second <= home_.now_ns(); });
  strangers_[address] = AddNs(home_.now_ns(), kStrangerNs);
}

// ---- the loop ----

bool UcxWorker::Progress() {
  bool any = false;
  for (int i = 0; i < kProgressMax && library_.ucp_worker_progress(worker_) > 0; ++i) any = true;
  return any;
}

bool UcxWorker::ProgressAndDeliver() {
  const bool any = Progress();
  DeliverReady();
  if (!any) return false;
  Touch();
  home_.SetHot(this);
  return true;
}

void UcxWorker::DeliverReady() {
  EndFailedPeers();
  List<UcxEnd> now;
  now.TakeAll(&ready_);
  while (UcxEnd* end = now.PopFront()) end->Deliver();
}

// At the end of a turn in which something was done here. The loop may park only once UCX has promised to wake it.
void UcxWorker::Flush() {
  if (Progress()) home_.SetHot(this);
  DeliverReady();
  if (!ready_.empty() || linked()) {
    Touch();
    return;
  }
  const ucs_status_t armed = library_.ucp_worker_arm(worker_);
  if (armed == UCS_OK) {
    busy_turns_ = 0;
    // What came between the last look and the promise is told by some devices and not by others.
    if (Progress()) Touch();
  } else if (++busy_turns_ < kBusyTurnsMax) {
    Touch();
  } else {
    home_.Arm(&again_, kBusyPauseNs);
  }
}

// ---- messages ----

UcxSend* UcxWorker::Take() {
  UcxSend* send = spare_.PopFront();
  if (send != nullptr) {
    --spare_count_;
  } else {
    send = std::make_unique_for_overwrite<UcxSend>().release();  // one of our lists' from now on
  }
  send->worker = this;
  send->record = UcxRecord();
  send->lender = nullptr;
  send->bytes = 0;
  sends_.PushBack(send);
  return send;
}

void UcxWorker::Send(UcxPeer* peer, UcxSend* send) {
  Post(peer, send, ConstBytes(send->data, send->bytes), UCP_AM_SEND_FLAG_EAGER);
}

void UcxWorker::Lend(UcxPeer* peer, UcxSend* send, ConstBytes bytes, UcxEnd* lender) {
  send->lender = lender;
  Post(peer, send, bytes, UCP_AM_SEND_FLAG_RNDV);
}

void UcxWorker::Post(UcxPeer* peer, UcxSend* send, ConstBytes bytes, uint32_t flags) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = flags;
  param.cb.send = &UcxWorker::OnSent;
  param.user_data = send;
  ucs_status_ptr_t request = library_.ucp_am_send_nbx(peer->endpoint, kMessageId, &send->record, sizeof(send->record),
                                                      bytes.data, bytes.size, &param);
  Touch();
  if (UCS_PTR_IS_PTR(request)) return;
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status != UCS_OK && peer->failed == UCS_OK) peer->failed = status;
  Finish(send, status);
}

void UcxWorker::OnSent(void* request, ucs_status_t status, void* user_data) {
  auto* send = static_cast<UcxSend*>(user_data);
  send->worker->library_.ucp_request_free(request);
  send->worker->Finish(send, status);
}

void UcxWorker::Finish(UcxSend* send, ucs_status_t status) {
  UcxEnd* lender = std::exchange(send->lender, nullptr);
  send->Unlink();
  if (spare_count_ < kSpareMax) {
    spare_.PushBack(send);
    ++spare_count_;
  } else {
    const std::unique_ptr<UcxSend> ours(send);
  }
  if (lender != nullptr) lender->OnLoanBack(status);
}

ucs_status_t UcxWorker::Receive(void* loan, const Bytes* parts, size_t count, UcxEnd* end) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &UcxWorker::OnReceived;
  param.user_data = end;
  void* buffer = parts[0].data;
  size_t units = parts[0].size;
  if (count > 1) {
    for (size_t i = 0; i < count; ++i) end->loan_parts[i] = {parts[i].data, parts[i].size};
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = UCP_DATATYPE_IOV;
    buffer = end->loan_parts;
    units = count;
  }
  ucs_status_ptr_t request = library_.ucp_am_recv_data_nbx(worker_, loan, buffer, units, &param);
  Touch();
  return UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
}

void UcxWorker::OnReceived(void* request, ucs_status_t status, size_t bytes, void* user_data) {
  auto* end = static_cast<UcxEnd*>(user_data);
  end->worker->library_.ucp_request_free(request);
  end->OnReceived(status, bytes);
}

ucs_status_t UcxWorker::OnMessage(void* self, const void* header, size_t header_bytes, void* data, size_t bytes,
                                  const ucp_am_recv_param_t* param) {
  auto* worker = static_cast<UcxWorker*>(self);
  UcxRecord record;
  if (header_bytes != sizeof(record)) return UCS_OK;
  CopyBytes(Bytes(&record, sizeof(record)), ConstBytes(header, header_bytes));
  auto found = worker->ends_.find(record.to);
  if (found == worker->ends_.end()) return UCS_OK;  // it has gone, or never was
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool kept = found->second->OnRecord(record, data, bytes, rendezvous);
  worker->DeliverLater(found->second);
  return kept ? UCS_INPROGRESS : UCS_OK;
}

}  // namespace transport
}  // namespace fusewire

#endif
