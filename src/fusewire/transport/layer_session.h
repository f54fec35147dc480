// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a layer over a connection does with its bytes, without the connection: decodes what has arrived, and encodes
// what is to be sent.
// Home: its connection's. Owns: bytes that came and were not read yet, and that are to be sent. Fails: once, for good.
#pragma once

#include <memory>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"

namespace fusewire::transport {

class Session {
 public:
  Session() = default;
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  virtual const char* wire() const = 0;  // as Connection::wire
  // Until it is ready: takes what has arrived, and answers it.
  virtual Status Handshake() = 0;
  bool is_ready() const { return is_ready_; }
  // Once it is ready: what the peer has sent, as far as it has arrived. 0: nothing more has.
  virtual Result<size_t> Read(Bytes into) = 0;
  // Once it is ready: takes all of it.
  virtual Status Write(ConstBytes said) = 0;
  // Once it is ready: as Connection::Binding.
  virtual std::string Binding() { return std::string(); }
  // Says goodbye.
  virtual void Shutdown() {}

  // What has come; valid until the next KeepRest().
  void Feed(ConstBytes come);
  // Copies what was fed and has not been taken yet: its memory goes.
  void KeepRest();
  // Reserves memory for this many bytes, which are about to be written.
  void Prepare(size_t bytes);
  // The bytes to send. They stay where they are until all of them were Sent; bytes that are written meanwhile come
  // after them.
  ConstBytes out();
  bool has_out() const { return sent_ < out_.size(); }
  void Sent(size_t bytes);

 protected:
  void SetReady() { is_ready_ = true; }
  // Moves what has come, in its order. Returns how much.
  size_t Take(Bytes into);
  // The next bytes that have arrived, in one piece, without taking them. Empty: that many have not arrived yet.
  ConstBytes Peek(size_t bytes);
  void Drop(size_t bytes);  // that were peeked
  void Put(ConstBytes bytes);

 private:
  bool is_ready_ = false;
  ConstBytes fed_;
  std::string rest_;  // came before fed_
  size_t rest_read_ = 0;
  std::string out_, waiting_;
  bool lent_ = false;  // out_ is being sent, so that its memory stays; waiting_ comes next
  size_t sent_ = 0;    // of out_
};

// The session of MakeChecksum.
std::unique_ptr<Session> MakeChecksumSession();

}  // namespace fusewire::transport
