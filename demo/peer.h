// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The process at the other end: the same program, which serves on a port of its choice, over Fusewire or over plain
// blocking sockets, the baseline for a runtime. It ends at the latest with its parent.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "fusewire/base/status.h"

namespace fusewire::demo {

// ---- over Fusewire: it echoes messages, receives tensors, and returns the parameters of one step ----

constexpr uint16_t kEcho = 1;        // head: any; the reply has the same head
constexpr uint16_t kTake = 2;        // body: tensors; they land in the server's memory
constexpr uint16_t kParameters = 3;  // the reply: kTensors tensors, a segment each

constexpr int kTensors = 200;
// 1 KB to 100 KB, the same on both sides: a small model's parameters.
size_t TensorBytes(int index);
size_t AllTensorBytes();
// The value of byte `at` of tensor `index`.
uint8_t TensorByte(int index, size_t at);

void ServeFusewire(uint16_t port, const std::function<void(uint16_t)>& ready);

// ---- over raw sockets ----

// Serves one connection after another: reads a request of two u64 (how many bytes follow, how many to return),
// reads the bytes, and sends the requested number.
void ServeRaw(uint16_t port, const std::function<void(uint16_t)>& ready);

class RawClient {
 public:
  static Result<RawClient> Connect(uint16_t port);
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient();

  // Sends `out_bytes` from one buffer and waits for `in_bytes` into another. False: the connection broke.
  bool Exchange(size_t out_bytes, size_t in_bytes);

 private:
  explicit RawClient(int fd) : fd_(fd) {}
  int fd_;
};

// ---- the process ----

class ChildProcess {
 public:
  // Starts this program as `program --serve what port`. `port` is the port to use; 0: any.
  static Result<ChildProcess> Start(const char* what, uint16_t port = 0);
  // In the child: reports its port.
  static void Ready(uint16_t port);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess() { Kill(); }

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // SIGKILL: without a goodbye.
  void Kill();

 private:
  ChildProcess(pid_t pid, uint16_t port) : pid_(pid), port_(port) {}
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

}  // namespace fusewire::demo
