// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A connection over any transport that sends arbitrary bytes, and receives bytes.
// Home: any thread but a reactor. Owns: its connection. Fails: `closed()` once it has ended, however.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/task/task.h"
#include "fusewire/transport/transport.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"

namespace fusewire::faults {

class LyingWire final : private transport::ConnectionHandler {
 public:
  LyingWire(task::Task& task, const transport::Address& to) : home_(task.pool().at(0)) {
    home_.Run([&] {
      dialing_ = task.transport().Dial(
          home_, to, 5 * kSecondNs,
          [this](Result<std::unique_ptr<transport::Connection>> dialled) { OnDialled(std::move(dialled)); });
    });
  }
  ~LyingWire() {
    home_.Run([this] {
      dialing_.reset();
      connection_.reset();
    });
  }
  LyingWire(const LyingWire&) = delete;
  LyingWire& operator=(const LyingWire&) = delete;

  void Send(const std::string& bytes) {
    home_.Run([&] {
      unsent_ += bytes;
      Write();
    });
  }
  std::string heard() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return heard_;
  }
  bool closed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_;
  }
  // See transport::Connection.
  std::string Binding() {
    std::string binding;
    home_.Run([&] {
      if (connection_ != nullptr) binding = connection_->Binding();
    });
    return binding;
  }
  // Where the last words of the peer begin, or npos.
  size_t GoodbyeAt() {
    return heard().find(std::string("FW") + static_cast<char>(wire::FrameKind::kGoodbye) + std::string(1, '\0'));
  }

 private:
  void OnDialled(Result<std::unique_ptr<transport::Connection>> dialled) {
    if (!dialled.ok()) {
      OnClosed(dialled.status());
      return;
    }
    connection_ = std::move(dialled).value();
    connection_->Start(this);
    Write();
  }
  void Write() {
    if (connection_ == nullptr || writing_ || unsent_.empty()) return;
    writing_ = true;
    sending_ = unsent_;
    const ConstBytes part(sending_);
    connection_->Write(&part, 1);
  }
  size_t Landing(Bytes*, size_t) override { return 0; }
  void OnLanded(size_t) override {}
  size_t LookAhead() override { return 2048; }
  void OnBytes(ConstBytes bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (heard_.size() < (1 << 20)) heard_ += bytes.ToString();
  }
  void OnWritten(size_t bytes) override {
    writing_ = false;
    unsent_.erase(0, bytes);
    Write();
  }
  void OnClosed(Status) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }

  reactor::Reactor& home_;
  std::unique_ptr<transport::Dialing> dialing_;
  std::unique_ptr<transport::Connection> connection_;
  std::string unsent_, sending_;
  bool writing_ = false;
  std::mutex mutex_;
  std::string heard_;  // guarded by mutex_
  bool closed_ = false;
};

}  // namespace fusewire::faults
