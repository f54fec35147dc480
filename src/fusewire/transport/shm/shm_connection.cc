// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

namespace fusewire::transport {
ShmConnection::ShmConnection(reactor::Reactor& home, reactor::Doorbell* bell, std::unique_ptr<Segment> segment,
                             bool lend, std::string peer_address, const RingReader* reader)
    : home_(home),
      bell_(bell),
      segment_(std::move(segment)),
      peer_address_(std::move(peer_address)),
      bit_(bell->Hang(this)),
      sender_(segment_.get(), lend, &peer_bell_),
      reader_(reader == nullptr ? RingReader(segment_.get()) : *reader),
      later_([this] { DoLater(); }) {}

ShmConnection::~ShmConnection() {
  if (!closed()) Stop();
}

void ShmConnection::SetLender(pid_t pid) {
  FUSEWIRE_CHECK(pid > 0);
  FUSEWIRE_CHECK(handler_ == nullptr);
  reader_.SetLender(pid);
  segment_->own().can_read.store(1, std::memory_order_release);
}

Status ShmConnection::SetOrigin(std::unique_ptr<ShmOrigin> origin) {
  FUSEWIRE_CHECK(handler_ == nullptr);
  FUSEWIRE_TRY(peer_bell_.ChangeLast(*bell_, peer_pid_, &origin->hello.files[1], origin->hello.message.bit));
  origin_ = std::move(origin);
  return Status::Ok();
}

void ShmConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  Status watched = home_.Watch(socket_.get(), EPOLLIN | EPOLLRDHUP, this);
  watched_ = watched.ok();
  if (!watched_) {
    Fail(watched);
    return;
  }
  home_.Arm(&later_, 0);  // the peer may have written already, without ringing
}

// ---- homes ----

ShmIncoming::ShmIncoming(Fd socket, std::unique_ptr<Segment> segment, std::unique_ptr<ShmOrigin> origin, pid_t peer_pid)
    : socket_(std::move(socket)),
      segment_(std::move(segment)),
      origin_(std::move(origin)),
      peer_pid_(peer_pid),
      peer_address_("local:" + std::to_string(peer_pid)) {}

Result<std::unique_ptr<Connection>> ShmIncoming::Adopt(reactor::Reactor& home) {
  reactor::Doorbell* bell = FUSEWIRE_TRY(home.OpenDoorbell());
  auto connection = std::make_unique<ShmConnection>(home, bell, std::move(segment_), origin_->lend, peer_address_,
                                                    reader_.has_value() ? &*reader_ : nullptr);
  if (origin_->can_read) connection->SetLender(peer_pid_);
  // A dialler that has gone already may have written all the same: reading finds its end.
  (void)SendBell(socket_.get(), *bell, connection->bit());
  connection->SetSocket(std::move(socket_), peer_pid_);
  FUSEWIRE_TRY(connection->SetOrigin(std::move(origin_)));
  return std::unique_ptr<Connection>(std::move(connection));
}

// The dialler rings here, to no effect, until it has the next home's doorbell; then it rings that one as well.
std::unique_ptr<Incoming> ShmConnection::HandOver() {
  FUSEWIRE_AT_HOME(home_);
  if (closed() || origin_ == nullptr) return nullptr;
  why_closed_ = Status::Cancelled("handed over");
  bell_->Unhang(bit_, this);
  if (watched_) home_.Unwatch(socket_.get(), this);
  watched_ = false;
  reactor::Reactor::Disarm(&later_);
  peer_bell_.Drop();
  auto incoming = std::make_unique<ShmIncoming>(std::move(socket_), std::move(segment_), std::move(origin_), peer_pid_);
  incoming->SetReader(reader_);
  return incoming;
}

// ---- reading ----

void ShmConnection::OnRung() {
  if (handler_ == nullptr || closed()) return;
  ReadSome();
  if (!closed() && sender_.waits()) Answer();
}

void ShmConnection::ReadSome() {
  size_t total = 0;
  while (!closed()) {
    size_t asked = 0;
    const size_t bytes = ReadOnce(&asked);
    total += bytes;
    if (bytes < asked) break;
    if (total >= kReadBytesPerTurn) {
      if (!closed()) bell_->RingHere(bit_);
      break;
    }
  }
}

// Returns how much was read of what was asked for: less means that no more is there.
size_t ShmConnection::ReadOnce(size_t* asked) {
  Bytes into[kLandingPartsMax + 1];
  size_t parts = handler_->Landing(into, kLandingPartsMax);
  FUSEWIRE_DCHECK(parts <= kLandingPartsMax);
  size_t landing_bytes = 0;
  for (size_t i = 0; i < parts; ++i) landing_bytes += into[i].size;
  into[parts] = Bytes(look_ahead, std::min(handler_->LookAhead(), kLookAheadMax));
  *asked = landing_bytes + into[parts].size;
  FUSEWIRE_CHECK(*asked > 0);
  Result<size_t> read = reader_.Read(into, parts + 1);
  if (!read.ok()) {
    Fail(read.status());
    return 0;
  }
  const size_t bytes = read.value();
  if (bytes == 0) return 0;
  if (reader_.Release()) peer_bell_.Ring();
  // The peer had read what we lent before it wrote this, which may be its goodbye.
  if (sender_.lends()) Answer();
  if (closed()) return 0;
  const size_t landed = std::min(bytes, landing_bytes);
  if (landed > 0) handler_->OnLanded(landed);
  if (!closed() && bytes > landed) handler_->OnBytes(ConstBytes(look_ahead, bytes - landed));
  return bytes;
}

// The peer has gone: what it had written is still ours, and what it had read was sent.
void ShmConnection::ReadRest() {
  const bool finished = segment_->peer().finished.load(std::memory_order_acquire) != 0;
  reader_.Freeze();
  size_t asked = 0;
  while (!closed() && ReadOnce(&asked) > 0) {
  }
  if (!closed() && sender_.lends()) Answer();
  Fail(Status::Unavailable(finished ? "the peer closed the connection" : "the peer's process has ended"));
}

// ---- writing ----

void ShmConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  if (closed()) return;  // OnClosed is on its way
  FUSEWIRE_CHECK(handler_ != nullptr);
  if (origin_ != nullptr) origin_.reset();
  const std::optional<size_t> taken = sender_.Write(parts, count);
  if (taken.has_value()) {
    handler_->OnWritten(*taken);
  } else if (sender_.MissedRoom()) {
    home_.Arm(&later_, 0);
  }
}

// Answers the Writes that wait, if what they wait for has come.
void ShmConnection::Answer() {
  for (const uint64_t loans_read = sender_.LoansRead(); !closed();) {
    const std::optional<size_t> bytes = sender_.PopRead(loans_read);
    if (!bytes.has_value()) break;
    handler_->OnWritten(*bytes);
  }
  if (!closed() && sender_.TakeRoom()) handler_->OnWritten(0);
}

// ---- the socket, and the end ----

void ShmConnection::OnEvents(uint32_t) {
  while (!closed()) {
    std::optional<Result<Packet>> packet = ReceiveControl(socket_.get(), ShmControlKind::kBell);
    if (!packet.has_value()) return;
    OnBell(std::move(*packet));
  }
}

void ShmConnection::OnBell(Result<Packet> packet) {
  if (!packet.ok() && packet.status().code() == Code::kUnavailable) {
    ReadRest();
    return;
  }
  if (!packet.ok()) {
    Fail(packet.status());
    return;
  }
  Status changed = peer_bell_.Change(*bell_, peer_pid_, packet.value().files.data(), packet.value().message.bit);
  if (!changed.ok()) {
    Fail(changed);
    return;
  }
  peer_bell_.Ring();  // for what we wrote before we could, or rang for at the peer's last home
}

void ShmConnection::Fail(Status why) { Close(why.Next("check that the peer is running")); }

void ShmConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed()) return;
  FUSEWIRE_CHECK(!why.ok());
  why_closed_ = std::move(why);
  Stop();
  if (handler_ != nullptr) home_.Arm(&later_, 0);
}

void ShmConnection::DoLater() {
  FUSEWIRE_CHECK(handler_ != nullptr);
  if (closed()) {
    handler_->OnClosed(why_closed_);
    return;
  }
  OnRung();
}

void ShmConnection::Stop() {
  sender_.TakeBackLoans();
  segment_->own().finished.store(1, std::memory_order_seq_cst);
  bell_->Unhang(bit_, this);
  if (watched_) home_.Unwatch(socket_.get(), this);
  watched_ = false;
  // The peer notices it even if a child of this process still holds the socket.
  if (socket_.valid()) (void)shutdown(socket_.get(), SHUT_RDWR);
  socket_.Close();
  peer_bell_.Drop();
}

}  // namespace fusewire::transport
