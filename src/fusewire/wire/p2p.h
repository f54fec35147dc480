// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The messages of endpoints on a pipe of service 2: a verb, and a few numbers.
// Home: none, pure functions. Fails: DecodeP2p returns kCorrupt. docs/wire.md is the specification.
// The header's method is the verb. Its call names an operation: bit 63 says whose table the name is from, the
// sender's (1) or the receiver's own (0). The head begins with the verb's numbers, u64 each; behind them stands what
// the last column says, and nothing else.
//   verb      call           aux                          numbers                     behind them            body
//   open      0              version                      incarnation lost eager      -                      -
//                                                         credit offers
//   use       count          0                            -                           -                      -
//   eager     sender's       head_bytes, bit 16 confirm   tag receive                 head, small payload    payload
//   offer     sender's       head_bytes                   tag receive bytes           head                   -
//   request   yours          0                            receive                     -                      -
//   data      yours          0                            send                        -                      payload
//   result    yours          a code                       -                           status, if not 0       -
//   withdraw  sender's       0                            tag                         -                      -
//   posted    sender's       0                            tag bytes seen              -                      -
//   credit    bytes          0                            -                           -                      -
//   put       sender's       bit 0 confirm                region offset signal add    small payload          payload
//   get       sender's       0                            region offset bytes         -                      -
//   got       yours          a code                       -                           status or payload      payload
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/wire/wire.h"

namespace fusewire::wire {

enum class P2pVerb : uint16_t {
  kOpen = 1,      // what I take; sent once by both on each new pipe
  kUse = 2,       // this is the one pipe that we use; sent by the endpoint whose name comes first
  kEager = 3,     // a small message
  kOffer = 4,     // a large one waits here; with a receive, its data follows if it fits there; or here it is, if wanted
  kRequest = 5,   // send it, here
  kData = 6,      // the large one
  kResult = 7,    // your send or put has ended here
  kWithdraw = 8,  // what I offered is no longer there
  kPosted = 9,    // a receive is posted: what is sent from now on with this tag need not wait
  kCredit = 10,   // how many more bytes of small messages may come before they are received
  kPut = 11,      // into a region
  kGet = 12,      // from a region
  kGot = 13,      // the answer to it
};
constexpr uint16_t kP2pVerbMax = 13;
const char* P2pVerbName(P2pVerb verb);

constexpr uint16_t kP2pService = 2;  // in the hello
constexpr uint32_t kP2pVersion = 1;
constexpr size_t kP2pNumbersMax = 5;
constexpr size_t kP2pHeadBytesMax = 4096;         // of the caller's head
constexpr uint64_t kP2pMine = uint64_t{1} << 63;  // of a call: a name from the sender's table
constexpr uint32_t kP2pConfirmEager = 1u << 16;   // in aux
constexpr uint32_t kP2pConfirmPut = 1;            // in aux
constexpr uint32_t kP2pWaited = 1;                // in aux of a request: its receive was there before the offer

struct P2pMessage {
  P2pVerb verb = P2pVerb::kOpen;
  uint64_t id = 0;  // without bit 63
  uint32_t aux = 0;
  uint32_t head_bytes = 0;
  uint64_t numbers[kP2pNumbersMax] = {};
  ConstBytes head;     // the caller's
  ConstBytes payload;  // small, in the head; or the words of a status
};

// The number of integers at the beginning of the verb's head.
size_t P2pNumbers(P2pVerb verb);
// Writes them; returns the number of bytes. `out` has room for kP2pNumbersMax.
size_t EncodeP2p(P2pVerb verb, const uint64_t* numbers, Bytes out);
// `header` and `meta` have passed CheckMeta. The views point into meta.
Result<P2pMessage> DecodeP2p(const FrameHeader& header, ConstBytes meta);

}  // namespace fusewire::wire
