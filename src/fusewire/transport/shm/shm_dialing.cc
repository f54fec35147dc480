// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm_dialing.h"
#include "fusewire/transport/shm/others_memory.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire::transport {
namespace {

// How long a listener whose queue is full gets before it is asked again: a unix socket has no other way to wait for it.
constexpr int64_t kQueueFullNs = kMillisecondNs;

}  // namespace

ShmDialing::ShmDialing(reactor::Reactor& home, Address address, const ShmOptions& options, OnDialed on_dialed)
    : home_(home),
      address_(std::move(address)),
      options_(options),
      on_dialed_(std::move(on_dialed)),
      deadline_([this] {
        Finish(Status::Timeout("there is no connection" +
                               (last_error_.ok() ? std::string() : ", last error: " + last_error_.cause())));
      }),
      step_([this] { TryNext(); }),
      alive_(std::make_shared<bool>(true)) {}

ShmDialing::~ShmDialing() {
  FUSEWIRE_AT_HOME(home_);
  *alive_ = false;
  Drop();
}

void ShmDialing::Start(Resolver* resolver, int64_t timeout_ns) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(resolver != nullptr);
  began_ns_ = home_.now_ns();
  home_.Arm(&deadline_, timeout_ns);
  const std::string host = address_.host.empty() || address_.host == "*" ? "localhost" : address_.host;
  SocketAddress numeric;
  if (ParseNumeric(host, address_.port, &numeric)) {
    OnNames(std::vector<std::string>{host});
    return;
  }
  resolver->Resolve(host, home_, [this, alive = alive_](const Names& names) {
    if (*alive) OnNames(names);
  });
}

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
    places_.push_back(MeetingPlace(own, address_.port));
  }
  if (!places_.empty()) places_.push_back(MeetingPlace(kEverywhere, address_.port));
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
  FUSEWIRE_CHECK(!watched_);
  socket_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) {
    return Status::FromErrno(Code::kOverloaded, "socket", errno).Next("raise the limit of open files (ulimit -n)");
  }
  if (connect(socket_.get(), places_[next_].get(), places_[next_].length) != 0) {
    if (errno == EAGAIN) home_.Arm(&step_, kQueueFullNs);
    return Status::FromErrno(Code::kUnavailable, "connect", errno);
  }
  Result<PeerProcess> process = PeerProcess::Of(socket_.get());
  if (!process.ok()) return process.status();
  process_ = std::move(process).value();
  ShmControlMessage knock;
  knock.kind = ShmControlKind::kKnock;
  knock.nonce = nonce_ = SystemRandom64();
  FUSEWIRE_TRY(SendControl(socket_.get(), knock, nullptr));
  FUSEWIRE_TRY(home_.Watch(socket_.get(), EPOLLIN | EPOLLRDHUP, this));
  watched_ = true;
  return Status::Ok();
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
  return SendControl(socket_.get(), hello, files);
}

void ShmDialing::OnEvents(uint32_t) {
  const bool greeted = connection_ != nullptr;
  std::optional<Result<Packet>> received =
      ReceiveControl(socket_.get(), greeted ? ShmControlKind::kWelcome : ShmControlKind::kKnock);
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
  home_.Unwatch(socket_.get(), this);
  watched_ = false;
  reactor::Reactor::Disarm(&deadline_);
  reactor::Reactor::Disarm(&step_);
  connection_->SetSocket(std::move(socket_), process_.pid());
  OnDialed on_dialed = std::move(on_dialed_);
  // The callback may destroy us.
  on_dialed(std::unique_ptr<Connection>(std::move(connection_)));
}

void ShmDialing::Drop() {
  if (watched_) home_.Unwatch(socket_.get(), this);
  watched_ = false;
  connection_.reset();
  socket_.Close();
}

void ShmDialing::Finish(Status why) {
  Drop();
  reactor::Reactor::Disarm(&deadline_);
  reactor::Reactor::Disarm(&step_);
  *alive_ = false;
  FUSEWIRE_CHECK(!why.ok());
  OnDialed on_dialed = std::move(on_dialed_);
  on_dialed(why.Peer(address_.ToString())
                .Phase("connect")
                .AgeMs((home_.now_ns() - began_ns_) / kMillisecondNs)
                .Next("check that the peer is running, and that its address and port are right"));
}

}  // namespace fusewire::transport
