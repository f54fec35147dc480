// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/mpi/world.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/collective/kernels/types.h"
#include "fusewire/p2p/c_api.h"

namespace fusewire::mpi {
namespace {

constexpr int kInvalid = 1;  // of docs/errors.md: the caller's arguments

struct LastError {
  int error_class = number::kSUCCESS;
  std::string text;
};
thread_local LastError last_error;

constexpr int64_t kLeaveNs = 10 * kSecondNs;  // operations that were aborted end at once
constexpr int64_t kTellNs = kSecondNs / 2;    // a peer that is gone is not told
constexpr int kTagBits = 32;                  // of MPI's own tag
constexpr uint64_t kNoticeTag = 0xffffffff;   // no tag of MPI, which are not negative

std::string Listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

// tag := 0 | hash of the communicator's name:31 | tag of MPI:32; those of groups begin with 1.
uint64_t TagsOf(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a: equal in all processes
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return (hash >> 33) << kTagBits;
}

void End(const Communicator& communicator) {
  if (communicator.notice != nullptr) fusewire_op_free(communicator.notice);
  if (communicator.group != nullptr) fusewire_group_free(communicator.group);
}

const char kNotJoined[] =
    "this process is not a rank of Fusewire's: call fusewire.jax.initialize() before the first use of a device, and "
    "keep the group until the process ends (see: fusewire explain jax)";

}  // namespace

int Fail(int error_class, std::string text) {
  last_error.error_class = error_class;
  last_error.text = std::move(text);
  return error_class;
}

int FailAs(int code, const std::string& what) {
  const char* const text = fusewire_error();
  std::string said = text == nullptr || *text == 0 ? "code " + std::to_string(code) : text;
  // The advice in the text is for callers of C and C++: a JAX program can't follow it.
  if (code != kInvalid) {
    said = said.substr(0, said.rfind("; next: "));
    said += "; next: find out what has happened there, and start the program again (see: fusewire explain jax#errors)";
  }
  return Fail(number::kERR_OTHER, what + ": " + said);
}

std::string TextOf(int error_class) {
  if (error_class == number::kSUCCESS) return "no error";
  if (error_class == last_error.error_class) return last_error.text;
  return "error class " + std::to_string(error_class) + "; its text is that of another thread or call";
}

World& TheWorld() {
  static World* const world = std::make_unique<World>().release();  // threads of XLA may outlive static objects
  return *world;
}

// ---- a call that uses a communicator ----

Use::Use(World& world, Handle handle) : world_(world) {
  MutexLock lock(world_.mutex_);
  const auto found = world_.communicators_.find(handle);
  if (found == world_.communicators_.end()) {
    error_ =
        world_.endpoint_ == nullptr
            ? Fail(number::kERR_OTHER, kNotJoined)
            : Fail(number::kERR_COMM, "no communicator has the handle " + std::to_string(handle) + ": it was freed");
    return;
  }
  communicator_ = found->second.get();
  if (!communicator_->failure.empty()) error_ = Fail(number::kERR_OTHER, communicator_->failure);
  ++world_.users_;
}

Use::~Use() {
  if (communicator_ != nullptr) world_.Release();
}

void World::Release() {
  std::vector<std::unique_ptr<Communicator>> freed;
  MutexLock lock(mutex_);
  if (--users_ > 0) return;
  freed.swap(freed_);
  changed_.NotifyAll();
  lock.Unlock();
  for (const auto& one : freed) End(*one);
}

// ---- joining and leaving ----

void World::Join(fusewire_endpoint* endpoint, fusewire_group* group, std::vector<std::string> names,
                 std::vector<std::string> addresses, int64_t timeout_ns) {
  auto all = std::make_unique<Communicator>();
  all->name = "world";
  all->rank = fusewire_group_rank(group);
  all->group = group;
  all->tags = TagsOf(all->name);
  for (size_t rank = 0; rank < names.size(); ++rank) all->ranks.push_back(static_cast<int>(rank));

  const MutexLock lock(mutex_);
  endpoint_ = endpoint;
  timeout_ns_ = timeout_ns;
  peers_.assign(names.size(), nullptr);
  names_ = std::move(names);
  addresses_ = std::move(addresses);
  communicators_[handle::kCOMM_WORLD] = std::move(all);
}

bool World::Leave() {
  std::map<Handle, std::unique_ptr<Communicator>> all;
  std::map<Handle, std::unique_ptr<Request>> requests;
  MutexLock lock(mutex_);
  all.swap(communicators_);
  requests.swap(requests_);
  for (const auto& [handle, one] : all)
    if (users_ > 0 && one->group != nullptr) fusewire_group_abort(one->group, "this process leaves the group");
  for (const auto& [handle, one] : requests) fusewire_op_cancel(one->op);
  const int64_t deadline_ns = Clock::Real()->NowNs() + kLeaveNs;
  bool in_time = true;
  while (users_ > 0 && in_time) in_time = changed_.WaitUntil(mutex_, deadline_ns);
  endpoint_ = nullptr;
  peers_.clear();
  lock.Unlock();
  if (!in_time) {
    for (auto& [handle, one] : all) (void)one.release();  // a thread still reads them
    for (auto& [handle, one] : requests) (void)one.release();
    return false;
  }
  for (const auto& [handle, one] : requests) fusewire_op_free(one->op);
  for (const auto& [handle, one] : all) {
    if (handle == handle::kCOMM_WORLD) one->group = nullptr;  // Python's
    End(*one);
  }
  return true;
}

// ---- communicators ----

void World::Expect(std::vector<int> ranks) {
  const MutexLock lock(mutex_);
  expected_ = std::move(ranks);
}

Handle World::Split(int color, int key) {
  const Use all(*this, handle::kCOMM_WORLD);
  auto made = std::make_unique<Communicator>();
  if (all.error() != number::kSUCCESS) {
    made->failure = TextOf(all.error());
    made->rank = key;
    made->ranks.resize(static_cast<size_t>(std::max(key, 0)) + 1);
    return Add(std::move(made));
  }
  std::vector<int> expected;
  {
    const MutexLock lock(mutex_);
    expected = expected_;
  }
  Membership found = expected.empty() ? AmongAll(*all.communicator(), color, key)
                                      : AmongExpected(*all.communicator(), std::move(expected), color, key);
  if (found.failure.empty() && color == number::kUNDEFINED) return handle::kCOMM_NULL;
  made->name = found.name;
  made->ranks = found.ranks;
  const auto place = std::find(found.ranks.begin(), found.ranks.end(), all->rank);
  made->rank = place == found.ranks.end() ? key : static_cast<int>(place - found.ranks.begin());
  made->failure = found.failure;
  made->tags = TagsOf(made->name);
  if (made->failure.empty()) {
    const int code = fusewire_group_subgroup(all->group, made->name.c_str(), made->ranks.data(),
                                             static_cast<int>(made->ranks.size()), &made->group);
    if (code != 0) {
      (void)FailAs(code, "the communicator of ranks " + Listed(made->ranks) + " could not be made");
      made->failure = TextOf(number::kERR_OTHER);
    }
  }
  return Add(std::move(made));
}

// As MPI has it: all ranks tell each other their colour and key, and those of one colour belong together.
World::Membership World::AmongAll(const Communicator& all, int color, int key) {
  const std::string number = std::to_string(Count("split"));
  Membership found = Ask(all.group, all.ranks, color, key);
  found.name = "mpi " + number + " of " + std::to_string(color);
  if (found.failure.empty()) return found;
  found.failure += "; that was communicator " + number +
                   " of this process, which all processes make together: for a mesh over some of them, call "
                   "fusewire.jax.prepare(mesh) in these first (see: fusewire explain jax#meshes)";
  return found;
}

// Among the ranks that prepare(mesh) has named; the others are not asked.
World::Membership World::AmongExpected(const Communicator& all, std::vector<int> expected, int color, int key) {
  std::sort(expected.begin(), expected.end());
  Membership found;
  found.ranks = expected;
  const std::string name = "mpi among " + Listed(expected);
  const std::string number = std::to_string(Count(name));
  fusewire_group* group = nullptr;
  const int code = fusewire_group_subgroup(all.group, (name + " asks " + number).c_str(), expected.data(),
                                           static_cast<int>(expected.size()), &group);
  if (code != 0) {
    (void)FailAs(code, "no group of processes " + Listed(expected));
    found.failure = TextOf(number::kERR_OTHER);
    return found;
  }
  found = Ask(group, expected, color, key);
  fusewire_group_free(group);
  found.name = name + " #" + number;
  if (found.failure.empty() && found.ranks.size() != expected.size())
    found.failure = "prepare(mesh) expects a communicator of processes " + Listed(expected) + ", but one of " +
                    Listed(found.ranks) + " was made meanwhile: run no other program during prepare()";
  return found;
}

// The ranks of this colour in the order of their keys, which XLA counts from 0.
World::Membership World::Ask(fusewire_group* group, const std::vector<int>& ranks, int color, int key) {
  Membership found;
  found.ranks = ranks;
  const size_t size = ranks.size();
  std::array<int32_t, 2> own{color, key};
  std::vector<int32_t> told(2 * size);
  const std::vector<uint64_t> counts(size, own.size());
  const fusewire_piece from{own.data(), sizeof(own)};
  const fusewire_piece to{told.data(), told.size() * sizeof(int32_t)};
  fusewire_collective_spec spec{};
  spec.kind = static_cast<int>(collective::CollectiveKind::kAllGather);
  spec.type = static_cast<int>(collective::Type::kI32);
  spec.counts = counts.data();
  spec.counts_size = counts.size();
  spec.from = &from;
  spec.from_size = 1;
  spec.to = &to;
  spec.to_size = 1;
  spec.timeout_ns = timeout_ns_;
  const int code = fusewire_group_run(group, &spec, nullptr);
  if (code != 0) {
    (void)FailAs(code, "a communicator could not be made");
    found.failure = TextOf(number::kERR_OTHER);
    return found;
  }
  std::vector<std::pair<int, int>> members;  // (key, rank)
  for (size_t place = 0; place < size; ++place)
    if (told[2 * place] == color) members.emplace_back(told[2 * place + 1], ranks[place]);
  std::sort(members.begin(), members.end());
  found.ranks.clear();
  bool in_step = color != number::kUNDEFINED;
  for (size_t place = 0; place < members.size(); ++place) {
    in_step = in_step && members[place].first == static_cast<int>(place);
    found.ranks.push_back(members[place].second);
  }
  if (!in_step && color != number::kUNDEFINED)
    found.failure = "the processes make their communicators in different orders: processes " + Listed(found.ranks) +
                    " don't mean the same one; run the same programs in the same order everywhere";
  return found;
}

int World::Count(const std::string& name) {
  const MutexLock lock(mutex_);
  return ++made_[name];
}

Handle World::Add(std::unique_ptr<Communicator> communicator) {
  const MutexLock lock(mutex_);
  const Handle handle = next_++;
  communicators_[handle] = std::move(communicator);
  return handle;
}

void World::Free(Handle handle) {
  std::unique_ptr<Communicator> last;
  MutexLock lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end() || handle == handle::kCOMM_WORLD) return;
  last = std::move(found->second);
  communicators_.erase(found);
  if (users_ > 0) {
    freed_.push_back(std::move(last));
    return;
  }
  lock.Unlock();
  End(*last);
}

void World::Break(Handle handle, const std::string& why) {
  MutexLock lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end() || !found->second->failure.empty()) return;
  found->second->failure = "an operation before this one has failed: " + why;
  fusewire_group_abort(found->second->group, why.c_str());
  if (found->second->notice == nullptr) return;  // no messages, so nobody listens
  const Communicator& communicator = *found->second;
  ++users_;  // it stays
  lock.Unlock();
  Tell(communicator, why);
  Release();
}

void World::Tell(const Communicator& communicator, const std::string& why) {
  const std::string text = why.substr(0, kNoticeBytes - 1);
  std::vector<fusewire_op*> told;
  for (const int rank : communicator.ranks) {
    if (rank == communicator.ranks[static_cast<size_t>(communicator.rank)]) continue;
    fusewire_peer* const peer = PeerOf(rank);
    if (peer == nullptr) continue;
    told.push_back(fusewire_send_op(endpoint_, peer, communicator.tags | kNoticeTag, text.c_str(), text.size() + 1, 0));
    fusewire_op_post(told.back(), kTellNs);
  }
  for (fusewire_op* const op : told) {
    (void)fusewire_op_wait(op, kTellNs);
    fusewire_op_free(op);
  }
}

void World::Listen(Handle handle) {
  const MutexLock lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end() || found->second->notice != nullptr) return;
  Communicator& one = *found->second;
  one.notice = fusewire_receive_op(endpoint_, nullptr, one.tags | kNoticeTag, one.notice_text.data(), kNoticeBytes - 1);
  fusewire_op_post(one.notice, std::numeric_limits<int64_t>::max());  // until the communicator is freed
}

std::string World::Told(Handle handle) {
  const MutexLock lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end()) return "this process has left the group";
  Communicator& one = *found->second;
  if (one.notice == nullptr || fusewire_op_wait(one.notice, 0) == 0 || fusewire_op_result(one.notice) != 0) return "";
  std::string text = std::string("another process says: ") + one.notice_text.data();
  if (one.failure.empty()) one.failure = "an operation before this one has failed: " + text;
  return text;
}

// ---- messages ----

fusewire_peer* World::PeerOf(int world_rank) {
  const MutexLock lock(mutex_);
  const auto rank = static_cast<size_t>(world_rank);
  if (rank >= peers_.size()) {
    (void)Fail(number::kERR_RANK, "there is no rank " + std::to_string(world_rank));
    return nullptr;
  }
  if (peers_[rank] == nullptr) {
    const int code = fusewire_connect(endpoint_, names_[rank].c_str(), addresses_[rank].c_str(), &peers_[rank]);
    if (code != 0) (void)FailAs(code, "no connection to rank " + std::to_string(world_rank));
  }
  return peers_[rank];
}

Handle World::Keep(std::unique_ptr<Request> request) {
  const MutexLock lock(mutex_);
  const Handle handle = next_++;
  requests_[handle] = std::move(request);
  return handle;
}

std::unique_ptr<Request> World::Take(Handle handle) {
  const MutexLock lock(mutex_);
  const auto found = requests_.find(handle);
  if (found == requests_.end()) return nullptr;
  std::unique_ptr<Request> request = std::move(found->second);
  requests_.erase(found);
  return request;
}

void World::DropRequests(Handle communicator) {
  std::vector<std::unique_ptr<Request>> dropped;
  MutexLock lock(mutex_);
  for (auto one = requests_.begin(); one != requests_.end();) {
    const bool ours = one->second->communicator == communicator && one->second->thread == std::this_thread::get_id();
    if (ours) dropped.push_back(std::move(one->second));
    one = ours ? requests_.erase(one) : std::next(one);
  }
  lock.Unlock();
  for (const auto& one : dropped) fusewire_op_free(one->op);
}

}  // namespace fusewire::mpi
