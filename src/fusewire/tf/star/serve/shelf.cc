// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/star/serve/shelf.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/distributed_runtime/session_mgr.h>
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/tf/bridge/names.h"
#include "fusewire/tf/heads/moves.h"

namespace fusewire::tf {
namespace {

std::string KeyOf(const std::string& session, const std::string& fingerprint) {
  return absl::StrCat(session, " ", fingerprint);
}

// For their sessions to come, after a move.
constexpr int64_t kWantedNs = 60 * kSecondNs;

}  // namespace

uint64_t Shelf::Join(const std::string& session, const std::string& key, Again* again) {
  auto found = parts_.find(key);
  if (found == parts_.end()) return kNotHere;
  *again = found->second.part->again();
  uint64_t& id = found->second.leases[session];
  if (id == 0) {
    id = ++last_id_;
    FUSEWIRE_DCHECK(id != kNotHere);
    leases_[id] = Lease{found->second.part, found->second.name, session, std::make_shared<Answers>(), {}};
  }
  return id;
}

TfStatus Shelf::Place(const std::string& session, const std::string& fingerprint,
                      const tensorflow::RegisterGraphRequest* request, uint64_t* id, Again* again) {
  Part::Owner owner;
  owner.env = env_;
  TF_RETURN_IF_ERROR(env_->session_mgr->WorkerSessionForSession(session, &owner.session));
  const bool is_isolated = GiveUpIfIsolated(*owner.session);
  {
    MutexLock lock(mutex_);
    *id = Join(session, KeyOf(session, fingerprint), again);
    if (*id == kNotHere && !is_isolated) *id = Join(session, KeyOf("", fingerprint), again);
    if (*id != kNotHere || request == nullptr) return TfStatus();
  }
  // Without the lock: making kernels may take long. If two threads make the same part, the first one is used.
  bool is_private = is_isolated || Part::NeedsSession(request->graph_def());
  if (is_private) owner.handle = session;
  if (!is_private) owner.session = nullptr;
  Placed placed;
  TF_RETURN_IF_ERROR(Make(fingerprint, *request, std::move(owner), &placed));
  std::string key = KeyOf(is_private ? session : "", fingerprint);
  MutexLock lock(mutex_);
  Keep(key, std::move(placed));
  *id = Join(session, key, again);
  FUSEWIRE_DCHECK(*id != kNotHere);
  return TfStatus();
}

bool Shelf::GiveUpIfIsolated(tensorflow::WorkerSession& session) {
  const bool is_isolated = session.device_mgr() != env_->device_mgr;
  if (is_isolated && snapshots_ != nullptr) snapshots_->GiveUp("the variables of a session of its own");
  return is_isolated;
}

TfStatus Shelf::Make(const std::string& fingerprint, const tensorflow::RegisterGraphRequest& request, Part::Owner owner,
                     Placed* placed) {
  const bool is_shared = owner.session == nullptr;
  if (is_shared) owner.handle = absl::StrCat("fusewire ", fingerprint);
  owner.ends = &ends_;
  if (snapshots_ != nullptr) {
    snapshots_->Learn(request.graph_def(), /*is_marked=*/true);
    owner.inventory = &snapshots_->inventory();
  }
  if (is_shared && snapshots_ != nullptr) {
    placed->piece = EncodePart(fingerprint, request.SerializeAsString());
  }
  placed->name = NameOfPart(request.graph_def());
  return Part::Make(request, std::move(owner), &placed->part);
}

void Shelf::Keep(const std::string& key, Placed placed) {
  if (parts_.emplace(key, std::move(placed)).second) GlobalCounters().Add(&Counters::star_parts);
}

std::vector<std::string> Shelf::Parts() {
  std::vector<std::string> pieces;
  MutexLock lock(mutex_);
  for (const auto& placed : parts_) {
    if (!placed.second.piece.empty()) pieces.push_back(placed.second.piece);
  }
  return pieces;
}

TfStatus Shelf::MakeAhead(const std::string& piece) {
  ConstBytes name, graph;
  tensorflow::RegisterGraphRequest request;
  const Status read = DecodePart(ConstBytes(piece), &name, &graph);
  if (!read.ok() || !request.ParseFromArray(graph.data, static_cast<int>(graph.size)))
    return absl::DataLossError("a part that is not a graph");
  const std::string fingerprint = name.ToString();
  Part::Owner owner;
  owner.env = env_;
  Placed placed;
  TF_RETURN_IF_ERROR(Make(fingerprint, request, std::move(owner), &placed));
  placed.wanted_ns = AddNs(Clock::Real()->NowNs(), kWantedNs);
  MutexLock lock(mutex_);
  Keep(KeyOf("", fingerprint), std::move(placed));
  return TfStatus();
}

void Shelf::SetHomes(reactor::Pool& homes) {
  for (int i = 0; i < homes.size(); ++i) {
    readings_.push_back(std::make_shared<Reading>());
    readings_.back()->home = &homes.at(i);
  }
}

Shelf::LeasePtr Shelf::Find(uint64_t id) {
  auto at_home = [](const auto& reading) { return reading->home->AtHome(); };
  auto here = std::find_if(readings_.begin(), readings_.end(), at_home);
  FUSEWIRE_CHECK(here != readings_.end());
  Reading& reading = **here;
  uint64_t endings = endings_.load(std::memory_order_acquire);
  if (reading.endings != endings) {
    reading.leases.clear();
    reading.endings = endings;
  }
  auto known = reading.leases.find(id);
  if (known != reading.leases.end()) return known->second;
  MutexLock lock(mutex_);
  auto found = leases_.find(id);
  if (found == leases_.end()) return nullptr;
  return reading.leases[id] = std::make_shared<const Lease>(found->second);
}

// Parts are destroyed before the objects that they were made with.
Shelf::~Shelf() {
  for (const auto& reading : readings_) {
    reading->home->Run([&reading] { reading->leases.clear(); });
  }
}

void Shelf::Release(const std::string& session) {
  std::vector<PartPtr> unused;  // destroyed after the lock has been released
  bool has_ended = false;
  MutexLock lock(mutex_);
  for (auto placed = parts_.begin(); placed != parts_.end();) {
    auto lease = placed->second.leases.find(session);
    if (lease == placed->second.leases.end()) {
      ++placed;
      continue;
    }
    has_ended = true;
    FUSEWIRE_DCHECK(leases_.count(lease->second) == 1);
    leases_.erase(lease->second);
    placed->second.leases.erase(lease);
    if (!placed->second.leases.empty()) {
      ++placed;
      continue;
    }
    unused.push_back(std::move(placed->second.part));
    placed = parts_.erase(placed);
    const uint64_t parts = GlobalCounters().star_parts.fetch_sub(1, std::memory_order_relaxed);
    FUSEWIRE_CHECK(parts > 0);
  }
  lock.Unlock();
  if (!has_ended) return;
  endings_.fetch_add(1, std::memory_order_release);
  for (const auto& reading : readings_) reading->home->Post([reading] { reading->leases.clear(); });
}

std::vector<AnswersPtr> Shelf::AllAnswers() {
  std::vector<AnswersPtr> all;
  MutexLock lock(mutex_);
  for (const auto& lease : leases_) all.push_back(lease.second.answers);
  return all;
}

std::set<std::string> Shelf::Sessions() {
  std::set<std::string> sessions;
  MutexLock lock(mutex_);
  for (const auto& lease : leases_) sessions.insert(lease.second.session);
  return sessions;
}

void Shelf::ReleaseUnwanted(int64_t now_ns) {
  std::vector<PartPtr> unwanted;  // destroyed after the lock has been released
  MutexLock lock(mutex_);
  for (auto placed = parts_.begin(); placed != parts_.end();) {
    const bool is_wanted = !placed->second.leases.empty() || now_ns < placed->second.wanted_ns;
    if (!is_wanted) unwanted.push_back(std::move(placed->second.part));
    placed = is_wanted ? std::next(placed) : parts_.erase(placed);
  }
  GlobalCounters().star_parts.fetch_sub(unwanted.size(), std::memory_order_relaxed);
}

std::vector<std::string> Shelf::ReleaseEnded() {
  ReleaseUnwanted(Clock::Real()->NowNs());
  std::vector<std::string> ended;
  for (const std::string& session : Sessions()) {
    SessionPtr found;
    if (env_->session_mgr->WorkerSessionForSession(session, &found).ok()) continue;
    Release(session);
    ended.push_back(session);
  }
  return ended;
}

}  // namespace fusewire::tf
