// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/group_monitor.h"

#include <array>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/metrics.h"
#include "fusewire/observe/watch.h"

namespace fusewire::collective {
namespace {

// A reader needs one rank to follow, and a few to tell a slow rank from a slow network.
constexpr size_t kLateMax = 8;

}  // namespace

// A cache line of its own: its writer is the only one that takes it. The counts stay when the place is free again.
struct alignas(64) TallyPlace {
  std::atomic<bool> is_taken{false};
  Counter operations, bytes;
};

namespace {

std::array<TallyPlace, kTallies> places;
SharedCounter other_operations, other_bytes;

// Null: all are taken.
TallyPlace* TakePlace() {
  for (TallyPlace& place : places) {
    if (!place.is_taken.exchange(true, std::memory_order_acquire)) return &place;
  }
  return nullptr;
}

constexpr size_t kTagsKeptMax = 1024;
constexpr const char* kProtocol = "collective";

// The names that endpoints have. They live as long as a group of the endpoint does, and groups as long as the endpoint.
struct AllNames {
  Mutex mutex;
  std::map<const p2p::Endpoint*, std::weak_ptr<const TaskNames>> names FUSEWIRE_GUARDED_BY(mutex);
};

AllNames& TheNames() {
  static AllNames* const all = std::make_unique<AllNames>().release();  // until the process ends
  return *all;
}

// shared_ptr: as GroupMonitor holds it.
std::shared_ptr<const TaskNames> NamesOf(const p2p::Endpoint& endpoint) {
  AllNames& all = TheNames();
  MutexLock lock(all.mutex);
  const auto found = all.names.find(&endpoint);
  return found == all.names.end() ? nullptr : found->second.lock();
}

// shared_ptr: the same; null: it has none any more.
void SetNames(const p2p::Endpoint& endpoint, const std::shared_ptr<const TaskNames>& names) {
  AllNames& all = TheNames();
  MutexLock lock(all.mutex);
  for (auto one = all.names.begin(); one != all.names.end();) {
    one = one->second.expired() ? all.names.erase(one) : std::next(one);
  }
  if (names == nullptr) {
    all.names.erase(&endpoint);
  } else {
    all.names[&endpoint] = names;
  }
}

std::string TaskOf(int rank) { return "rank:" + std::to_string(rank); }

// 1024 -> "1,024"
std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

// "all-reduce f32 1,024"
std::string WordsOf(CollectiveKind kind, Type type, uint64_t count) {
  if (kind == CollectiveKind::kBarrier) return KindName(kind);
  return KindName(kind) + " " + TypeName(type) + " " + Grouped(count);
}

std::vector<observe::Number> ReadNumbers(const TallySum& before) {
  const TallySum now = TallyOfAll();
  return {{"collectives", "Collective operations over our wire.", false, now.operations - before.operations},
          {"collective_bytes", "Bytes of the arrays of collective operations.", false, now.bytes - before.bytes}};
}

}  // namespace

Tally::Tally() : place_(TakePlace()) {}

Tally::~Tally() {
  if (place_ != nullptr) place_->is_taken.store(false, std::memory_order_release);
}

void Tally::Add(uint64_t bytes) {
  if (place_ != nullptr) {
    place_->operations.Add();
    place_->bytes.Add(bytes);
  } else {
    other_operations.Add();
    other_bytes.Add(bytes);
  }
}

TallySum TallyOfAll() {
  TallySum sum{other_operations.Read(), other_bytes.Read()};
  for (const TallyPlace& place : places) {
    sum.operations += place.operations.Read();
    sum.bytes += place.bytes.Read();
  }
  return sum;
}

Status StartWatch(const std::string& place, const std::string& runtime, const std::string& secret, bool* is_on) {
  *is_on = false;
  const observe::Place where = FUSEWIRE_TRY(observe::ReadPlace(place, secret));
  if (where.is_off) return Status::Ok();
  // A child of fork() has the counts of its parent.
  const Status failed =
      observe::StartWatch(where, secret, runtime, [before = TallyOfAll()] { return ReadNumbers(before); });
  *is_on = true;
  return failed.ok() ? failed : failed.Next("set FUSEWIRE_STATUS to another place, or to off");
}

void GroupMonitor::Open(const Seats& seats) {
  observe::Watch* const watch = observe::Watch::Get();
  if (watch == nullptr) return;  // in a child of fork(), which has to begin anew
  if (NamesOf(endpoint_) == nullptr) {
    TaskNames tasks;
    for (int rank = 0; rank < seats.ranks(); ++rank) tasks[seats.OfRank(rank).name] = TaskOf(rank);
    tasks_ = std::make_shared<const TaskNames>(std::move(tasks));
    SetNames(endpoint_, tasks_);
    const std::string own = TaskOf(seats.rank());
    // Another endpoint of this process may be the same rank of another job: the first one is shown.
    if (!watch->HasTask(own)) {
      task_ = own;
      observe::TaskFacts facts;
      facts.task = own;
      facts.protocol = kProtocol;
      facts.data_port = endpoint_.address().port;
      facts.members = std::make_shared<observe::Members>(MembersOf(seats));
      watch->AddTask(std::move(facts));
    }
  }
  Renew(seats);
}

void GroupMonitor::Renew(const Seats& seats) {
  if (tasks_ == nullptr) tasks_ = NamesOf(endpoint_);
  if (tasks_ == nullptr) return;
  {
    MutexLock lock(mutex_);
    of_ranks_.clear();
    for (int rank = 0; rank < seats.ranks(); ++rank) of_ranks_.push_back(NameOf(seats, rank));
    own_ = of_ranks_[static_cast<size_t>(seats.rank())];
    where_ = task_.empty() ? " in " + options_.name : "";
    tags_.clear();
  }
  is_on_.store(true, std::memory_order_relaxed);
  observe::Watch* const watch = observe::Watch::Get();
  // Ranks that the group has lost are not members any more.
  if (!task_.empty() && seats.epoch() > 0 && watch != nullptr) watch->SetMembers(task_, MembersOf(seats));
}

std::string GroupMonitor::NameOf(const Seats& seats, int rank) const {
  const std::string& name = seats.OfRank(rank).name;
  const auto found = tasks_->find(name);
  return found == tasks_->end() ? name : found->second;
}

// Each with its address: two jobs on one machine have others.
std::map<std::string, std::string> GroupMonitor::MembersOf(const Seats& seats) const {
  std::map<std::string, std::string> members;
  for (int rank = 0; rank < seats.ranks(); ++rank) {
    transport::Address address = options_.members[static_cast<size_t>(seats.SeatOfRank(rank))].address;
    // The port that the kernel has chosen: nobody dials it, so this is the only rank.
    if (rank == seats.rank() && address.port == 0) address = endpoint_.address();
    members[NameOf(seats, rank)] = address.host.empty() ? seats.OfRank(rank).name : address.ToString();
  }
  return members;
}

void GroupMonitor::Close() {
  is_on_.store(false, std::memory_order_relaxed);
  observe::Watch* const watch = observe::Watch::Get();
  if (task_.empty()) return;
  if (watch != nullptr) watch->RemoveTask(task_);
  task_.clear();
  SetNames(endpoint_, nullptr);  // the next group names them anew
}

std::string GroupMonitor::PeerOf(int rank) const {
  const auto index = static_cast<size_t>(rank);
  return rank >= 0 && index < of_ranks_.size() ? of_ranks_[index] : std::to_string(of_ranks_.size()) + " ranks";
}

uint32_t GroupMonitor::Find(int rank, const std::string& name) {
  return observe::FindTag(observe::Kind::kCollective, own_, PeerOf(rank), name + where_);
}

uint32_t GroupMonitor::TagOf(const CollectiveSpec& spec, int rank) {
  const uint64_t count = IsEven(spec) ? BytesOf(spec) / SizeOf(spec.reduction.type) : SumOf(spec.counts);
  const uint64_t key = count << 24 | static_cast<uint64_t>(spec.kind) << 20 |
                       static_cast<uint64_t>(spec.reduction.type) << 16 | static_cast<uint16_t>(rank + 1);
  MutexLock lock(mutex_);
  const auto found = tags_.find(key);
  if (found != tags_.end()) return found->second;
  if (tags_.size() >= kTagsKeptMax) tags_.clear();
  return tags_[key] = Find(rank, WordsOf(spec.kind, spec.reduction.type, count));
}

uint32_t GroupMonitor::TagOfAgreement(int rank) {
  MutexLock lock(mutex_);
  return Find(rank, "agreement on shared memory");
}

uint32_t OpRecord::TagOf(int rank) const {
  return place_ == kAgreement ? monitor_->TagOfAgreement(rank) : monitor_->TagOf(*spec_, rank);
}

void OpRecord::Begin(GroupMonitor* monitor, const CollectiveSpec& spec, int64_t place, uint64_t flow, int64_t now_ns) {
  FUSEWIRE_DCHECK(!begun());
  if (!monitor->on() || observe::TheRecorder() == nullptr) return;
  monitor_ = monitor;
  spec_ = &spec;
  place_ = place;
  flow_ = flow;
  begun_ns_ = now_ns;
  whole_ = observe::BeginOp(TagOf(-1), place, flow, now_ns);
}

void OpRecord::WaitFor(const std::vector<int>& missing, int64_t since_ns) {
  if (!begun() || missing == missing_) return;
  missing_ = missing;
  const auto end = missing.begin() + static_cast<std::ptrdiff_t>(std::min(missing.size(), kLateMax));
  for (Late& late : late_) {
    if (std::find(missing.begin(), end, late.rank) == end) observe::EndOp(&late.op, true);
  }
  std::erase_if(late_, [](const Late& late) { return !late.op; });
  for (auto rank = missing.begin(); rank != end; ++rank) {
    const auto is_it = [rank](const Late& late) { return late.rank == *rank; };
    if (std::any_of(late_.begin(), late_.end(), is_it)) continue;
    late_.push_back(Late{*rank, observe::BeginOp(TagOf(*rank), place_, flow_, since_ns)});
  }
}

void OpRecord::End(bool is_ok, uint64_t bytes) {
  if (!begun()) return;
  for (Late& late : late_) observe::EndOp(&late.op, is_ok);
  late_.clear();
  missing_.clear();
  observe::EndOp(&whole_, is_ok, bytes);
  monitor_ = nullptr;
}

}  // namespace fusewire::collective
