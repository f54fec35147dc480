// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/network.h"

#include <algorithm>

#include "fusewire/base/check.h"

namespace fusewire::transport {

Network::~Network() {
  hosts_.clear();  // the last mail of a reactor may still access this object
  events_.Clear();
}

size_t Network::RandomLength(size_t size, const LoopbackFaults& faults) {
  if (!faults.split || size <= 1) return size;
  // Every order of magnitude is equally likely: single bytes are common, and large bodies still complete.
  int bits = 64 - __builtin_clzll(size);
  uint64_t limit = uint64_t{1} << random_.Below(static_cast<uint64_t>(bits) + 1);
  return static_cast<size_t>(std::min<uint64_t>(size, random_.Between(1, limit)));
}

bool Network::TurnHosts() {
  std::vector<Host*> turning;
  for (const auto& host : hosts_) {
    if (host->runs()) turning.push_back(host.get());
  }
  bool busy = false;
  // In random order, so that no code can rely on it.
  for (size_t left = turning.size(); left > 0; --left) {
    std::swap(turning[random_.Below(left)], turning[left - 1]);
    busy |= turning[left - 1]->reactor->RunManually();
  }
  return busy;
}

int64_t Network::NextNs() const {
  int64_t next_ns = events_.NextNs();
  for (const auto& host : hosts_) {
    if (host->runs()) next_ns = std::min(next_ns, host->reactor->NextTimerNs());
  }
  return next_ns;
}

Host* Network::AddHost(const std::string& name) {
  auto host = std::make_unique<Host>();
  host->name = name;
  host->reactor = reactor::Reactor::MakeManual(&clock_);
  hosts_.push_back(std::move(host));
  return hosts_.back().get();
}

Host* Network::Find(const std::string& name_or_alias) const {
  auto alias = aliases_.find(name_or_alias);
  const std::string& name = alias == aliases_.end() ? name_or_alias : alias->second;
  auto found = std::find_if(hosts_.rbegin(), hosts_.rend(), [&name](const auto& host) { return host->name == name; });
  return found == hosts_.rend() ? nullptr : found->get();
}

const LoopbackFaults& Network::FaultsBetween(const std::string& from, const std::string& to) const {
  if (faults_between_.empty()) return faults_;
  auto found = faults_between_.find({from, to});
  return found == faults_between_.end() ? faults_ : found->second;
}

void Network::SetFaults(const LoopbackFaults& faults) { faults_ = faults; }

void Network::SetFaultsBetween(const std::string& from, const std::string& to, const LoopbackFaults* faults) {
  FUSEWIRE_CHECK(Find(from) != nullptr);
  FUSEWIRE_CHECK(Find(to) != nullptr);
  if (faults == nullptr) {
    faults_between_.erase({from, to});
  } else {
    faults_between_[{from, to}] = *faults;
  }
}

void Network::AddToFingerprint(uint64_t fact) {
  fingerprint_ = Random(fingerprint_ ^ fact ^ static_cast<uint64_t>(now_ns()) << 20).Next();
}

}  // namespace fusewire::transport
