// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "loopback/loopback.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "loopback/loopback_transport.h"
#include "loopback/network.h"
#include "loopback/stream.h"

namespace fusewire::transport {
namespace {

Host* FindUp(Network* network, const std::string& name) {
  Host* host = network->Find(name);
  FUSEWIRE_CHECK(host != nullptr);
  FUSEWIRE_CHECK(host->fate == Host::Fate::kUp);
  return host;
}

}  // namespace

LoopbackWorld::LoopbackWorld(uint64_t seed, const LoopbackFaults& faults)
    : network_(std::make_unique<Network>(seed, faults)), streams_(std::make_unique<Streams>(network_.get())) {}

LoopbackWorld::~LoopbackWorld() = default;

ManualClock* LoopbackWorld::clock() { return network_->clock(); }

uint64_t LoopbackWorld::fingerprint() const { return network_->fingerprint(); }

reactor::Reactor* LoopbackWorld::AddHost(const std::string& name) {
  FUSEWIRE_CHECK(network_->Find(name) == nullptr);
  return network_->AddHost(name)->reactor.get();
}

std::unique_ptr<Transport> LoopbackWorld::MakeTransport(const std::string& host) {
  return std::make_unique<LoopbackTransport>(network_.get(), streams_.get(), FindUp(network_.get(), host));
}

// ---- time ----

bool LoopbackWorld::Step() {
  if (network_->TurnHosts()) return true;
  int64_t next_ns = network_->NextNs();
  if (next_ns == kForeverNs) return false;
  clock()->Set(std::max(next_ns, clock()->NowNs()));
  network_->RunDue();
  return true;
}

bool LoopbackWorld::RunUntil(UniqueFunction<bool()> done, int64_t limit_ns) {
  int64_t end_ns = AddNs(clock()->NowNs(), limit_ns);
  for (;;) {
    if (done()) return true;
    if (network_->TurnHosts()) continue;
    int64_t next_ns = network_->NextNs();
    if (next_ns == kForeverNs) return false;
    if (next_ns > end_ns) {
      clock()->Set(end_ns);
      return false;
    }
    Step();
  }
}

void LoopbackWorld::RunFor(int64_t duration_ns) {
  int64_t end_ns = AddNs(clock()->NowNs(), duration_ns);
  RunUntil([] { return false; }, duration_ns);
  clock()->Set(end_ns);  // even if there were no events left
}

// ---- faults ----

void LoopbackWorld::SetFaults(const LoopbackFaults& faults) {
  network_->SetFaults(faults);
  streams_->PumpAll();
}

void LoopbackWorld::SetFaultsBetween(const std::string& from, const std::string& to, const LoopbackFaults& faults) {
  network_->SetFaultsBetween(from, to, &faults);
  streams_->PumpAll();
}

LoopbackFaults LoopbackWorld::FaultsBetween(const std::string& from, const std::string& to) const {
  return network_->FaultsBetween(from, to);
}

void LoopbackWorld::ClearFaultsBetween(const std::string& from, const std::string& to) {
  network_->SetFaultsBetween(from, to, nullptr);
  streams_->PumpAll();
}

void LoopbackWorld::Cut(const std::string& one, const std::string& other) {
  for (const auto& stream : streams_->InUse()) {
    const std::string &from = stream->from()->name, &to = stream->to()->name;
    if ((from == one && to == other) || (from == other && to == one)) stream->Reset(true);
  }
}

void LoopbackWorld::HalfClose(const std::string& from, const std::string& to) {
  for (const auto& stream : streams_->InUse()) {
    if (stream->from()->name == from && stream->to()->name == to) stream->Finish();
  }
}

void LoopbackWorld::KillHost(const std::string& name, LoopbackDeath death) {
  Host* host = FindUp(network_.get(), name);
  bool answers = death == LoopbackDeath::kReset;
  host->fate = answers ? Host::Fate::kAnswersForTheDead : Host::Fate::kSilent;
  for (const auto& stream : streams_->InUse()) {
    if (stream->from() != host) continue;
    if (answers) stream->Reset(true);
    stream->FallSilent();
  }
}

reactor::Reactor* LoopbackWorld::RestartHost(const std::string& name) {
  Host* dead = network_->Find(name);
  FUSEWIRE_CHECK(dead != nullptr);
  FUSEWIRE_CHECK(dead->fate != Host::Fate::kUp);
  dead->fate = Host::Fate::kAnswersForTheDead;
  Host* host = network_->AddHost(name);
  for (const auto& stream : streams_->InUse()) {
    if (stream->to() == dead) stream->AnswerForTheDead();
  }
  return host->reactor.get();
}

void LoopbackWorld::PauseHost(const std::string& name) { FindUp(network_.get(), name)->paused = true; }

void LoopbackWorld::ResumeHost(const std::string& name) { FindUp(network_.get(), name)->paused = false; }

void LoopbackWorld::PointName(const std::string& name, const std::string& host) { network_->PointName(name, host); }

}  // namespace fusewire::transport
