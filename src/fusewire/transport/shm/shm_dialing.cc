// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm_dialing.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/transport/shm/others_memory.h"

namespace fusewire::transport {
namespace {

// How long a listener whose queue is full gets before it is asked again: a unix socket has no other way to wait for it.
constexpr int64_t kQueueFullNs = kMillisecondNs;

}  // namespace

// The peer is on this machine only if an address of the host is one of this network namespace: that is the only proof.
void ShmDialing::OnNames(const Names& names) {
  last_error_ =
      names.ok() ? Status::Unavailable("the host is not this machine").Next("dial it over TCP") : names.status();
  const std::vector<std::string> none;
  for (const std::string& number : names.ok() ? names.value() : none) {
    SocketAddress address;
    if (!ParseNumeric(number, address_.port, &address)) continue;
    std::string own = NumberOf(address);
    if (own == "0.0.0.0") own = "127.0.0.1";
    if (own == "::") own = "::1";
    if (own == NumberOf(address) && !IsOwnAddress(address)) continue;
    if (number_.empty()) number_ = own;
    places_.push_back(SocketName(own, address_.port));
  }
  if (!places_.empty()) places_.push_back(SocketName(kEverywhere, address_.port));
  home_.Arm(&step_, 0);
}

void ShmDialing::TryNext() {
  FUSEWIRE_AT_HOME(home_);
  for (; next_ < places_.size(); ++next_) {
    Drop();
    Status connected = Connect();
    if (connected.ok()) return;
    // An error at one place says more than the absence of a listener at another.
    if (last_error_.code() == Code::kUnavailable || last_error_.ok()) last_error_ = std::move(connected);
    if (step_.armed()) return;
  }
  Finish(last_error_);
}

Status ShmDialing::Connect() {
  FUSEWIRE_CHECK(next_ < places_.size());
  fd_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_.valid()) {
    return Status::FromErrno(Code::kOverloaded, "socket", errno).Next("raise the limit of open files (ulimit -n)");
  }
  if (connect(fd_.get(), places_[next_].get(), places_[next_].length) != 0) {
    if (errno == EAGAIN) home_.Arm(&step_, kQueueFullNs);
    return Status::FromErrno(Code::kUnavailable, "connect", errno);
  }
  Result<PeerProcess> process = PeerProcess::Of(fd_.get());
  if (!process.ok()) return process.status();
  process_ = std::move(process).value();
  ShmControlMessage knock;
  knock.kind = ShmControlKind::kKnock;
  knock.nonce = nonce_ = SystemRandom64();
  FUSEWIRE_TRY(SendControl(fd_.get(), knock, nullptr));
  return Watch(EPOLLIN | EPOLLRDHUP);
}

Status ShmDialing::SayHello(uint64_t answer) {
  Result<reactor::Doorbell*> bell = home_.OpenDoorbell();
  if (!bell.ok()) return bell.status();
  Fd file;
  Result<std::unique_ptr<Segment>> segment = Segment::Make(options_.ring_bytes, &file);
  if (!segment.ok()) return segment.status();
  connection_ = std::make_unique<ShmConnection>(home_, bell.value(), std::move(segment).value(), options_,
                                                Address{number_, address_.port}.ToString());
  ShmControlMessage hello;
  hello.kind = ShmControlKind::kHello;
  hello.ring_bytes = options_.ring_bytes;
  hello.bit = connection_->bit();
  hello.probe_address = ProbeAddress();
  hello.probe_word = ProbeWord();
  hello.answer = answer;
  const auto [rung, asleep, event] = bell.value()->files();
  const int files[] = {file.get(), rung, asleep, event};
  return SendControl(fd_.get(), hello, files);
}

void ShmDialing::OnEvents(uint32_t) {
  const bool greeted = connection_ != nullptr;
  std::optional<Result<Packet>> received =
      ReceiveControl(fd_.get(), greeted ? ShmControlKind::kWelcome : ShmControlKind::kKnock);
  if (!received.has_value()) return;
  Status good = received->status();
  if (good.ok() && !greeted) good = TakeKnock(received->value());
  if (!good.ok()) {
    last_error_ = std::move(good);
    ++next_;
    TryNext();
    return;
  }
  if (greeted) TakeWelcome(received->value().message);
}

// It is proven now who listens: from here on, it gets our memory.
Status ShmDialing::TakeKnock(const Packet& knock) {
  if (knock.message.answer != nonce_)
    return Status::Corrupt("the listener's knock does not answer ours")
        .Next("run the same version of Fusewire in both tasks");
  FUSEWIRE_TRY(process_.CheckSender(knock.sender));
  return SayHello(knock.message.nonce);
}

void ShmDialing::TakeWelcome(const ShmControlMessage& welcome) {
  if (options_.lend && CanReadOrLog(process_.pid(), welcome.probe_address, welcome.probe_word))
    connection_->SetLender(process_.pid());
  connection_->SetSocket(TakeSocket(), process_.pid());
  Succeed(std::move(connection_));
}

void ShmDialing::Drop() {
  connection_.reset();
  DialingInTurn::Drop();
}

}  // namespace fusewire::transport
