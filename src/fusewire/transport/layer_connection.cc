// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer_connection.h"

#include <algorithm>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"

namespace fusewire::transport {
namespace {

constexpr size_t kRecordBytes = 16 * 1024;  // the most that one holds
constexpr size_t kRecordWireBytes = kRecordBytes + 512;
constexpr size_t kBulkBytes = 8 * kRecordBytes;   // read at a time
constexpr size_t kWriteBytes = 8 * kRecordBytes;  // of a Write, at a time: urgent messages wait behind it

class LayerTransport final : public Transport {
 public:
  LayerTransport(std::unique_ptr<Transport> beneath, size_t session_bytes, MakeSession make_session)
      : beneath_(std::move(beneath)), session_bytes_(session_bytes), make_session_(std::move(make_session)) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    auto come = [make = make_session_, on_incoming = std::move(on_incoming)](std::unique_ptr<Incoming> one) mutable {
      Result<std::unique_ptr<Session>> session = make(false);
      if (!session.ok()) {
        const std::string why = session.status().Explained();
        FUSEWIRE_LOG(kWarn, "%s is turned away: %s", one->peer_address().c_str(), why.c_str());
        return;
      }
      on_incoming(std::make_unique<LayerIncoming>(std::move(one), std::move(session).value()));
    };
    return beneath_->Listen(home, address, std::move(come));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialled = [&home, make = make_session_,
                    on_dialed = std::move(on_dialed)](Result<std::unique_ptr<Connection>> made) mutable {
      if (!made.ok()) {
        on_dialed(made.status());
        return;
      }
      Result<std::unique_ptr<Session>> session = make(true);
      if (!session.ok()) {
        on_dialed(session.status());
        return;
      }
      on_dialed(std::unique_ptr<Connection>(
          std::make_unique<LayerConnection>(home, std::move(made).value(), std::move(session).value())));
    };
    return beneath_->Dial(home, address, timeout_ns, std::move(dialled));
  }
  bool HandsOver() const override { return beneath_->HandsOver(); }
  size_t GreetingBytes() const override { return beneath_->GreetingBytes() + session_bytes_; }

 private:
  const std::unique_ptr<Transport> beneath_;
  const size_t session_bytes_;
  const MakeSession make_session_;
};

}  // namespace

LayerConnection::LayerConnection(reactor::Reactor& home, std::unique_ptr<Connection> inner,
                                 std::unique_ptr<Session> session)
    : home_(home), inner_(std::move(inner)), wire_(session->wire()), session_(std::move(session)), later_([this] {
        Proceed();
        OnDelivered();
      }) {
  FUSEWIRE_DCHECK(inner_ != nullptr);
  FUSEWIRE_DCHECK(session_ != nullptr);
}

LayerConnection::~LayerConnection() = default;

void LayerConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  inner_->Start(this);
  home_.Arm(&later_, 0);  // the dialler speaks first; or something came before the connection was handed over
}

// Bulk comes in larger pieces than the look-ahead's: fewer calls of the kernel.
size_t LayerConnection::Landing(Bytes* parts, size_t) {
  if (IsOver() || !session_->is_ready() || Expected() < kLookAheadMax) {
    bulk_.reset();
    return 0;
  }
  if (bulk_ == nullptr) bulk_ = std::unique_ptr<uint8_t[]>(new uint8_t[kBulkBytes]);
  parts[0] = Bytes(bulk_.get(), kBulkBytes);
  return 1;
}

void LayerConnection::OnLanded(size_t bytes) { Take(ConstBytes(bulk_.get(), bytes)); }

size_t LayerConnection::LookAhead() { return kLookAheadMax; }

// Less than the handler says: part of it may be here, in a record whose rest has not come.
uint64_t LayerConnection::Expected() {
  const uint64_t expected = closed_ ? 0 : handler_->Expected();
  return expected < kRecordWireBytes ? 0 : expected - kRecordWireBytes;
}

void LayerConnection::OnBytes(ConstBytes bytes) { Take(bytes); }

void LayerConnection::Take(ConstBytes bytes) {
  if (IsOver()) return;
  session_->Feed(bytes);
  Proceed();
  if (session_ != nullptr) session_->KeepRest();
}

// The handshake, then what has come.
void LayerConnection::Proceed() {
  if (IsOver()) return;
  if (!session_->is_ready()) {
    Status status = session_->Handshake();
    if (!status.ok()) {
      Send();  // the peer should learn the reason
      Close(std::move(status));
      return;
    }
    Send();
    if (IsOver() || !session_->is_ready()) return;
    if (write_waiting_ && !sending_) {
      write_waiting_ = false;
      handler_->OnWritten(0);
    }
  }
  Deliver();
  if (!IsOver()) Send();
}

void LayerConnection::Deliver() {
  bool goes_on = true;
  while (goes_on && !IsOver()) {
    Bytes parts[kLandingPartsMax];
    const size_t count = handler_->Landing(parts, kLandingPartsMax);
    goes_on = count > 0 ? Land(parts, count) : Show();
  }
}

// Reads to where the handler wants it. False: no more has come.
bool LayerConnection::Land(const Bytes* parts, size_t count) {
  size_t landed = 0;
  Status status;
  bool goes_on = true;
  for (size_t i = 0; i < count && goes_on; ++i) {
    Bytes part = parts[i];
    while (!part.empty() && goes_on) {
      Result<size_t> read = session_->Read(part);
      if (read.ok()) {
        landed += read.value();
        part = part.From(read.value());
      } else {
        status = read.status();
      }
      goes_on = read.ok() && read.value() > 0;
    }
  }
  if (landed > 0) handler_->OnLanded(landed);
  if (!status.ok()) Close(std::move(status));
  return goes_on;
}

// Shows a record to the handler. False: none has come.
bool LayerConnection::Show() {
  const size_t wanted = std::min({handler_->LookAhead(), kRecordBytes, kLookAheadMax});
  // Not look_ahead: what is being read lies there.
  uint8_t record[kRecordBytes];
  Result<size_t> read = session_->Read(Bytes(record, wanted));
  if (!read.ok()) {
    Close(read.status());
    return false;
  }
  if (read.value() > 0) handler_->OnBytes(ConstBytes(record, read.value()));
  return read.value() > 0;
}

void LayerConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!write_waiting_);
  FUSEWIRE_CHECK(taken_ == 0);
  if (IsOver()) return;  // OnClosed follows
  if (!session_->is_ready() || sending_) {
    write_waiting_ = true;
    return;
  }
  size_t offered = 0;
  for (size_t i = 0; i < count; ++i) offered += parts[i].size;
  const size_t bytes = std::min(offered, kWriteBytes);
  session_->Prepare(bytes + bytes / 32);
  for (size_t i = 0; i < count && taken_ < kWriteBytes; ++i) {
    const ConstBytes part = parts[i].Sub(0, std::min(parts[i].size, kWriteBytes - taken_));
    Status status = session_->Write(part);
    if (!status.ok()) {
      Close(std::move(status));
      return;
    }
    taken_ += part.size;
  }
  Send();
}

void LayerConnection::Send() {
  if (sending_ || !session_->has_out()) return;
  sending_ = true;
  const ConstBytes out = session_->out();
  inner_->Write(&out, 1);
}

void LayerConnection::OnWritten(size_t bytes) {
  FUSEWIRE_DCHECK(sending_);
  sending_ = false;
  if (session_ == nullptr) return;
  session_->Sent(bytes);
  if (closed_) return;
  if (session_->has_out()) {
    Send();
  } else if (taken_ > 0) {
    handler_->OnWritten(std::exchange(taken_, 0));
  } else if (write_waiting_ && session_->is_ready()) {
    write_waiting_ = false;
    handler_->OnWritten(0);
  }
  // Not now: this may be inside a Write of the handler's.
  if (owes_delivered_ && !IsOver() && !session_->has_out()) home_.Arm(&later_, 0);
}

bool LayerConnection::Delivered() {
  FUSEWIRE_AT_HOME(home_);
  owes_delivered_ = IsOver() || session_->has_out() || !inner_->Delivered();
  return !owes_delivered_;
}

void LayerConnection::OnDelivered() {
  if (owes_delivered_ && !IsOver() && Delivered()) handler_->OnDelivered();
}

void LayerConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (IsOver()) return;
  closed_ = true;
  reactor::Reactor::Disarm(&later_);
  session_->Shutdown();
  if (!sending_) Send();
  inner_->Close(std::move(why));
}

void LayerConnection::OnClosed(Status why) {
  closed_ = true;
  reactor::Reactor::Disarm(&later_);
  if (session_ != nullptr && !session_->is_ready()) why = std::move(why).Phase(std::string(wire_) + " handshake");
  handler_->OnClosed(std::move(why));
}

std::string LayerConnection::Binding() {
  FUSEWIRE_AT_HOME(home_);
  return IsOver() || !session_->is_ready() ? std::string() : session_->Binding();
}

std::unique_ptr<Incoming> LayerConnection::HandOver() {
  FUSEWIRE_AT_HOME(home_);
  if (IsOver() || sending_ || session_->has_out()) return nullptr;
  std::unique_ptr<Incoming> inner = inner_->HandOver();
  if (inner == nullptr) return nullptr;
  reactor::Reactor::Disarm(&later_);
  session_->KeepRest();
  return std::make_unique<LayerIncoming>(std::move(inner), std::move(session_));
}

// ---- the transport ----

std::unique_ptr<Transport> MakeLayer(std::unique_ptr<Transport> beneath, size_t session_bytes,
                                     MakeSession make_session) {
  return std::make_unique<LayerTransport>(std::move(beneath), session_bytes, std::move(make_session));
}

}  // namespace fusewire::transport
