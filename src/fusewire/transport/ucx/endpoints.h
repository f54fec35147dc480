// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One endpoint for each worker of a peer that this home communicates with, whatever the number of connections.
// An endpoint ends when it has failed: then its users are notified. Or it retires, when the peer has a new one:
// then its users keep it, and it ends with the last of them.
// Home: one reactor. Owns: the endpoints. Fails: Reach and Meet say why.
#pragma once

#include "fusewire/transport/ucx/handles.h"

#if FUSEWIRE_HAS_UCX

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/list.h"
#include "fusewire/base/random.h"

namespace fusewire::transport {

// A connection that uses a peer.
class UcxPeerUser : public ListNode {
 public:
  // At home, outside of UCX. It no longer uses the peer.
  virtual void OnPeerFailed(const Status& why) = 0;

 protected:
  ~UcxPeerUser() = default;
};

// One worker of a peer, and our endpoint to it.
struct UcxPeer {
  void Fail(ucs_status_t why) {
    if (failed == UCS_OK) failed = why;
  }

  ucp_ep_h endpoint = nullptr;
  std::string address;
  uint64_t name = 0;    // of our endpoint, for the peer: a new one where it failed us, not where it had failed the peer
  uint64_t theirs = 0;  // the peer's name for its own, once it has sent it
  ucs_status_t failed = UCS_OK;
  List<UcxPeerUser> users;
};

class UcxEndpoints {
 public:
  UcxEndpoints(const UcxHandles* handles, UcxProgress* progress);
  // After Leave.
  ~UcxEndpoints();

  Result<UcxPeer*> Reach(ConstBytes address);
  // The same, for a peer whose endpoint is `theirs`. If ours was made for another one, that one is gone: connections
  // that still use ours keep it, and this one gets a new one.
  Result<UcxPeer*> Meet(ConstBytes address, uint64_t theirs);
  void Use(UcxPeer* peer, UcxPeerUser* user) { peer->users.PushBack(user); }
  // Also of a user that uses none.
  void Release(UcxPeerUser* user);

  // Ends all that is under way with this peer, and with it every connection to it.
  void Break(UcxPeer* peer, ucs_status_t why);
  // At home, outside of UCX. Tells the users of those that have failed since.
  void EndFailed();
  // Lets what was written leave, for a while; then ends all.
  void Leave();

 private:
  Result<std::unique_ptr<UcxPeer>> Make(ConstBytes address);
  void EndRetired();
  void End(UcxPeer* peer);
  void Flush(const UcxPeer& peer);
  void AwaitNone(const size_t* count);
  static void OnEnded(void* request, ucs_status_t status, void* self);
  static void OnFlushed(void* request, ucs_status_t status, void* self);
  static void OnError(void* self, ucp_ep_h endpoint, ucs_status_t status);

  const UcxHandles& handles_;
  UcxProgress& progress_;
  std::map<std::string, std::unique_ptr<UcxPeer>> peers_;  // by address
  std::vector<std::unique_ptr<UcxPeer>> retired_;          // until their last connection has gone
  size_t ending_ = 0, flushing_ = 0;                       // endpoints
  Random random_;
};

}  // namespace fusewire::transport

#endif
