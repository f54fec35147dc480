// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/handles.h"

#if FUSEWIRE_HAS_UCX

#include <sys/epoll.h>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/ucx/control_message.h"

namespace fusewire::transport {

Status UcxHandles::Open(const UcxOptions& options, ucp_am_recv_callback_t on_message, void* self) {
  FUSEWIRE_CHECK(context_ == nullptr);
  FUSEWIRE_CHECK(worker_ == nullptr);
  library_ = FUSEWIRE_TRY(UcxLibrary::Load(options.library));
  FUSEWIRE_TRY(MakeContext());
  FUSEWIRE_TRY(MakeWorker());
  FUSEWIRE_TRY(ReadAddress());
  return SetMessageHandler(on_message, self);
}

Status UcxHandles::MakeContext() {
  ucp_config_t* config = nullptr;
  ucs_status_t status = library_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return Failed("ucp_config_read", status);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  // Messages, and nothing else: UCX's remote access, where no device checks it, would touch whatever address a peer
  // names.
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "fusewire";
  ucp_context_h context = nullptr;
  status = library_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  library_.ucp_config_release(config);
  if (status != UCS_OK) return Failed("ucp_init", status);
  context_ = context;
  return Status::Ok();
}

Status UcxHandles::MakeWorker() {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // by the thread that is at home
  ucp_worker_h worker = nullptr;
  ucs_status_t status = library_.ucp_worker_create(context_, &params, &worker);
  if (status != UCS_OK) return Failed("ucp_worker_create", status);
  worker_ = worker;
  status = library_.ucp_worker_get_efd(worker_, &event_fd_);
  if (status != UCS_OK) return Failed("ucp_worker_get_efd", status);
  return Status::Ok();
}

Status UcxHandles::ReadAddress() {
  ucp_address_t* address = nullptr;
  size_t address_bytes = 0;
  const ucs_status_t status = library_.ucp_worker_get_address(worker_, &address, &address_bytes);
  if (status != UCS_OK) return Failed("ucp_worker_get_address", status);
  const auto* begin = reinterpret_cast<const uint8_t*>(address);
  address_.assign(begin, begin + address_bytes);
  library_.ucp_worker_release_address(worker_, address);
  if (address_.size() > kUcxAddressBytesMax)
    return Failed("the worker's address is longer than kUcxAddressBytesMax", UCS_ERR_EXCEEDS_LIMIT);
  return Status::Ok();
}

Status UcxHandles::SetMessageHandler(ucp_am_recv_callback_t on_message, void* self) {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kUcxMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = on_message;
  handler.arg = self;
  const ucs_status_t status = library_.ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return Failed("ucp_worker_set_am_recv_handler", status);
  return Status::Ok();
}

Status UcxHandles::Failed(const char* call, ucs_status_t status) const {
  return Status::Unavailable(library_.Describe(call, status))
      .Phase("start UCX " + library_.Version())
      .Next("run `ucx_info -d`, and look at UCX_TLS and UCX_NET_DEVICES; until then all goes over TCP");
}

void UcxHandles::Close() {
  FUSEWIRE_CHECK(worker_ == nullptr || context_ != nullptr);
  if (worker_ != nullptr) library_.ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) library_.ucp_cleanup(std::exchange(context_, nullptr));
}

// ---- progress ----

namespace {

constexpr int kProgressMax = 64;
// How often in a row a worker may be too busy to be armed; then it pauses, and the processor is free.
constexpr int kBusyTurnsMax = 100;
constexpr int64_t kBusyPauseNs = kMillisecondNs;

}  // namespace

Status UcxProgress::Watch() {
  FUSEWIRE_CHECK(!watched_);
  FUSEWIRE_CHECK(handles_.open());
  Status watched = home_.Watch(handles_.event_fd(), EPOLLIN, this);
  watched_ = watched.ok();
  if (watched_) Touch();
  return watched;
}

void UcxProgress::Unwatch() {
  if (std::exchange(watched_, false)) home_.Unwatch(handles_.event_fd(), this);
}

bool UcxProgress::Look() {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!std::exchange(inside_, true));
  bool any = false;
  for (int i = 0; i < kProgressMax && handles_.library().ucp_worker_progress(handles_.worker()) > 0; ++i) any = true;
  inside_ = false;
  return any;
}

bool UcxProgress::LookAndDeliver() {
  const bool any = Look();
  handler_.DeliverReady();
  if (!any) return false;
  Touch();
  home_.SetHot(this);
  return true;
}

// At the end of a turn in which something was done here. The loop may park only once UCX has promised to wake it.
void UcxProgress::Flush() {
  if (Look()) home_.SetHot(this);
  if (handler_.DeliverReady() || linked()) {
    Touch();
    return;
  }
  const ucs_status_t armed = handles_.library().ucp_worker_arm(handles_.worker());
  if (armed == UCS_OK) {
    busy_turns_ = 0;
    // Some devices do not wake us for what came between the last look and the promise.
    if (Look()) Touch();
  } else if (++busy_turns_ < kBusyTurnsMax) {
    Touch();
  } else {
    home_.Arm(&again_, kBusyPauseNs);
  }
}

}  // namespace fusewire::transport

#endif
