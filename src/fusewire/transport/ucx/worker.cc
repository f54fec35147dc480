// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <memory>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr char kUcxKey = 0;  // its address names the resident

// Kept by a home: the worker, or the reason why there is none.
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
      FUSEWIRE_LOG(kWarn, "reactor %s runs without UCX: %s; see: fusewire explain rdma#requirements-and-limits",
                   home.name().c_str(), why.ToString().c_str());
      worker.reset();
    }
    auto made = std::make_unique<Opened>(std::move(worker), why);
    opened = made.get();
    home.Keep(&kUcxKey, std::move(made));
  }
  if (opened->worker == nullptr) return opened->why;
  return opened->worker.get();
}

UcxWorker::UcxWorker(reactor::Reactor& home)
    : progress_(home, &handles_, this),
      outbox_(&handles_, &progress_),
      endpoints_(&handles_, &progress_),
      strangers_(home),
      random_(SystemRandom64()) {}

Status UcxWorker::Open(const UcxOptions& options) {
  FUSEWIRE_TRY(handles_.Open(options, &UcxWorker::OnMessage, this));
  return progress_.Watch();
}

UcxWorker::~UcxWorker() {
  FUSEWIRE_CHECK(ends_.empty());
  progress_.Unwatch();
  endpoints_.Leave();
  handles_.Close();  // before the outbox goes: UCX may still hold a message
}

uint64_t UcxWorker::Add(UcxEnd* end) {
  FUSEWIRE_CHECK(end->worker == this);
  for (;;) {
    const uint64_t id = random_.Next();
    if (id != 0 && ends_.emplace(id, end).second) return id;
  }
}

void UcxWorker::Remove(uint64_t id) {
  const size_t removed = ends_.erase(id);
  FUSEWIRE_CHECK(removed == 1);
}

bool UcxWorker::DeliverReady() {
  endpoints_.EndFailed();
  List<UcxEnd> now;
  now.TakeAll(&ready_);
  while (UcxEnd* end = now.PopFront()) end->Deliver();
  return !ready_.empty();
}

ucs_status_t UcxWorker::Receive(void* loan, const Bytes* parts, size_t count, UcxEnd* end) {
  FUSEWIRE_CHECK(count > 0);
  FUSEWIRE_CHECK(count <= kLandingPartsMax);
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
  ucs_status_ptr_t request = library().ucp_am_recv_data_nbx(handles_.worker(), loan, buffer, units, &param);
  progress_.Touch();
  return UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
}

void UcxWorker::OnReceived(void* request, ucs_status_t status, size_t bytes, void* user_data) {
  auto* end = static_cast<UcxEnd*>(user_data);
  end->worker->library().ucp_request_free(request);
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
  FUSEWIRE_DCHECK(found->second->worker == worker);
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool kept = found->second->OnRecord(record, data, bytes, rendezvous);
  worker->DeliverLater(found->second);
  return kept ? UCS_INPROGRESS : UCS_OK;
}

}  // namespace fusewire::transport

#endif
