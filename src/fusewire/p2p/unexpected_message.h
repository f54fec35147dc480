// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A message that came before its receive, with its bytes; or an offer that waits at its sender. The word is MPI's.
// Home: the endpoint's. Owns: its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "fusewire/base/list.h"
#include "fusewire/buffer/buffer.h"

namespace fusewire::p2p {

class PeerLink;
class ReceiveOp;

struct UnexpectedMessage final : ListNode {
  PeerLink* peer = nullptr;
  uint64_t tag = 0;
  uint64_t send = 0;  // its id at the sender
  uint64_t bytes = 0;
  uint64_t cost = 0;        // of the sender's credit; an offer costs none
  bool offer = false;       // its body waits at the sender
  bool confirm = false;     // the sender wants a result
  bool arriving = false;    // `data` is being filled
  bool matched = false;     // a receive was bound to it while it arrived: it is in no list any more
  ReceiveOp* op = nullptr;  // that receive; null: it has ended
  Buffer data;
  std::string head;
};

}  // namespace fusewire::p2p
