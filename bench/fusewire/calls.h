// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness/harness.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"

namespace fusewire::bench {

// A call that its caller waits for, used again and again.
class AskedCall : public rpc::Call {
 public:
  using Call::Call;
  void RunOn(rpc::Client* client);

 private:
  void OnDone(Status status) override;

  reactor::Completion answered_;
};

// Sends `bytes` and expects them back.
class EchoCall final : public AskedCall {
 public:
  explicit EchoCall(size_t bytes);
  void RunOn(rpc::Client* client);

 private:
  const std::string message_;
};

// Sends `bytes` and expects them back, again and again, without leaving the client's home: the next call starts where
// the last one ended. That is how busy polling is used: a thread that waits for its answer elsewhere has to be woken.
class EchoChain final : public rpc::Call {
 public:
  explicit EchoChain(size_t bytes);
  void RunOn(rpc::Client* client, const Again& again);

 private:
  void OnDone(Status status) override;

  const std::string message_;
  rpc::Client* client_ = nullptr;
  const Again* again_ = nullptr;
  reactor::Completion ended_;
};

// Asks for the 200 segments, which land in the same memory every time.
class SegmentsCall final : public AskedCall {
 public:
  explicit SegmentsCall(const Options& options);
  size_t step_bytes() const { return step_bytes_; }

 private:
  Result<pipe::Landing> Land(ConstBytes reply_head, const rpc::SegmentSizes& sizes) override;

  Buffers landings_;
  std::vector<Bytes> parts_;
  size_t step_bytes_ = 0;
};

// Keeps `depth` calls of a method in flight until as many have been answered as were asked for: each call starts itself
// again when its answer has come.
class Flow {
 public:
  // Each call sends `head_bytes` as its head, and `body_bytes` (all calls the same memory) as its body.
  Flow(rpc::Client* client, uint16_t method, size_t depth, size_t head_bytes, size_t body_bytes);
  ~Flow();
  void Run(uint64_t count);

 private:
  class OneCall;
  void StartNext(OneCall* call);

  rpc::Client* const client_;
  const std::string head_;
  const Buffer body_;
  std::vector<std::unique_ptr<OneCall>> calls_;
  // At the client's home during Run.
  uint64_t to_start_ = 0;
  uint64_t to_answer_ = 0;
  reactor::Completion ended_;
};

}  // namespace fusewire::bench
