// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How numbered processes of one host, one container and one user come to share a file: number 0 opens a place under a
// name of its own, and sends that to the others by other means. They connect, the kernel says which processes they are,
// and each gets the file and a life line to every other one. The name is not secret in a network namespace: processes
// of other containers and users are turned away, see peer_process.h.
//   other  knock    which number it is, and a nonce
//   host   knock    a nonce, and the other's as the answer
//   other  knock    the host's nonce as the answer
//   host   the other's nonce, with the file and a pidfd of each number: once all have come
// Home: any thread that may wait. Owns: its socket. Fails: with a Status; by the deadline, or when it is cancelled, at
// the latest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/reactor/cancel.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {

// What a process sends where the ranks of a host gather: which of them it is, number 0 being the host. One packet.
struct Knock {
  uint64_t magic = 0x326f6e6b6b776673;  // "sfwkkno2"
  uint32_t number = 0;
  uint32_t count = 0;
  uint64_t nonce = 0;
  uint64_t answer = 0;  // the other's nonce; 0 in the first knock
};
constexpr size_t kKnockBytes = 32;
static_assert(sizeof(Knock) == kKnockBytes, "ranks of one host may run different builds");
static_assert(offsetof(Knock, number) == 8);
static_assert(offsetof(Knock, count) == 12);
static_assert(offsetof(Knock, nonce) == 16);
static_assert(offsetof(Knock, answer) == 24);

std::array<uint8_t, kKnockBytes> EncodeKnock(const Knock& knock);
// kCorrupt: the packet is not the knock of one of `count` processes.
Result<Knock> DecodeKnock(ConstBytes packet, uint32_t count);

// One packet carries the file and so many life lines.
constexpr int kGatheringMax = 128;

struct Gathered {
  Fd file;
  std::vector<Fd> lives;  // can be read once that process has ended; none for oneself
};

class Gathering {
 public:
  static Result<std::unique_ptr<Gathering>> Open();
  const std::string& name() const { return name_; }
  // Number 0's part; `file` is borrowed.
  Result<Gathered> Hand(int file, int count, int64_t deadline_ns, reactor::CancelToken* cancel);

 private:
  Gathering() = default;
  std::string name_;
  Fd socket_;
};

// The others' part.
Result<Gathered> ComeTo(const std::string& name, int number, int count, int64_t deadline_ns,
                        reactor::CancelToken* cancel);

}  // namespace fusewire::transport
