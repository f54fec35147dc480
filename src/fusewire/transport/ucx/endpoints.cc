// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/endpoints.h"

#if FUSEWIRE_HAS_UCX

#include <thread>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

// How long written data may take to leave when the reactor ends.
constexpr int64_t kFarewellNs = 500 * kMillisecondNs;
// UCX does not learn where an address ends: it reads as much as the address itself calls for.
constexpr size_t kAddressSlackBytes = 4096;

}  // namespace

UcxEndpoints::UcxEndpoints(const UcxHandles* handles, UcxProgress* progress)
    : handles_(*handles), progress_(*progress), random_(SystemRandom64()) {}

UcxEndpoints::~UcxEndpoints() { FUSEWIRE_CHECK(peers_.empty()); }

Result<UcxPeer*> UcxEndpoints::Reach(ConstBytes address) {
  const std::string key = address.ToString();
  auto found = peers_.find(key);
  if (found != peers_.end() && found->second->failed == UCS_OK) return found->second.get();
  EndFailed();
  std::unique_ptr<UcxPeer> made = FUSEWIRE_TRY(Make(address));
  UcxPeer* reached = made.get();
  const bool fresh = peers_.emplace(key, std::move(made)).second;
  FUSEWIRE_CHECK(fresh);
  return reached;
}

Result<std::unique_ptr<UcxPeer>> UcxEndpoints::Make(ConstBytes address) {
  auto peer = std::make_unique<UcxPeer>();
  peer->address = address.ToString();
  peer->name = random_.Next() | 1;
  std::string slack = peer->address;
  slack.resize(slack.size() + kAddressSlackBytes);
  ucp_ep_params_t params = {};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(slack.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxEndpoints::OnError;
  params.err_handler.arg = this;
  const ucs_status_t status = handles_.library().ucp_ep_create(handles_.worker(), &params, &peer->endpoint);
  if (status != UCS_OK) {
    return Status::Unavailable(handles_.library().Describe("ucp_ep_create", status))
        .Next("check that UCX_TLS and UCX_NET_DEVICES name what both hosts have, and what can detect a peer's death");
  }
  progress_.Touch();
  return peer;
}

Result<UcxPeer*> UcxEndpoints::Meet(ConstBytes address, uint64_t theirs) {
  Result<UcxPeer*> peer = Reach(address);
  if (peer.ok() && peer.value()->theirs != 0 && peer.value()->theirs != theirs) {
    const uint64_t name = peer.value()->name;
    auto old = peers_.find(address.ToString());
    retired_.push_back(std::move(old->second));
    peers_.erase(old);
    EndRetired();
    peer = Reach(address);
    if (peer.ok()) peer.value()->name = name;
  }
  if (peer.ok()) peer.value()->theirs = theirs;
  return peer;
}

void UcxEndpoints::Release(UcxPeerUser* user) {
  user->Unlink();
  EndRetired();
}

void UcxEndpoints::EndRetired() {
  std::erase_if(retired_, [this](const std::unique_ptr<UcxPeer>& peer) {
    const bool used = !peer->users.empty();
    if (!used) End(peer.get());
    return !used;
  });
}

void UcxEndpoints::OnError(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto* endpoints = static_cast<UcxEndpoints*>(self);
  auto fail = [&](UcxPeer* peer) {
    if (peer->endpoint == endpoint) peer->Fail(status);
  };
  for (auto& [address, peer] : endpoints->peers_) fail(peer.get());
  for (auto& peer : endpoints->retired_) fail(peer.get());
}

void UcxEndpoints::Break(UcxPeer* peer, ucs_status_t why) {
  FUSEWIRE_CHECK(why != UCS_OK);
  peer->Fail(why);
  EndFailed();
}

void UcxEndpoints::EndFailed() {
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
    End(peer.get());
    const Status why = Status::Unavailable(std::string("UCX: ") + handles_.library().ucs_status_string(peer->failed))
                           .Next("check that the peer is running and reachable");
    while (UcxPeerUser* user = peer->users.PopFront()) user->OnPeerFailed(why);
  }
}

// ---- the end ----

void UcxEndpoints::Leave() {
  FUSEWIRE_CHECK(retired_.empty());  // no connection is left that uses one
  if (!handles_.open()) return;
  for (auto& [address, peer] : peers_) {
    FUSEWIRE_CHECK(peer->users.empty());
    Flush(*peer);
  }
  AwaitNone(&flushing_);
  // Closes connections that could not be flushed in time, without their peers.
  for (auto& [address, peer] : peers_) End(peer.get());
  AwaitNone(&ending_);
  peers_.clear();
}

void UcxEndpoints::AwaitNone(const size_t* count) {
  Clock* clock = progress_.home().clock();
  const int64_t end_ns = AddNs(clock->NowNs(), kFarewellNs);
  while (*count > 0 && clock->NowNs() < end_ns) {
    if (!progress_.Look()) std::this_thread::yield();
  }
}

void UcxEndpoints::End(UcxPeer* peer) {
  ucp_ep_h endpoint = std::exchange(peer->endpoint, nullptr);
  FUSEWIRE_CHECK(endpoint != nullptr);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = &UcxEndpoints::OnEnded;
  param.user_data = this;
  if (UCS_PTR_IS_PTR(handles_.library().ucp_ep_close_nbx(endpoint, &param))) ++ending_;
  progress_.Touch();
}

void UcxEndpoints::OnEnded(void* request, ucs_status_t, void* self) {
  auto* endpoints = static_cast<UcxEndpoints*>(self);
  FUSEWIRE_CHECK(endpoints->ending_ > 0);
  --endpoints->ending_;
  endpoints->handles_.library().ucp_request_free(request);
}

void UcxEndpoints::Flush(const UcxPeer& peer) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxEndpoints::OnFlushed;
  param.user_data = this;
  if (UCS_PTR_IS_PTR(handles_.library().ucp_ep_flush_nbx(peer.endpoint, &param))) ++flushing_;
}

void UcxEndpoints::OnFlushed(void* request, ucs_status_t, void* self) {
  auto* endpoints = static_cast<UcxEndpoints*>(self);
  FUSEWIRE_CHECK(endpoints->flushing_ > 0);
  --endpoints->flushing_;
  endpoints->handles_.library().ucp_request_free(request);
}

}  // namespace fusewire::transport

#endif
