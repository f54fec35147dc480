// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/loopback_connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {
namespace {

constexpr size_t kPartsMax = 1024;

}  // namespace

LoopbackEnd::~LoopbackEnd() {
  if (in_ == nullptr) return;  // moved away
  in_->set_on_readable(nullptr);
  out_->set_on_room(nullptr);
  // Closing a socket with unread input resets the connection.
  if (in_->readable() > 0) out_->Reset(true);
  out_->Finish();
  in_->StopReading();
}

LoopbackConnection::LoopbackConnection(Network* network, reactor::Reactor& home, LoopbackEnd end,
                                       std::string peer_address)
    : network_(network),
      home_(home),
      end_(std::move(end)),
      peer_address_(std::move(peer_address)),
      tell_closed_([this] { handler_->OnClosed(why_closed_); }),
      alive_(std::make_shared<bool>(true)) {}

LoopbackConnection::~LoopbackConnection() { *alive_ = false; }

void LoopbackConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  end_.in().set_on_readable([this] { PostRead(); });
  end_.out().set_on_room([this] { PostRoom(); });
  PostRead();
}

Result<std::unique_ptr<Connection>> LoopbackIncoming::Adopt(reactor::Reactor& home) {
  FUSEWIRE_AT_HOME(home);
  return std::unique_ptr<Connection>(
      std::make_unique<LoopbackConnection>(network_, home, std::move(end_), peer_address_));
}

std::unique_ptr<Incoming> LoopbackConnection::HandOver() {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return nullptr;
  closed_ = true;
  *alive_ = false;
  end_.in().set_on_readable(nullptr);
  end_.out().set_on_room(nullptr);
  return std::make_unique<LoopbackIncoming>(network_, std::move(end_), peer_address_);
}

// ---- reading ----

void LoopbackConnection::PostRead() {
  if (read_posted_) return;
  read_posted_ = true;
  home_.Post([this, alive = alive_] {
    if (*alive) ReadSome();
  });
}

void LoopbackConnection::ReadSome() {
  read_posted_ = false;
  size_t before = end_.in().readable();
  while (!closed_ && end_.in().readable() > 0 && before - end_.in().readable() < kReadBytesPerTurn) {
    if (!ReadOnce()) break;
  }
  if (closed_) return;
  if (end_.in().readable() > 0) {
    PostRead();
  } else if (end_.in().ending() == Stream::Ending::kFinished) {
    Fail(Status::Unavailable("the peer closed the connection"));
  } else if (end_.in().ending() == Stream::Ending::kReset) {
    Fail(Status::FromErrno(Code::kUnavailable, "read", ECONNRESET));
  }
}

// False: the simulated kernel returned less than requested.
bool LoopbackConnection::ReadOnce() {
  Bytes landing[kLandingPartsMax];
  size_t parts = handler_->Landing(landing, kLandingPartsMax);
  FUSEWIRE_CHECK(parts <= kLandingPartsMax);
  size_t landing_bytes = 0;
  for (size_t i = 0; i < parts; ++i) landing_bytes += landing[i].size;
  size_t asked = landing_bytes + std::min(handler_->LookAhead(), kLookAheadMax);
  FUSEWIRE_CHECK(asked > 0);
  if (closed_) return false;
  size_t bytes = network_->RandomLength(std::min(asked, end_.in().readable()), end_.in().faults());
  size_t landed = std::min(bytes, landing_bytes);
  for (size_t i = 0, left = landed; left > 0; ++i) {
    size_t part = std::min(left, landing[i].size);
    end_.in().Read(landing[i].Sub(0, part));
    left -= part;
  }
  // Separate memory for each call, so that AddressSanitizer detects a pointer that is kept.
  std::vector<uint8_t> ahead(bytes - landed);
  end_.in().Read(Bytes(ahead.data(), ahead.size()));
  if (landed > 0) handler_->OnLanded(landed);
  if (!closed_ && !ahead.empty()) handler_->OnBytes(ConstBytes(ahead.data(), ahead.size()));
  return bytes == asked;
}

// ---- writing ----

void LoopbackConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ != nullptr);
  FUSEWIRE_CHECK(!write_waiting_);
  if (closed_) return;  // OnClosed follows
  const LoopbackFaults& faults = end_.out().faults();
  bool later = network_->random().Chance(faults.late_answer_chance);
  if (later) later_.assign(parts, parts + std::min(count, kPartsMax));
  if (full_ || later || end_.out().Room() == 0) {
    write_waiting_ = true;
    if (end_.out().Room() > 0) PostRoom();
    return;
  }
  handler_->OnWritten(Take(parts, count));
}

size_t LoopbackConnection::Take(const ConstBytes* parts, size_t count) {
  size_t offered = 0;
  count = std::min(count, kPartsMax);
  for (size_t i = 0; i < count; ++i) offered += parts[i].size;
  FUSEWIRE_CHECK(offered > 0);
  size_t taken = network_->RandomLength(std::min(offered, end_.out().Room()), end_.out().faults());
  std::vector<uint8_t> bytes;
  bytes.reserve(taken);
  for (size_t i = 0; bytes.size() < taken; ++i) {
    ConstBytes part = parts[i].Sub(0, std::min(parts[i].size, taken - bytes.size()));
    bytes.insert(bytes.end(), part.data, part.end());
  }
  full_ = taken < offered;
  end_.out().Send(std::move(bytes));
  return taken;
}

void LoopbackConnection::PostRoom() {
  bool wanted = write_waiting_ || !end_.out().failure().ok();
  if (room_posted_ || !wanted) return;
  room_posted_ = true;
  // Not at once: the answer arrives between other events.
  const LoopbackFaults& faults = end_.out().faults();
  int64_t delay_ns = faults.split ? static_cast<int64_t>(network_->random().Below(100 * kMicrosecondNs)) : 0;
  network_->At(network_->now_ns() + delay_ns, [this, alive = alive_] {
    if (!*alive) return;
    home_.Post([this, alive] {
      if (*alive) OnRoom();
    });
  });
}

void LoopbackConnection::OnRoom() {
  room_posted_ = false;
  if (closed_) return;
  if (!end_.out().failure().ok()) {
    Fail(end_.out().failure());
    return;
  }
  if (!write_waiting_ || end_.out().Room() == 0) return;
  write_waiting_ = false;
  full_ = false;
  std::vector<ConstBytes> parts = std::exchange(later_, {});
  handler_->OnWritten(parts.empty() ? 0 : Take(parts.data(), parts.size()));
}

// ---- the end ----

void LoopbackConnection::Fail(Status why) { Close(why.Next("check that the peer is running and reachable")); }

void LoopbackConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  closed_ = true;
  why_closed_ = std::move(why);
  later_.clear();
  end_.in().set_on_readable(nullptr);
  end_.out().set_on_room(nullptr);
  end_.in().StopReading();
  end_.out().Finish();
  if (handler_ != nullptr) home_.Arm(&tell_closed_, 0);
}

}  // namespace fusewire::transport
