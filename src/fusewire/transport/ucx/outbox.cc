// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/outbox.h"

#if FUSEWIRE_HAS_UCX

#include <memory>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr size_t kSpareMax = 32;

}  // namespace

UcxOutbox::~UcxOutbox() {
  FUSEWIRE_CHECK(!handles_.open());
  for (List<UcxSend>* list : {&sends_, &spare_}) {
    while (UcxSend* send = list->PopFront()) const std::unique_ptr<UcxSend> ours(send);
  }
}

UcxSend* UcxOutbox::Take() {
  UcxSend* send = spare_.PopFront();
  FUSEWIRE_DCHECK((send != nullptr) == (spare_count_ > 0));
  if (send != nullptr) {
    --spare_count_;
  } else {
    send = std::make_unique_for_overwrite<UcxSend>().release();  // one of our lists' from now on
  }
  send->outbox = this;
  send->record = UcxRecord();
  send->lender = nullptr;
  send->bytes = 0;
  sends_.PushBack(send);
  return send;
}

void UcxOutbox::Send(UcxPeer* peer, UcxSend* send) {
  FUSEWIRE_DCHECK(send->bytes <= kUcxBytesMax);
  Post(peer, send, ConstBytes(send->data, send->bytes), UCP_AM_SEND_FLAG_EAGER);
}

void UcxOutbox::Lend(UcxPeer* peer, UcxSend* send, ConstBytes bytes, UcxLender* lender) {
  FUSEWIRE_DCHECK(bytes.size <= kUcxLoanBytesMax);
  send->lender = lender;
  Post(peer, send, bytes, UCP_AM_SEND_FLAG_RNDV);
}

void UcxOutbox::Post(UcxPeer* peer, UcxSend* send, ConstBytes bytes, uint32_t flags) {
  FUSEWIRE_DCHECK(peer->endpoint != nullptr);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = flags;
  param.cb.send = &UcxOutbox::OnSent;
  param.user_data = send;
  ucs_status_ptr_t request = handles_.library().ucp_am_send_nbx(peer->endpoint, kUcxMessageId, &send->record,
                                                                sizeof(send->record), bytes.data, bytes.size, &param);
  progress_.Touch();
  if (UCS_PTR_IS_PTR(request)) return;
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status != UCS_OK) peer->Fail(status);
  Finish(send, status);
}

void UcxOutbox::OnSent(void* request, ucs_status_t status, void* user_data) {
  auto* send = static_cast<UcxSend*>(user_data);
  send->outbox->handles_.library().ucp_request_free(request);
  send->outbox->Finish(send, status);
}

void UcxOutbox::Finish(UcxSend* send, ucs_status_t status) {
  FUSEWIRE_DCHECK(send->linked());
  UcxLender* lender = std::exchange(send->lender, nullptr);
  send->Unlink();
  if (spare_count_ < kSpareMax) {
    spare_.PushBack(send);
    ++spare_count_;
  } else {
    const std::unique_ptr<UcxSend> ours(send);
  }
  if (lender != nullptr) lender->OnLoanBack(status);
}

}  // namespace fusewire::transport

#endif
