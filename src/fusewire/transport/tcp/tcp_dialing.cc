// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tcp/tcp_dialing.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "fusewire/transport/tcp/tcp_connection.h"

namespace fusewire::transport {

TcpDialing::TcpDialing(reactor::Reactor& home, Address address, const TcpOptions& options, OnDialed on_dialed)
    : home_(home),
      address_(std::move(address)),
      options_(options),
      on_dialed_(std::move(on_dialed)),
      deadline_([this] {
        Finish(Status::Timeout("no connection" +
                               (last_error_.ok() ? std::string() : ", last error: " + last_error_.cause())));
      }),
      step_([this] { TryNext(); }),
      alive_(std::make_shared<bool>(true)) {}

TcpDialing::~TcpDialing() {
  *alive_ = false;
  if (watched_) home_.Unwatch(fd_.get(), this);
}

void TcpDialing::Start(Resolver* resolver, int64_t timeout_ns) {
  began_ns_ = home_.now_ns();
  home_.Arm(&deadline_, timeout_ns);
  std::string host = address_.host.empty() ? "localhost" : address_.host;
  SocketAddress numeric;
  if (ParseNumeric(host, address_.port, &numeric)) {
    numbers_.push_back(host);
    TryNext();
    return;
  }
  resolver->Resolve(host, home_, [this, alive = alive_](Names names) {
    if (*alive) OnNames(std::move(names));
  });
}

void TcpDialing::OnNames(Names names) {
  if (!names.ok()) {
    Finish(names.status());
    return;
  }
  numbers_ = std::move(names).value();
  if (numbers_.empty()) {
    Finish(Status::Unavailable("the name has no address").Phase("resolve " + address_.host).Next("check the name"));
    return;
  }
  TryNext();
}

void TcpDialing::TryNext() {
  reactor::Reactor::Disarm(&step_);
  if (watched_) home_.Unwatch(fd_.get(), this);
  watched_ = false;
  fd_.Close();
  if (next_ == numbers_.size()) {
    Finish(last_error_);
    return;
  }
  const std::string& number = numbers_[next_++];
  if (!ParseNumeric(number, address_.port, &current_)) {
    last_error_ = Status::Unavailable("\"" + number + "\" is no address");
    home_.Arm(&step_, 0);
    return;
  }
  Result<Fd> fd = MakeSocket(current_, options_);
  if (!fd.ok()) {
    last_error_ = fd.status();
    home_.Arm(&step_, 0);
    return;
  }
  fd_ = std::move(fd).value();
  int outcome = connect(fd_.get(), current_.get(), current_.length);
  if (outcome != 0 && errno != EINPROGRESS && errno != EINTR) {
    last_error_ = Status::FromErrno(Code::kUnavailable, "connect", errno);
    home_.Arm(&step_, 0);
    return;
  }
  // Even if connect succeeded at once: the callback never runs inside Dial.
  Status watched = home_.Watch(fd_.get(), EPOLLOUT, this);
  watched_ = watched.ok();
  if (!watched_) {
    last_error_ = watched;
    home_.Arm(&step_, 0);
    return;
  }
  // A silent address must not use up the time of the next ones.
  size_t behind = numbers_.size() - next_;
  last_error_ = Status::Timeout(number + " does not answer");
  if (behind > 0) home_.Arm(&step_, (deadline_.due_ns() - home_.now_ns()) / static_cast<int64_t>(behind + 1));
}

void TcpDialing::OnEvents(uint32_t) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    last_error_ = Status::FromErrno(Code::kUnavailable, "connect", error);
    TryNext();
    return;
  }
  // A socket that dials a free port in its own host's dynamic range can connect to itself.
  SocketAddress own;
  own.length = sizeof(own.storage);
  getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length);
  if (ToText(own) == ToText(current_)) {
    last_error_ = Status::FromErrno(Code::kUnavailable, "connect", ECONNREFUSED);
    TryNext();
    return;
  }
  Succeed();
}

void TcpDialing::Succeed() {
  home_.Unwatch(fd_.get(), this);
  watched_ = false;
  reactor::Reactor::Disarm(&deadline_);
  reactor::Reactor::Disarm(&step_);
  TuneConnected(fd_.get(), options_);
  OnDialed on_dialed = std::move(on_dialed_);
  // The callback may destroy this object.
  on_dialed(std::unique_ptr<Connection>(std::make_unique<TcpConnection>(home_, std::move(fd_), ToText(current_))));
}

void TcpDialing::Finish(Status why) {
  if (watched_) home_.Unwatch(fd_.get(), this);
  watched_ = false;
  fd_.Close();
  reactor::Reactor::Disarm(&deadline_);
  reactor::Reactor::Disarm(&step_);
  *alive_ = false;
  OnDialed on_dialed = std::move(on_dialed_);
  on_dialed(why.Peer(address_.ToString())
                .Phase("connect")
                .AgeMs((home_.now_ns() - began_ns_) / kMillisecondNs)
                .Next("check that the peer is running, and that its address and port are right"));
}

}  // namespace fusewire::transport
