// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The connection that two ends meet over: control messages both ways, one behind the other, and then the stream itself
// if it stays there. It stays open in any case: when it ends, the peer has ended.
// Home: one reactor. Owns: the connection, and what came over it before it had a reader. Fails: through its handler.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/control_message.h"

namespace fusewire::transport {

// How much may be written before it is known which way the stream goes, and received before it has a reader.
constexpr size_t kUcxEarlyBytesMax = 64 * 1024;

class UcxLowerHandler {
 public:
  virtual void OnControl(const UcxControlMessage& message, ConstBytes address) = 0;
  // The peer sends no control messages: its stream has begun with these bytes.
  virtual void OnStranger(ConstBytes begun) = 0;
  // The peer violated the protocol.
  virtual void OnMisbehaved(Status why) = 0;
  // No control message waits any more.
  virtual void OnControlSent() = 0;
  // Answers Write.
  virtual void OnLowerWritten(size_t bytes) = 0;
  virtual void OnLowerClosed(Status why) = 0;

 protected:
  ~UcxLowerHandler() = default;
};

class UcxLowerConnection final : private ConnectionHandler {
 public:
  UcxLowerConnection(std::unique_ptr<Connection> connection, UcxLowerHandler* handler)
      : connection_(std::move(connection)), handler_(*handler) {}

  const Connection& connection() const { return *connection_; }
  // Where the stream goes, if it stays here.
  void SetStream(ConnectionHandler* stream) { stream_ = stream; }
  // Calling again changes nothing.
  void Start();
  bool started() const { return started_; }
  bool ended() const { return ended_; }

  // `behind`: the address, or the stream that follows kStay.
  void Send(const UcxControlMessage& message, ConstBytes behind);
  bool can_send() const { return started_ && !ended_ && !writing_; }
  // No control message follows: what comes next is the stream.
  void BeginStream() { reads_control_ = false; }
  // Bytes of the stream that came before SetStream, which is called once the stream's handler has them.
  bool has_early() const { return !early_in_.empty(); }
  std::vector<uint8_t> TakeEarly();

  // Writes the stream.
  bool can_write() const { return !writing_ && out_.empty() && waiting_.empty(); }
  void Write(const ConstBytes* parts, size_t count);
  void Look();
  void TakeBackLanding();
  bool Delivered() { return connection_->Delivered(); }
  // OnLowerClosed follows.
  void CloseStream(Status why);
  // Nothing that is needed follows.
  void Close();

 private:
  size_t Landing(Bytes* parts, size_t parts_max) override;
  void OnLanded(size_t bytes) override;
  size_t LookAhead() override;
  uint64_t Expected() override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnDelivered() override;
  void OnClosed(Status why) override;
  void SendNext();
  bool direct() const { return stream_ != nullptr && early_in_.empty(); }

  const std::unique_ptr<Connection> connection_;
  UcxLowerHandler& handler_;
  ConnectionHandler* stream_ = nullptr;
  UcxControlReader reader_;  // of the next control message
  bool reads_control_ = true;
  bool started_ = false, writing_ = false, ended_ = false;
  bool writes_control_ = false;  // what is being written is ours
  // Control messages, and the stream behind kStay: those that are being written, and those that wait. Apart, because
  // memory that is being written stays where it is.
  std::vector<uint8_t> out_, waiting_;
  size_t sent_ = 0;
  std::vector<uint8_t> early_in_;
};

}  // namespace fusewire::transport
