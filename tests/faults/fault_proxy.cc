// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fault_proxy.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "peer_process.h"

namespace fusewire::faults {
namespace {

constexpr int64_t kTickNs = 20 * kMillisecondNs;

void DoNotBlock(const RawSocket& socket) { FUSEWIRE_CHECK(fcntl(socket.fd(), F_SETFL, O_NONBLOCK) == 0); }

}  // namespace

FaultProxy::FaultProxy(const transport::Address& target, Planner planner)
    : target_(target),
      planner_(std::move(planner)),
      listener_(RawSocket::Listen(OwnHost(2))),
      address_(listener_.address()),
      thread_([this] { Run(); }) {}

FaultProxy::~FaultProxy() {
  closing_.store(true);
  thread_.join();
}

void FaultProxy::Run() {
  DoNotBlock(listener_);
  while (!closing_.load()) {
    std::vector<pollfd> watched = {{listener_.fd(), POLLIN, 0}};
    for (const auto& relay : relays_) {
      for (Way way : {kUp, kDown}) {
        const Stream& stream = *relay->ways[way];
        bool reads = !stream.ended && stream.waiting.empty() && !held_[way].load() && !trickles_[way].load();
        if (reads) watched.push_back({relay->ends[way].fd(), POLLIN, 0});
        if (!stream.waiting.empty()) watched.push_back({relay->ends[1 - way].fd(), POLLOUT, 0});
      }
    }
    poll(watched.data(), watched.size(), 5);  // orders of the test are looked at as often as that
    int64_t now_ns = Clock::Real()->NowNs();
    tick_ = now_ns >= next_tick_ns_;
    if (tick_) next_tick_ns_ = now_ns + kTickNs;
    Accept();
    for (const auto& relay : relays_) {
      Obey(relay.get());
      for (Way way : {kUp, kDown}) {
        if (!relay->over) Move(relay.get(), way);
      }
      if (relay->ways[kUp]->closed && relay->ways[kDown]->closed) relay->over = true;
    }
    // A reset has been asked for once, and has been given to all.
    reset_.store(false);
    std::erase_if(relays_, [](const auto& relay) { return relay->over; });
  }
}

void FaultProxy::Accept() {
  for (;;) {
    RawSocket came(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!came.valid()) return;
    int number = connections_.fetch_add(1);
    auto relay = std::make_unique<Relay>();
    relay->ends[0] = std::move(came);
    relay->ends[1] = RawSocket::Dial(target_);
    if (!relay->ends[1].valid()) continue;  // as if nobody listened
    DoNotBlock(relay->ends[1]);
    for (Way way : {kUp, kDown}) relay->ways[way] = std::make_unique<Stream>(planner_ ? planner_(number, way) : Plan());
    relays_.push_back(std::move(relay));
  }
}

void FaultProxy::Obey(Relay* relay) {
  for (Way way : {kUp, kDown}) {
    if (half_close_[way].load()) relay->ways[way]->ended = true;
  }
  if (!reset_.load()) return;
  for (RawSocket& end : relay->ends) end.Reset();
  relay->over = true;
}

void FaultProxy::Move(Relay* relay, Way way) {
  Stream& stream = *relay->ways[way];
  if (!stream.ended && stream.waiting.empty() && !held_[way].load() && (!trickles_[way].load() || tick_)) {
    Read(relay, way);
  }
  if (relay->over) return;
  if (!stream.waiting.empty()) {
    ssize_t sent = send(relay->ends[1 - way].fd(), stream.waiting.data(), stream.waiting.size(), MSG_NOSIGNAL);
    if (sent > 0) stream.waiting.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) relay->over = true;
  }
  if (stream.ended && stream.waiting.empty() && !stream.closed) {
    stream.closed = true;
    shutdown(relay->ends[1 - way].fd(), SHUT_WR);
  }
}

void FaultProxy::Read(Relay* relay, Way way) {
  Stream& stream = *relay->ways[way];
  uint8_t bytes[16 * 1024];
  ssize_t got = recv(relay->ends[way].fd(), bytes, trickles_[way].load() ? 1 : sizeof(bytes), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    stream.ended = true;
    return;
  }
  bytes_[way].fetch_add(static_cast<uint64_t>(got));
  stream.waiting = stream.mangler.Feed(ConstBytes(bytes, static_cast<size_t>(got)));
  if (stream.mangler.struck() && !std::exchange(stream.counted, true)) struck_.fetch_add(1);
  if (stream.mangler.end() == Mangler::End::kCut) stream.ended = true;
  if (stream.mangler.end() == Mangler::End::kReset) {
    for (RawSocket& end : relay->ends) end.Reset();
    relay->over = true;
  }
}

}  // namespace fusewire::faults
